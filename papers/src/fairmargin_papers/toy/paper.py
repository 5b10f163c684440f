"""Nanda's two toys: two perfect classifiers of which one is biased, and three classes of which one is weak."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fairmargin.analyses.audit import audit
from fairmargin.core.distances import Distances
from fairmargin.data.card import Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.sets.synthetic import ROUND_CROSS_BUDGET, round_cross, round_cross_classifiers, three_classes
from fairmargin.data.splits import seeded_split
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import binomial_interval
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.shared.claims import Claim, Decision, by_direction, numbered
from fairmargin_papers.shared.paper import Assignment, Findings, Paper, Part, Picture
from fairmargin_papers.toy.pictures import Perfect, three_classes_picture, two_classifiers_picture

CLAIMS = numbered(
    "nanda",
    (
        "closely",
        "Two classifiers are right about every point; within a budget τ one lets more round than cross points be "
        "attacked, the other as many of both.",
        "70% / 30% against 30% / 30%, accuracy 100%",
    ),
    (
        "closely",
        "In a toy of three classes one class's curve falls significantly faster although all three are classified "
        "similarly well.",
        "shown in Figure 2",
    ),
)

_WEAK = "brown"
_SEEDS = 3
_SPLITS: tuple[Split, ...] = ("train", "test")


def run(assignment: Assignment) -> Findings:
    """Measure both toys exactly."""
    first, two = _two_classifiers(assignment.claims[1])
    second, three, note = _three_classes(assignment)
    return Findings(
        (first, second),
        (
            Picture(
                "two-classifiers",
                "The same points under two classifiers that are both always right: colours are classes, shapes "
                "are groups. Dashed: the budget τ around the boundary. Pale points are out of its reach.",
                two,
            ),
            Picture(
                "three-classes",
                "Three classes, the boundaries of a multinomial logistic regression, and the share of each class that "
                "is right and farther than τ from the boundary.",
                three,
            ),
        ),
        ("Distances of both toys are exact (`exact_linear`, L2); data are made from a seed.", note),
    )


PART = Part("toy", "the two toys", frozenset({1, 2}), run)


def _two_classifiers(claim: Claim) -> tuple[Claim, Figure]:
    toy = round_cross()
    shapes = toy.partition("shape")
    perfect = []
    for name, linear in zip("AB", round_cross_classifiers(), strict=True):
        distances = measure(linear, toy.x, toy.y, ExactLinear(), progress=False)
        near = distances.values <= ROUND_CROSS_BUDGET
        perfect.append(Perfect(name, distances, {shape: float(near[which].mean()) for shape, which in shapes}))
    accuracy = min(float(each.distances.correct.mean()) for each in perfect)
    biased, fair = ((each.attacked["round"], each.attacked["cross"]) for each in perfect)
    as_printed = accuracy == 1 and np.allclose((*biased, *fair), (0.7, 0.3, 0.3, 0.3), atol=1e-12)
    row = claim.found(
        f"{biased[0]:.0%} / {biased[1]:.0%} against {fair[0]:.0%} / {fair[1]:.0%}, accuracy {accuracy:.0%}",
        "holds" if as_printed else "does not hold",
        remark=f"The {len(toy)} points are laid out to show it, as in the paper: what is tested is that such points "
        "exist and that exact distances find the bias which accuracy cannot see. There is no interval, because "
        "these are all points.",
    )
    return row, two_classifiers_picture(toy, perfect, ROUND_CROSS_BUDGET)


def _three_classes(assignment: Assignment) -> tuple[Claim, Figure, str]:
    count = assignment.by_scale(600, 6_000, 6_000)
    plan = AuditSettings(resamples=assignment.by_scale(500, 2_000, 2_000))
    fits = []
    for seed in range(_SEEDS):
        assignment.progress("toy: fits", seed, _SEEDS)
        fits.append(_fit(three_classes(count, seed), plan))
    assignment.progress("toy: fits", _SEEDS, _SEEDS)
    # Each interval is about the samples of one fit, and other fits differ by more: the interval spans them all.
    interval = min(fit.sigma.low for fit in fits), max(fit.sigma.high for fit in fits)
    alike = all(fit.alike for fit in fits)
    values = ", ".join(f"{fit.sigma.value:+.3f}" for fit in fits)
    accuracies = "; ".join(", ".join(f"{name} {share:.1%}" for name, share in fit.accuracy.items()) for fit in fits)
    row = assignment.claims[2].found(
        f"σ({_WEAK}) = {values} with {_SEEDS} seeds".replace("-", "−"),
        Decision(by_direction(interval, "below") if alike else "does not hold", interval),
        remark=f"Accuracy by seed: {accuracies}; the classes' 95 % intervals "
        f"{'overlap' if alike else 'do not overlap for every seed'}. σ is the area under the class's curve over that "
        "of the others, minus 1. The interval spans those of all seeds, each of its own samples and fit; with more "
        "samples to fit, other boundaries are found, and other σ. The paper's own points are not published; these are "
        "random points after its figure.",
    )
    first = fits[0]
    note = (
        f"Three classes: {count - len(first.test):,} samples to fit scikit-learn's logistic regression, "
        f"{len(first.test):,} to audit, {_SEEDS} seeds; the figure shows the first."
    )
    return row, three_classes_picture(first.test, first.model, first.distances), note


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """One logistic regression, audited on samples that it was not fitted to."""

    model: LinearClassifier
    test: Dataset
    distances: Distances
    sigma: Estimate
    accuracy: dict[str, float]
    alike: bool  # whether the intervals of the classes' accuracies share a value


def _fit(whole: Dataset, plan: AuditSettings) -> _Fit:
    train, test = (whole.take(seeded_split(len(whole), split)) for split in _SPLITS)
    model = _fitted(train)
    distances = measure(model, test.x, test.y, ExactLinear(), progress=False)
    classes = test.partition("class")
    sigma = next(row for row in audit(distances, classes, plan) if row.group == _WEAK).sigma_alone
    hits = {name: distances.correct[which] for name, which in classes}
    limits = [binomial_interval(int(each.sum()), len(each), 0.95) for each in hits.values()]
    alike = max(low for low, _ in limits) <= min(high for _, high in limits)
    return _Fit(model, test, distances, sigma, {name: float(each.mean()) for name, each in hits.items()}, alike)


def _fitted(train: Dataset) -> LinearClassifier:
    from sklearn.linear_model import LogisticRegression

    model = as_classifier(LogisticRegression(max_iter=1_000).fit(np.asarray(train.x), np.asarray(train.y)))
    assert isinstance(model, LinearClassifier)
    return model


REFERENCE = (
    "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating Robustness "
    "Disparity in Deep Learning”, FAccT 2021."
)

PAPER = Paper("toy", "Nanda’s toys", REFERENCE, CLAIMS, (PART,), {})
