"""The same noise on a regular and a fair model: how often only the fair one flips, and one example."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.attacks.rfgsm import RFGSM
from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.keys import sample_keys
from fairmargin.data.dataset import Dataset
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.shared.claims import Claim, directed
from fairmargin_papers.shared.trained import over_seeds
from fairmargin_papers.tran.studies import CROSS_ENTROPY, penalised
from fairmargin_papers.tran.sweep import Sweep

_AGE, _MINORS = "age9", ("0–9", "10–19")
CASES = ("both hold", "only the fair one flips", "only the regular one flips", "both flip")
# How the noise is made, and how the row describes it.
NOISES = {
    "regular": "the noise is made against the regular model",
    "fair": "the noise is made against the fair model",
    "own": "each model meets its own noise, after the same random step",
}
_TRANSFER = "Noise flips the model that it was made against more easily than another: the row says that too."
_AGAINST = {
    "regular": _TRANSFER,
    "fair": _TRANSFER,
    "own": "Only this row compares both models under equal conditions.",
}


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """A sample whose prediction stays the same with one model and changes with the other."""

    before: Floats
    after: Floats  # the same picture with noise
    truth: str  # its label
    answers: Mapping[str, tuple[str, str]]  # predictions (before, after) of the regular and of the fair model
    noise: str  # how the noise was made, a key of `NOISES`
    person: bool = False  # whether it is a photograph of a person, which pages show coarsely


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """Shares of the four cases by kind of noise, with one row per seed and one column per case, and an example."""

    title: str
    weight: float
    radius: str
    shares: Mapping[str, Floats]
    example: Example | None


def look_for_pair(sweep: Sweep, grids: Sequence[StudyRun]) -> Pair | None:
    """Compare λ = 0 with the largest λ at which no network collapsed; return None if there is none."""
    fair = sweep.curves[CROSS_ENTROPY].fair
    if not fair:
        return None
    weight = sweep.plan.subject.weights[fair[-1]]
    shares: dict[str, list[Floats]] = {noise: [] for noise in NOISES}
    example = None
    for grid in grids:
        models = {
            name: _model(grid, penalised(CROSS_ENTROPY, each)) for name, each in (("regular", 0.0), ("fair", weight))
        }
        x = np.asarray(grid.dataset().x[:])
        before = {name: model.predict(x) for name, model in models.items()}
        moved = {name: _noisy(model, x, before[name], sweep.plan.pair) for name, model in models.items()}
        for noise in NOISES:
            after = {name: model.predict(moved[name if noise == "own" else noise]) for name, model in models.items()}
            regular, flipped = (after[name] != before[name] for name in ("regular", "fair"))
            shares[noise].append(cases(regular, flipped))
            if example is None and noise != "own":
                example = _example(grid, x, moved[noise], before, after, noise)
    return Pair(sweep.title, weight, sweep.plan.pair, {n: np.array(rows) for n, rows in shares.items()}, example)


def cases(regular: Bools, fair: Bools) -> Floats:
    """Return the share of each of the four cases, from the samples that flip with the regular and the fair model.

    >>> cases(np.array([False, False, True, True]), np.array([False, True, True, True])).tolist()
    [0.25, 0.25, 0.0, 0.5]
    """
    masks = (~regular & ~fair, ~regular & fair, regular & ~fair, regular & fair)
    return np.array([mask.mean() for mask in masks])


def pair_rows(claim: Claim, pair: Pair) -> list[Claim]:
    """Return one row per kind of noise about how often only the fair model changes its prediction."""
    rows = []
    for noise, words in NOISES.items():
        shares = 100 * pair.shares[noise]
        difference = over_seeds(shares[:, 1] - shares[:, 2])
        said = "; ".join(f"{name} {over_seeds(shares[:, i]).text(digits=1)} %" for i, name in enumerate(CASES))
        rows.append(
            claim.found(
                f"{said}; the second less the third {difference.signed(1)} points",
                directed(difference, "above"),
                text=f"{claim.text.rstrip('.')} more often than the other way round; {words}.",
                remark=f"{pair.title}, λ = 0 against {pair.weight:g}, ε = {pair.radius}, all test samples, right or "
                f"wrong, as in the paper. {_AGAINST[noise]} A pair as printed "
                + ("exists: see the figure." if pair.example is not None else "was not found among them."),
            )
        )
    return rows


def _example(
    grid: StudyRun, x: Floats, moved: Floats, before: Mapping[str, Ints], after: Mapping[str, Ints], noise: str
) -> Example | None:
    """Return the first sample that both classify correctly and that only the fair model loses; no child's face."""
    dataset = grid.dataset()
    right = (before["regular"] == dataset.y) & (before["fair"] == dataset.y) & shown_publicly(dataset)
    found = np.flatnonzero(right & (after["regular"] == dataset.y) & (after["fair"] != dataset.y))
    if not found.size:
        return None
    at, names = int(found[0]), dataset.class_names
    answers = {name: (names[before[name][at]], names[after[name][at]]) for name in ("regular", "fair")}
    return Example(x[at], moved[at], str(dataset.labels[at]), answers, noise, _AGE in dataset.attributes)


def shown_publicly(dataset: Dataset) -> Bools:
    """Return which samples a page may show: those without people, or with adults by the ages of the dataset.

    >>> faces = Dataset([[0.0], [0.0]], [0, 0], attributes={"age9": ["10–19", "30–39"]})
    >>> shown_publicly(faces).tolist()
    [False, True]
    """
    if _AGE not in dataset.attributes:
        return np.ones(len(dataset), dtype=np.bool_)
    return ~np.isin(dataset.attributes[_AGE], _MINORS)


def _noisy(model: TorchClassifier, x: Floats, said: Ints, radius: str) -> Floats:
    # Keys do not depend on the prediction, so that the noise of both models begins with the same random step.
    keys = sample_keys(x, np.zeros(len(x), dtype=np.int64))
    return np.asarray(RFGSM()(model, x, said, radius=radius, keys=keys), dtype=x.dtype)


def _model(grid: StudyRun, method: str) -> TorchClassifier:
    found = next(trained for trained in grid.networks() if trained.method == method).classifier()
    assert isinstance(found, TorchClassifier)
    return found
