"""Distances checked by what the model itself was asked and said, however an estimator keeps its books."""

import numpy as np
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.distances.measure import measure
from fairmargin.models.as_classifier import as_classifier


class Noting(nn.Module):
    """Notes what it is asked and what it answers."""

    def __init__(self, body):
        super().__init__()
        self.body, self.asked, self.answered = body, [], []

    def forward(self, x):
        scores = self.body(x)
        self.asked.append(x.detach().flatten(1).double().numpy().copy())
        self.answered.append(scores.detach().double().numpy().copy())
        return scores


class Formula(nn.Module):
    """Scores that are a function of the inputs."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def measured_and_confirmed(body, x, estimator, classes, domain=None):
    """The distances from the model's own predictions, after checking every finite upper bound by what the model said.

    Independent of how an estimator keeps its books: somewhere the model must have been asked about an input at that
    distance, inside the domain, with all features that cannot move where they were, and have named another class.
    """
    domain, noting = Domain(0, 1) if domain is None else domain, Noting(body)
    model = as_classifier(noting, classes=range(classes), domain=domain)
    y = model.predict(x)
    noting.asked.clear(), noting.answered.clear()
    found = measure(model, x, y, estimator)
    assert found.correct.all()
    assert not np.isnan(found.values).any()
    if found.bound not in (Bound.EXACT, Bound.UPPER):
        return found, model
    asked, answered = np.concatenate(noting.asked), np.concatenate(noting.answered)
    usable = domain.contains(asked, slack=1e-6) & np.isfinite(answered).all(axis=1)
    movable = domain.movable(asked.shape[1])
    scale = domain.flat(asked.shape[1])[2][movable]
    for row, label, value in zip(x.reshape(len(x), -1), y, found.values, strict=True):
        if np.isfinite(value):
            fits = usable & (answered.argmax(axis=1) != label) & (asked[:, ~movable] == row[~movable]).all(axis=1)
            lengths = estimator.norm.length((asked[fits][:, movable] - row[movable].astype(float)) / scale)
            assert np.isclose(lengths, value, rtol=1e-6, atol=1e-12).any(), "no such misclassified input was seen"
    return found, model
