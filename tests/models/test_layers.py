"""Reading a model's layers: the steps give the model's own scores, and whatever is not known is refused by name."""

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from fairmargin.errors import ModelError
from fairmargin.models.architectures.catalog import ARCHITECTURES
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.layers.affine import (
    Affine,
    averaged,
    convolution,
    convolution_norm,
    dense,
    dense_norm,
    diagonal,
    moved,
)
from fairmargin.models.layers.steps import Added, Largest, Rectified
from fairmargin.models.layers.tracing import layers_of
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.normalized import Normalized
from fairmargin.models.references import Referenced
from tests.models.modules import then
from tests.perturbation.networks import cnn

IMAGE = (3, 8, 8)


def steps_of(module, shape, classes=4):
    model = as_classifier(module, classes=range(classes))
    with model.network(shape):
        return layers_of(model, shape)


def assert_gives_the_models_scores(module, shape, classes=4, tolerance=1e-5):
    x = torch.rand(5, *shape, generator=torch.Generator().manual_seed(0))
    layers = steps_of(module, shape, classes)
    with torch.no_grad():
        expected = module.eval()(x).double()
    torch.testing.assert_close(layers.scores(x.flatten(1)), expected, rtol=tolerance, atol=tolerance)
    return layers


def settled(module):
    """Set BatchNorm statistics other than 0 and 1."""
    torch.manual_seed(1)
    for part in module.modules():
        if isinstance(part, (nn.BatchNorm1d, nn.BatchNorm2d)):
            part.running_mean.normal_()
            part.running_var.uniform_(0.5, 2)
            nn.init.normal_(part.weight)
            nn.init.normal_(part.bias)
    return module.eval()


