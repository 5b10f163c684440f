"""The models and the samples that everyone is measured on.

Three models are by others (../shared/weights). One was trained by `_trained`; its weights are committed, since training
on another machine gives other weights and with them other distances.
Samples are test images that the model classifies correctly, in one shuffled order: the first `SAMPLES` of them are
measured, the next `TUNING` are those on which the peers were tuned.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import fairmargin as fm
from fairmargin.models.normalized import IMAGENET_MEAN, IMAGENET_STD, Normalized
from fairmargin.models.reading.weights import load_weights

ROOT = Path(__file__).parents[2]
SHARED = ROOT.parent / "shared"
OUT = ROOT / "benchmarks" / "out"
LENET = ROOT / "benchmarks" / "lenet.pt"
TUNING = 128
_EPOCHS, _BATCH, _RATE = 10, 128, 2e-3


@dataclass(frozen=True, slots=True)
class Card:
    """What is known of a model before it is loaded."""

    title: str
    architecture: str
    data: str
    weights: str | None
    samples: int
    normalised: bool = False


CARDS = {
    "lenet": Card("LeNet-5, Fashion-MNIST", "lenet5", "fashion-mnist", None, 512),
    "resnet20": Card("ResNet-20, CIFAR-10", "resnet20", "cifar10", "cifar10-resnet20-12fca82f.th", 256, True),
    "robust": Card("robust CNN, MNIST", "mnist_cnn", "mnist", "mnist-lenet5madry-adversarial.pt", 512),
    "clean": Card("plain CNN, MNIST", "mnist_cnn", "mnist", "mnist-lenet5madry-clean.pt", 512),
}


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """A model that takes images in [0, 1], the samples that are measured, and others to tune on."""

    name: str
    card: Card
    model: nn.Module
    x: Tensor
    y: Tensor
    x_tuning: Tensor
    y_tuning: Tensor
    accuracy: float


def load_subject(name: str) -> Subject:
    """One of `CARDS`, ready to be measured."""
    card = CARDS[name]
    test = fm.load(card.data, root=SHARED / "data", split="test")
    x, y = torch.as_tensor(np.asarray(test.x[:]), dtype=torch.float32), torch.as_tensor(np.asarray(test.y))
    network = fm.build_architecture(card.architecture, tuple(x.shape[1:]), 10)
    if card.weights is None:
        _trained(network, card, LENET)
    else:
        load_weights(network, SHARED / "weights" / card.weights)
    model = (Normalized(network, IMAGENET_MEAN, IMAGENET_STD) if card.normalised else network).eval()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    right = predictions(model, x) == y
    order = torch.as_tensor(np.random.default_rng(0).permutation(len(x)))
    order = order[right[order]]
    mine, apart = order[: card.samples], order[card.samples : card.samples + TUNING]
    return Subject(name, card, model, x[mine], y[mine], x[apart], y[apart], float(right.double().mean()))


def predictions(model: nn.Module, x: Tensor, batch: int = 64) -> Tensor:
    """What the model takes each input for."""
    with torch.no_grad():
        return torch.cat([model(part).argmax(dim=1) for part in x.split(batch)])


def _trained(network: nn.Module, card: Card, path: Path) -> None:
    """Weights into the network, from the file if there is one, else by training: Adam, cosine, one seed."""
    if path.is_file():
        load_weights(network, path)
        return
    print(f"training {card.title} (about a minute or two, once)…", flush=True)
    train = fm.load(card.data, root=SHARED / "data", split="train")
    x, y = torch.as_tensor(np.asarray(train.x[:]), dtype=torch.float32), torch.as_tensor(np.asarray(train.y))
    torch.manual_seed(0)
    for layer in network.modules():
        if hasattr(layer, "reset_parameters"):
            layer.reset_parameters()
    network.train()
    optimiser = torch.optim.Adam(network.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, _EPOCHS * (len(x) // _BATCH))
    for _ in range(_EPOCHS):
        for part in torch.randperm(len(x))[: len(x) // _BATCH * _BATCH].split(_BATCH):
            optimiser.zero_grad()
            nn.functional.cross_entropy(network(x[part]), y[part]).backward()
            optimiser.step()
            schedule.step()
    torch.save(network.state_dict(), path)
