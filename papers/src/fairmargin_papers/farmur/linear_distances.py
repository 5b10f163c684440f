"""Mousavi's two formulas of a distance, on random linear models where the true distance is known."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.proxies.last_two_radii import LastTwoRadii
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.shared.claims import by_number
from fairmargin_papers.shared.paper import Assignment, Findings, Part, Picture
from fairmargin_papers.shared.pictures import COLOURS, panels, styled

_SHOWN = 1_500  # maximum number of samples in the figure
_OVERSHOOT = 0.05  # of the published DeepFool
_WRONG = 0.01  # relative error above which a formula is not exact


@dataclass(frozen=True, slots=True, eq=False)
class Formulas:
    """Distances of samples by several formulas."""

    exact: Floats
    squared: Floats  # by Eq. 7
    last_two: Floats  # by Eq. 8
    other_rival: Bools  # whether Eq. 7 chose another nearest class


def run(assignment: Assignment) -> Findings:
    """Compare the paper's formulas for a distance, Eq. 7 and Eq. 8, with true distances of random linear models.

    Labels are the models' own predictions, so that every sample is correct and has a distance above 0.
    """
    models, samples = assignment.by_scale((20, 50), (200, 200), (1_000, 200))
    found, weakest = [], 0
    for number in range(models):
        assignment.progress("farmur: linear models", number, models)
        model, x, y = random_model(number, samples)
        found.append(formulas(model, x, y))
        weakest += _weakest(found[-1].exact, y) != _weakest(found[-1].squared, y)
    assignment.progress("farmur: linear models", models, models)
    exact, squared, last_two, flips = (
        np.concatenate([getattr(each, name) for each in found])
        for name in ("exact", "squared", "last_two", "other_rival")
    )
    claims = assignment.claims
    off, half = squared / exact, last_two / exact
    low, middle, high = np.quantile(off, [0.0, 0.5, 1.0])
    wrong = float((np.abs(off - 1) > _WRONG).mean())
    expected = (1 + _OVERSHOOT) / 2
    rows = (
        claims[10].found(
            f"Eq. 7 ÷ true distance from {low:.3g} to {high:.3g}, median {middle:.3g}; another nearest class for "
            f"{flips.mean():.1%} of {len(exact):,} samples",
            "does not hold" if wrong > 0 else "holds",
            remark="The norm must not be squared: the factor is 1/‖w_l − w_k‖, another for each pair of classes. "
            f"So the most vulnerable class is another one in {weakest} of {models} models. An example: leads of 2 over "
            "a rival with ‖w‖ = 1 and of 10 over one with ‖w‖ = 4 are distances of 2 and 2.5; Eq. 7 gives 2 and 0.625 "
            "and takes the second for the nearest. Measured with the predicted label (the paper says “ground label”).",
        ),
        claims[11].found(
            f"Eq. 8 ÷ true distance from {half.min():.4f} to {half.max():.4f}",
            by_number((float(half.min()), float(half.max())), 1.0, 0.05),
            remark=f"On a linear model DeepFool arrives in one step of (1+η)d, and the radius before it is 0: the mean "
            f"is (1+η)d/2 = {expected:.3f}·d at the published η = {_OVERSHOOT:g}. It would count as an "
            "approximation within 5 % of the distance.",
        ),
    )
    picture = Picture(
        "formulas",
        "Both formulas against the true distance, on random linear models of 3 to 10 classes and 2 to 20 features; "
        f"at most {_SHOWN:,} of all samples are drawn.",
        formulas_picture(exact, squared, last_two, expected),
    )
    note = f"Linear models: {models} random ones, {samples} samples each, exact distances (`exact_linear`, L2)."
    return Findings(rows, (picture,), (note,))


@styled
def formulas_picture(exact: Floats, squared: Floats, last_two: Floats, expected: float) -> Figure:
    """Draw Eq. 7 (left) and Eq. 8 (right) against the exact distance, which is the black line."""
    figure, axes = panels(1, 2, width=4.6, height=4.0)
    shown = np.unique(np.linspace(0, len(exact) - 1, _SHOWN).astype(np.int64))
    low, high = float(exact[shown].min()), float(exact[shown].max())
    for number, (axis, values, title) in enumerate(
        zip(axes, (squared, last_two), ("Eq. 7: the norm squared", "Eq. 8: the last two radii"), strict=True)
    ):
        axis.loglog(
            exact[shown], values[shown], ".", markersize=3, color=COLOURS[number], alpha=0.6, label="a sample",
        )  # fmt: skip
        axis.loglog([low, high], [low, high], color="#222222", linewidth=1.2, label="the true distance")
        axis.set(xlabel="true distance (L2)", ylabel="what the formula says", title=title)
    axes[1].loglog(
        [low, high], [expected * low, expected * high], "--", color="#222222", linewidth=1, label=f"{expected:.3f} × it"
    )
    for axis in axes:
        axis.legend(fontsize=8, loc="upper left")
    return figure


PART = Part("linear", "distances of linear models", frozenset({10, 11}), run)


def random_model(seed: int, samples: int) -> tuple[LinearClassifier, Floats, Ints]:
    """Return a linear model with class weights of different lengths, samples, and its predictions for them.

    >>> model, x, y = random_model(0, 5)
    >>> bool((model.predict(x) == y).all())
    True
    """
    stream = np.random.default_rng(seed)
    classes, features = int(stream.integers(3, 11)), int(stream.integers(2, 21))
    length = np.exp(stream.normal(0.0, 0.7, (classes, 1)))
    model = LinearClassifier(length * stream.standard_normal((classes, features)), stream.standard_normal(classes))
    x = stream.standard_normal((samples, features))
    return model, x, model.predict(x)


def formulas(model: LinearClassifier, x: Floats, y: Ints) -> Formulas:
    """Return the true distances of samples that the model predicts as `y`, and those by the two formulas."""
    scores = model.scores(x)
    lead = scores[np.arange(len(y)), y][:, None] - scores
    length = np.linalg.norm(model.weight[y][:, None, :] - model.weight[None], axis=2)
    own = np.arange(scores.shape[1]) == y[:, None]
    length = np.where(own, 1.0, length)
    true, squared = (np.where(own, np.inf, lead / length**power) for power in (1, 2))
    return Formulas(
        measure(model, x, y, ExactLinear(), progress=False).values,
        squared.min(axis=1),
        measure(model, x, y, LastTwoRadii(rivals=None), progress=False).values,
        true.argmin(axis=1) != squared.argmin(axis=1),
    )


def _weakest(distances: Floats, groups: Ints) -> int:
    """Return the group with the smallest mean distance, among those that have samples."""
    present = np.unique(groups)
    return int(present[np.argmin([distances[groups == group].mean() for group in present])])