class Functions(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.head = nn.Conv2d(3, 6, 3, stride=2, dilation=2, padding=2, groups=3), nn.Linear(24, 4)

    def forward(self, x):
        x = functional.max_pool2d(torch.relu(self.conv(x)), 3, stride=1, padding=1)
        x = functional.avg_pool2d(functional.relu(x), 2)
        x = functional.dropout(x, 0.5, self.training)
        return self.head(x.view(x.size(0), -1)) / 2 - 0.5


class Around(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.head = nn.Conv2d(3, 6, 3, stride=2, padding="valid"), nn.Linear(6, 4)

    def forward(self, x):
        way = functional.pad(x[:, :, 1:7:2, ::3], (0, 0, 0, 0, 1, 2))
        x = functional.relu(self.inner(x))
        x += way
        return self.head(x.mean((2, 3)).reshape(x.shape[0], 6))


NETWORKS = {
    "a single layer": (nn.Linear(7, 4), (7,)),
    "a table with BatchNorm": (nn.Sequential(nn.Linear(7, 9), nn.BatchNorm1d(9), nn.ReLU(), nn.Linear(9, 4)), (7,)),
    "functions": (Functions(), IMAGE),
    "a branch": (Around(), IMAGE),
    "normalised": (Normalized(nn.Sequential(nn.Flatten(), nn.Linear(192, 4)), (0.1, 0.2, 0.3), (0.5, 1, 2)), IMAGE),
    "a sequence": (
        nn.Sequential(
            nn.Conv1d(2, 5, 3, padding="same"), nn.Dropout1d(), nn.ReLU(), nn.Flatten(), nn.Identity(), nn.Linear(40, 4)
        ),
        (2, 8),
    ),
    "pools": (
        nn.Sequential(
            nn.MaxPool2d(3, 2, ceil_mode=True),
            nn.BatchNorm2d(3),
            nn.AvgPool2d(2, 1, padding=1),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(12, 4),
        ),
        IMAGE,
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_steps_give_the_models_scores(name):
    module, shape = NETWORKS[name]
    assert_gives_the_models_scores(settled(module), shape)


@pytest.mark.parametrize("name", ["lenet5", "mnist_cnn", "resnet20"])
def test_the_networks_of_the_papers_can_be_read(name):
    torch.manual_seed(0)
    module = settled(ARCHITECTURES[name].build((3, 16, 16), 10))
    layers = assert_gives_the_models_scores(module, (3, 16, 16), 10, tolerance=1e-3)
    assert any(isinstance(step.kind, Rectified) for step in layers.steps)
    assert any(isinstance(step.kind, Added) for step in layers.steps) == (name == "resnet20")


def test_counts_the_inputs_of_nonlinear_steps_and_the_values_of_the_widest_step():
    layers = steps_of(cnn(epochs=0), (1, 8, 8), 10)
    assert layers.bent == 8 * 64 + 16 * 64 + 16 * 64
    assert layers.widest == 16 * 64


def test_linear_and_referenced_models_have_layers_too():
    model = LinearClassifier(np.eye(3), np.zeros(3))
    assert layers_of(Referenced(model, np.zeros((1, 3))), (3,)).scores(torch.ones(1, 3)).tolist() == [[1.0, 1.0, 1.0]]


class Doubling(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(4, 5, batch_first=True), nn.Linear(5, 4)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)
        self.inner.register_forward_hook(lambda *_: None)

    def forward(self, x):
        return self.inner(x)


REFUSED = {
    "a layer": (nn.Sequential(nn.Linear(4, 4), nn.Sigmoid()), (4,), "`Sigmoid` at `1`"),
    "a recurrent layer": (Recurrent(), (3, 4), "`LSTM` at `lstm`"),
    "a subclass": (nn.Sequential(nn.Flatten(), Doubling(4, 4)), (4,), "`(linear|mul)`"),
    "an operation": (then(nn.Linear(4, 4), torch.sin), (4,), "operation `sin`"),
    "a method": (then(nn.Linear(4, 4), lambda z: z.softmax(1)), (4,), "operation `softmax`"),
    "a product of values": (then(nn.Linear(4, 4), lambda z: z * z), (4,), "two values"),
    "a mix of samples": (then(nn.Linear(4, 4), lambda z: z - z.mean(0)), (4,), "samples"),
    "values that decide": (then(nn.Linear(4, 4), lambda z: z if z.sum() > 0 else -z), (4,), "cannot be read"),
    "a random dropout": (then(nn.Linear(4, 4), lambda z: functional.dropout(z, 0.5)), (4,), "training mode"),
    "an in-place change": (then(nn.Linear(4, 4), lambda z: functional.relu(z, inplace=True) + z), (4,), "in place"),
    "hooks": (Hooked(), (4,), "hooks"),
    "another padding": (
        nn.Sequential(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), nn.Flatten()),
        (1, 2, 2),
        "padding_mode='reflect'",
    ),
    "BatchNorm without statistics": (
        nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        (4,),
        "depends on the batch",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_unsupported_parts_are_refused_by_name(name):
    module, shape, words = REFUSED[name]
    with pytest.raises(ModelError, match=words) as caught:
        steps_of(module, shape)
    assert "Choose an estimator" in str(caught.value)


def matrix_of(function, shape):
    """Return the matrix of a linear function, column by column."""
    size = int(np.prod(shape))
    return function(torch.eye(size, dtype=torch.float64).reshape(size, *shape)).flatten(1).T


def some_layers():
    torch.manual_seed(3)
    kernel = torch.randn(4, 1, 3, 2)
    zero = torch.zeros(1)
    return {
        "dense": (dense(torch.randn(5, 6), torch.randn(5)), (6,)),
        "convolution": (convolution(kernel, torch.randn(4), (2, 1), (1, 1), (1, 2), 2, (2, 5, 6)), (2, 5, 6)),
        "diagonal": (diagonal(torch.randn(3, 1, 1), zero, zero, 2), (3, 2, 2)),
        "moved": (moved(lambda z: functional.pad(z[:, :, ::2], (1, 0)).flatten(1), (2, 4, 3), zero), (2, 4, 3)),
        "averaged": (averaged(nn.AvgPool2d(3, 1, padding=1), (1, 4, 4), zero, 9), (1, 4, 4)),
    }


@pytest.mark.parametrize("name", some_layers())
def test_the_parts_of_an_affine_layer_are_those_of_its_matrix(name):
    layer, shape = some_layers()[name]
    assert isinstance(layer, Affine)
    matrix = matrix_of(layer.apply, shape)
    torch.testing.assert_close(matrix_of(layer.absolute, shape), matrix.abs())
    if layer.squared is not None:
        torch.testing.assert_close(matrix_of(layer.squared, shape), matrix.square())
    out = layer.apply(torch.zeros(1, *shape, dtype=torch.float64)).shape[1:]
    torch.testing.assert_close(matrix_of(layer.adjoint, out), matrix.T)
    assert layer.norm >= torch.linalg.matrix_norm(matrix, 2)
    if layer.one_to_one:
        assert ((matrix != 0).sum(0) <= 1).all()
        assert ((matrix != 0).sum(1) <= 1).all()


@pytest.mark.parametrize("seed", range(5))
def test_norms_are_bounded_from_above_and_closely(seed):
    torch.manual_seed(seed)
    weight = torch.randn(30, 20, dtype=torch.float64)
    exact = torch.linalg.matrix_norm(weight, 2)
    assert exact <= dense_norm(weight) <= 1.05 * exact
    kernel = torch.randn(3, 2, 3, 3, dtype=torch.float64)
    layer = convolution(kernel, None, (1, 1), (1, 1), (1, 1), 1, (2, 12, 12))
    exact = torch.linalg.matrix_norm(matrix_of(layer.apply, (2, 12, 12)), 2)
    assert exact <= convolution_norm(kernel, 1) <= 1.25 * exact
    assert dense_norm(0 * weight) == convolution_norm(0 * kernel, 1) == 0


def test_large_layers_are_bounded_by_sums_alone():
    torch.manual_seed(0)
    weight = torch.randn(2100, 1000)
    assert dense_norm(weight) >= torch.linalg.matrix_norm(weight, 2)
    kernel = torch.randn(300, 300, 3, 3)
    assert convolution_norm(kernel, 1) >= torch.linalg.matrix_norm(kernel[:, :, 1, 1], 2)


def test_overlapping_windows_have_a_norm_above_1():
    layers = steps_of(nn.Sequential(nn.MaxPool2d(3, 1), nn.Flatten(), nn.Linear(108, 4)), IMAGE)
    kinds = [step.kind for step in layers.steps if isinstance(step.kind, Largest)]
    assert [kind.norm for kind in kinds] == [3.0]
