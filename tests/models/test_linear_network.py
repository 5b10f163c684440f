"""A torch network whose layers are all affine is a linear classifier, with exact distances."""

import numpy as np
import pytest
import torch
from torch import nn

import fairmargin as fm
from fairmargin.core.domain import Domain
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.errors import ModelError
from fairmargin.models.layers.linear_network import as_linear
from fairmargin.models.normalized import Normalized
from fairmargin.models.torch_model import from_torch
from fairmargin.runner.precision import PrecisionPlan, audit_to_precision

SHAPE = (3, 4, 4)


def trained_norm(channels):
    """BatchNorm with running statistics, as training leaves them."""
    layer = nn.BatchNorm2d(channels)
    layer.running_mean.normal_()
    layer.running_var.uniform_(0.5, 2.0)
    return layer


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(48, 48), nn.Linear(48, 5)

    def forward(self, x):
        flat = x.flatten(1)
        return self.last(self.first(flat) + flat)


AFFINE = {
    "logistic": lambda: fm.build_architecture("logistic", SHAPE, 5),
    "one layer, flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 5)),
    "normalised by channel": lambda: Normalized(
        nn.Sequential(nn.Flatten(), nn.Linear(48, 5)), (0.1, 0.5, 0.9), (0.2, 1.0, 3.0)
    ),
    "several layers": lambda: nn.Sequential(nn.Flatten(), nn.Linear(48, 7), nn.Identity(), nn.Linear(7, 5, bias=False)),
    "convolution, norm and pooling": lambda: nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), trained_norm(6), nn.AvgPool2d(2), nn.Flatten(), nn.Dropout(), nn.Linear(24, 5)
    ),
    "shortcut": Skip,
}


def samples(module, count=40):
    torch.manual_seed(1)
    x = torch.rand(count, *SHAPE)
    with torch.no_grad():
        return x.numpy(), module.eval()(x).argmax(dim=1).numpy()


@pytest.mark.parametrize("name", AFFINE)
def test_an_affine_network_has_the_scores_of_its_linear_classifier(name):
    torch.manual_seed(0)
    module = AFFINE[name]().eval()
    x, _ = samples(module)
    linear = as_linear(from_torch(module), SHAPE)
    with torch.no_grad():
        np.testing.assert_allclose(linear.scores(x), module(torch.tensor(x)).numpy(), atol=1e-5)


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_its_distances_are_exact(norm):
    torch.manual_seed(0)
    module = AFFINE["convolution, norm and pooling"]()
    x, y = samples(module)
    model = from_torch(module, domain=Domain(-50, 50))
    exact = measure(model, x, y, ExactLinear(norm))
    assert exact.bound.value == "exact"
    assert exact.correct.all()
    points = ExactLinear(norm).closest(as_linear(model, SHAPE), x, y)
    nearer, beyond = (model.predict(x + share * (points - x)) for share in (0.999, 1.001))
    assert (nearer == y).all()
    assert (beyond != y).all()


class HiddenReLU(nn.Linear):
    """A subclass may calculate something else than its base."""

    def forward(self, x):
        return super().forward(x).relu()


class Branching(nn.Linear):
    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else -super().forward(x)


@pytest.mark.parametrize(
    "module",
    [
        nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.ReLU()),
        nn.Sequential(nn.Flatten(), nn.Linear(48, 7), nn.ReLU(), nn.Linear(7, 5)),
        nn.Sequential(nn.MaxPool2d(2), nn.Flatten(), nn.Linear(12, 5)),
        nn.Sequential(nn.Flatten(), nn.Linear(48, 5), nn.Tanh()),
        nn.Sequential(nn.Flatten(), HiddenReLU(48, 5)),
        nn.Sequential(nn.Flatten(), Branching(48, 5)),
    ],
    ids=["relu at the end", "relu inside", "max pooling", "tanh", "subclass", "branching"],
)
def test_a_network_that_is_not_affine_is_refused(module):
    x, y = samples(module)
    assert as_linear(from_torch(module, classes=range(5)), SHAPE) is None
    with pytest.raises(ModelError, match=r"works on linear models only.*a torch module whose layers are all affine"):
        measure(from_torch(module, classes=range(5)), x, y, ExactLinear())


def test_samples_of_another_shape_are_refused_with_the_shape():
    with pytest.raises(ModelError, match=r"cannot take .* samples of shape \(4,\)"):
        measure(nn.Linear(3, 2), np.zeros((2, 4)), [0, 1], ExactLinear())


def test_an_affine_network_can_be_audited_to_a_precision_and_exactly():
    torch.manual_seed(0)
    module = AFFINE["one layer, flattened"]()
    x, y = samples(module, 120)
    groups = fm.Partition.by("half", ["a", "b"] * 60)
    found = audit_to_precision(module, x, y, groups, PrecisionPlan(0.5, reference=ExactLinear(), cheap=None))
    assert len(list(found)) == 2
