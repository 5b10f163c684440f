"""Small networks and data to train on."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.data.dataset import Dataset
from fairmargin.training.parts.batch import Batch, Space
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe

NAMES = ("a", "b", "c", "absent")


def tiny(normed=False, inputs=3, classes=3, seed=0, dtype=torch.float64):
    """Return a network of linear, BatchNorm if `normed`, tanh and linear layers, with weights far from 0."""
    middle = [nn.BatchNorm1d(4)] if normed else []
    net = nn.Sequential(nn.Linear(inputs, 4), *middle, nn.Tanh(), nn.Linear(4, classes)).to(dtype)
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random, dtype=dtype))
    return net


def small_batch(count=12, seed=1):
    """Return samples in the unit box, of 3 classes and 3 of 4 groups."""
    random = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 3, generator=random, dtype=torch.float64)
    y = torch.randint(0, 3, (count,), generator=random)
    groups = torch.arange(count) % 3
    return Batch(x, y, groups, NAMES)


def space(dtype=torch.float64):
    return Space(torch.zeros(3, dtype=dtype), torch.ones(3, dtype=dtype), torch.tensor([1.0, 0.5, 2.0]).to(dtype))


@dataclass(frozen=True)
class Capturing:
    """An adversary that keeps the inputs it moved."""

    inner: object
    made: list

    def __call__(self, scores, batch, space, random):
        moved = self.inner(scores, batch, space, random)
        self.made.append(moved.clone())
        return moved

    def __hash__(self):
        return id(self)


def captured(recipe):
    """Return the recipe with adversaries that keep the inputs they moved, and a list of these inputs for each part."""
    made = [[] for _ in recipe.parts]
    parts = tuple(
        part if part.adversary is None else replace(part, adversary=Capturing(part.adversary, into))
        for part, into in zip(recipe.parts, made, strict=True)
    )
    return Recipe(parts, recipe.controller), made


def blobs(count=60, seed=0, features=3, classes=3, dtype=np.float32):
    """Return three clouds in the unit box with an attribute of two groups, of which the second is noisier."""
    random = np.random.default_rng(seed)
    y = np.arange(count) % classes
    group = np.where(random.uniform(size=count) < 0.6, "common", "rare")
    centers = np.eye(classes, features) * 0.5 + 0.25
    x = centers[y] + random.normal(size=(count, features)) * np.where(group == "common", 0.08, 0.2)[:, None]
    return Dataset(np.clip(x, 0, 1).astype(dtype), y, {"kind": group}, Domain(0, 1), name="blobs")


def line(values, labels, groups=None, **domain):
    """Return a dataset of one feature."""
    attributes = {} if groups is None else {"group": groups}
    return Dataset(np.asarray(values, dtype=np.float64)[:, None], np.asarray(labels), attributes, Domain(**domain))


def linear(inputs, slope=0.5):
    """Return a linear network of two classes whose first weights classify well."""
    net = nn.Linear(inputs, 2).double()
    with torch.no_grad():
        net.bias.zero_()
        net.weight.copy_(slope * torch.tensor([[-1.0] * inputs, [1.0] * inputs]))
    return net


def weights(module):
    return {name: part.clone() for name, part in module.state_dict().items()}


def same_weights(one, other):
    """Return whether two networks have the same weights, bit for bit."""
    left, right = weights(one), weights(other)
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


def changed(plan: TrainingPlan, **fields: object) -> TrainingPlan:
    """Return the plan with other values of some fields."""
    return TrainingPlan(**{**dict(plan), **fields})
