"""Multi-layer perceptrons of scikit-learn, read into weights from which scores and a torch module are made."""

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np

from fairmargin.core.arrays import Floats, read_only
from fairmargin.errors import ModelError

if TYPE_CHECKING:
    from torch import nn

Activation = Literal["identity", "logistic", "tanh", "relu"]

BLOCK = 64  # rows of one matrix product; with a fixed number, the scores of a row do not depend on the other rows
_OUTPUTS = ("logistic", "softmax")


@dataclass(frozen=True, slots=True, eq=False)
class NetworkHead:
    """A multi-layer perceptron with one score per class; the first of equal scores wins.

    A model of two classes has a single output z, the log-odds of the second class; its scores are 0 and z.

    Parameters
    ----------
    weights
        One array per layer, of shape (inputs, outputs).
    biases
        One number per output of each layer.
    activation
        Function between the layers; the last layer has none.
    """

    weights: tuple[Floats, ...]
    biases: tuple[Floats, ...]
    activation: Activation

    def __post_init__(self) -> None:
        for name in ("weights", "biases"):
            arrays = tuple(read_only(np.array(each, dtype=np.float64, order="C")) for each in getattr(self, name))
            object.__setattr__(self, name, arrays)

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of a network."""
        return frozenset({"predict", "gradient"})

    @property
    def classes(self) -> int:
        """The number of classes."""
        return max(2, len(self.biases[-1]))

    def scores(self, features: Floats) -> Floats:
        """Return one score per class of each row of features; those of a row do not depend on the other rows."""
        return self.scores_of_first(product(features, self.weights[0]) + self.biases[0])

    def scores_of_first(self, first: Floats) -> Floats:
        """Return the scores that belong to the sums of the first layer, before its activation."""
        values = first
        for weight, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            values = product(_activated(values, self.activation), weight) + bias
        return np.hstack([np.zeros_like(values), values]) if values.shape[1] == 1 else values

    def slopes_of_first(self, first: Floats, weight: Floats) -> Floats:
        """Return the gradient of ⟨weight, scores⟩ of each row with respect to the sums of the first layer."""
        sums = [first]
        for layer, bias in zip(self.weights[1:], self.biases[1:], strict=True):
            sums.append(product(_activated(sums[-1], self.activation), layer) + bias)
        slope = weight[:, 1:] if sums[-1].shape[1] == 1 else weight
        for layer, below in zip(self.weights[:0:-1], sums[-2::-1], strict=True):
            slope = product(slope, np.ascontiguousarray(layer.T)) * _slope(below, self.activation)
        return np.asarray(slope)

    def module(self, first: int = 0) -> "nn.Module":
        """Return the network as a torch module in double precision, from the layer at position `first` on.

        With `first=1` the module takes the sums of the first layer, before its activation.
        """
        import torch
        from torch import nn

        kinds = {"identity": nn.Identity, "logistic": nn.Sigmoid, "tanh": nn.Tanh, "relu": nn.ReLU}
        steps: list[nn.Module] = [kinds[self.activation]()] if 0 < first < len(self.weights) else []
        for place, (weight, bias) in list(enumerate(zip(self.weights, self.biases, strict=True)))[first:]:
            layer = nn.Linear(weight.shape[0], weight.shape[1], dtype=torch.float64)
            with torch.no_grad():
                layer.weight.copy_(torch.from_numpy(weight.T.copy()))
                layer.bias.copy_(torch.from_numpy(bias.copy()))
            steps += [layer] if place == len(self.weights) - 1 else [layer, kinds[self.activation]()]
        if len(self.biases[-1]) == 1:
            steps.append(nn.ConstantPad1d((1, 0), 0.0))  # the score 0 of the first class
        return nn.Sequential(*steps).eval().requires_grad_(False)

    def fingerprint(self) -> str:
        """Return a hash of weights, biases and the activation."""
        shapes = repr((self.activation, [each.shape for each in self.weights]))
        numbers = b"".join(each.astype("<f8").tobytes() for each in (*self.weights, *self.biases))
        return sha256(shapes.encode() + numbers).hexdigest()


def read_mlp(mlp: Any) -> NetworkHead:
    """Return the network of a fitted `MLPClassifier`.

    >>> from sklearn.neural_network import MLPClassifier
    >>> mlp = MLPClassifier((3,), max_iter=500, random_state=0).fit([[0.0], [1.0]] * 9, ["no", "yes"] * 9)
    >>> read_mlp(mlp).scores(np.array([[0.0], [1.0]])).argmax(axis=1).tolist()
    [0, 1]
    """
    name = type(mlp).__name__
    if not hasattr(mlp, "coefs_"):
        raise ModelError(f"This `{name}` is not fitted. Call its `fit` first.")
    outputs, output = len(mlp.intercepts_[-1]), mlp.out_activation_
    if output not in _OUTPUTS or (output == "logistic" and outputs > 1):
        raise ModelError(
            f"This `{name}` was trained on several labels per row, so that a row has no single class. Train one "
            "classifier per label."
        )
    head = NetworkHead(tuple(mlp.coefs_), tuple(mlp.intercepts_), cast(Activation, mlp.activation))
    if not all(np.isfinite(each).all() for each in (*head.weights, *head.biases)):
        raise ModelError(f"The weights of this `{name}` hold NaN or infinity; did its training diverge?")
    return head


def product(rows: Floats, weight: Floats) -> Floats:
    """Return `rows @ weight`, by products of a fixed number of rows.

    Matrix products choose the order of additions by the number of rows, and another order rounds differently.
    """
    width, whole = weight.shape[1], len(rows) // BLOCK * BLOCK
    found = np.empty((len(rows), width))
    found[:whole] = np.matmul(rows[:whole].reshape(-1, BLOCK, rows.shape[1]), weight).reshape(-1, width)
    if whole < len(rows):
        last = np.zeros((BLOCK, rows.shape[1]))
        last[: len(rows) - whole] = rows[whole:]
        found[whole:] = (last @ weight)[: len(rows) - whole]
    return found


def _activated(values: Floats, activation: Activation) -> Floats:
    if activation == "relu":
        return np.maximum(values, 0.0)
    if activation == "tanh":
        return np.tanh(values)
    if activation == "logistic":
        return 0.5 * (1.0 + np.tanh(0.5 * values))  # the logistic function, without overflow
    return values


def _slope(values: Floats, activation: Activation) -> Floats:
    """Return the derivative of an activation."""
    if activation == "relu":
        return (values > 0).astype(np.float64)
    active = _activated(values, activation)
    if activation == "tanh":
        return np.asarray(1.0 - active**2)
    if activation == "logistic":
        return np.asarray(active * (1.0 - active))
    return np.ones_like(values)
