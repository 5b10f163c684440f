"""Distances checked by the inputs that a model was given and the scores that it returned."""

import numpy as np
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.models.as_classifier import as_classifier


class Recording(nn.Module):
    """Module that records its inputs and outputs."""

    def __init__(self, body):
        super().__init__()
        self.body, self.inputs, self.outputs = body, [], []

    def forward(self, x):
        scores = self.body(x)
        self.inputs.append(x.detach().flatten(1).double().numpy().copy())
        self.outputs.append(scores.detach().double().numpy().copy())
        return scores


class Formula(nn.Module):
    """Scores that are a function of the inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def of_formula(function, classes=2, **settings):
    """Return a classifier whose scores are a function of the inputs, in the unit box if no domain is given."""
    return as_classifier(Formula(function), classes=range(classes), **settings)


def exact(model, x, norm=Norm.L2):
    """Return the exact distances of a linear model from its own predictions."""
    return measure(model, x, model.predict(x), ExactLinear(norm)).values


def assert_independent_of_the_batch(run, x, y):
    """Assert that `run(x, y)` gives every sample the same bits alone and in any order; return its result."""
    together = run(x, y)
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(run(x[order], y[order]), together[order])
    for i in sorted({0, len(x) // 2, len(x) - 1}):
        np.testing.assert_array_equal(run(x[i : i + 1], y[i : i + 1]), together[i : i + 1])
    return together


def measured_and_confirmed(body, x, estimator, classes, domain=None):
    """Return distances from the model's own predictions after checking each finite upper bound, and the model.

    The check does not use what the estimator records: the model must have been evaluated at an input at that distance,
    inside the domain and with unchanged immutable features, and must have returned another class.
    """
    domain, recording = Domain(0, 1) if domain is None else domain, Recording(body)
    model = as_classifier(recording, classes=range(classes), domain=domain)
    y = model.predict(x)
    recording.inputs.clear(), recording.outputs.clear()
    found = measure(model, x, y, estimator)
    assert found.correct.all()
    assert not np.isnan(found.values).any()
    if found.bound not in (Bound.EXACT, Bound.UPPER):
        return found, model
    inputs, outputs = np.concatenate(recording.inputs), np.concatenate(recording.outputs)
    usable = domain.contains(inputs, slack=1e-6) & np.isfinite(outputs).all(axis=1)
    movable = domain.movable(inputs.shape[1])
    scale = domain.flat(inputs.shape[1])[2][movable]
    for row, label, value in zip(x.reshape(len(x), -1), y, found.values, strict=True):
        if np.isfinite(value):
            fits = usable & (outputs.argmax(axis=1) != label) & (inputs[:, ~movable] == row[~movable]).all(axis=1)
            lengths = estimator.norm.length((inputs[fits][:, movable] - row[movable].astype(float)) / scale)
            assert np.isclose(lengths, value, rtol=1e-6, atol=1e-12).any(), "no such misclassified input was evaluated"
    return found, model
