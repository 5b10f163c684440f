"""Measured distances of two models, from which scenarios draw samples as from populations.

They are the exact L2 distances of a logistic regression on the test rows of Adult, in standard deviations, and upper
bounds by DeepFool of 1,000 test images of a public ResNet-20. Both are computed once from `../shared` and kept in
`kept.folder()`.
"""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

import fairmargin as fm
from fairmargin.core.arrays import Floats
from fairmargin.distances.catalog import parse_estimator
from tests.inference.kept import folder
from tests.inference.populations import empirical
from tests.inference.scenarios import Draw, Scenario, independent

SHARED = Path(__file__).parents[3] / "shared"
WEIGHTS = SHARED / "weights" / "cifar10-resnet20-12fca82f.th"
IMAGES = 1_000
WITHOUT = "needs data and weights in ../shared"

Groups = dict[str, Floats]  # distances by group


def is_shared() -> bool:
    return WEIGHTS.is_file() and (SHARED / "data" / "adult").is_dir()


def _lazily(make: Callable[[], Scenario]) -> Scenario:
    """Return a scenario that is made when it is drawn from for the first time."""
    made = cache(make)

    def draw(seed: int) -> Draw:
        return made()(seed)

    return draw


def _sexes(women: int, men: int) -> Scenario:
    return independent([empirical(_adult()["Female"]), empirical(_adult()["Male"])], [women, men])


def _sexes_of_equal_mean(women: int, men: int) -> Scenario:
    population, other = empirical(_adult()["Female"]), empirical(_adult()["Male"])
    return independent([population, other.times(population.mean / other.mean)], [women, men])


def _one_class(which: int, size: int, others: int) -> Scenario:
    own, *rest = sorted(_resnet20(), key=lambda label: label != str(which))
    images = _resnet20()
    return independent([empirical(images[own]), empirical(np.concatenate([images[c] for c in rest]))], [size, others])


def _classes(size: int, *, equal: bool) -> Scenario:
    images = list(_resnet20().values())
    return independent([empirical(np.concatenate(images) if equal else values) for values in images], [size] * 10)


REAL: dict[str, Scenario] = {
    "Adult, 100 women and 200 men": _lazily(lambda: _sexes(100, 200)),
    "Adult, 300 women and 3,000 men": _lazily(lambda: _sexes(300, 3000)),
    "ResNet-20, ten classes of 100": _lazily(lambda: _classes(100, equal=False)),
    "ResNet-20, cat against 300 others": _lazily(lambda: _one_class(3, 60, 300)),
}
REAL_EQUAL: dict[str, Scenario] = {"ResNet-20, ten groups of 100": _lazily(lambda: _classes(100, equal=True))}
REAL_EQUAL_MEANS: dict[str, Scenario] = {
    "Adult, 60 women and 600 men of equal mean": _lazily(lambda: _sexes_of_equal_mean(60, 600))
}


@cache
def _adult() -> Groups:
    return _kept("adult", _measure_adult)


@cache
def _resnet20() -> Groups:
    return _kept("resnet20", _measure_resnet20)


def _kept(name: str, measure: Callable[[], Groups]) -> Groups:
    file = folder() / f"{name}.npz"
    if not file.is_file():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file.with_suffix(".part.npz"), **measure())  # type: ignore[arg-type]
        file.with_suffix(".part.npz").rename(file)
    with np.load(file) as stored:
        return dict(stored)


def _measure_adult() -> Groups:
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    train, test = (fm.load("adult", root=SHARED / "data", split=split) for split in ("train", "test"))
    scaler = StandardScaler().fit(train.x)
    model = LogisticRegression(max_iter=1000).fit(scaler.transform(train.x), train.y)
    values = fm.measure(model, scaler.transform(test.x), test.y, parse_estimator("exact_linear:norm=l2")).values
    return {label: values[rows] for label, rows in test.partition("sex")}


def _measure_resnet20() -> Groups:
    import torch

    from fairmargin.models.normalized import IMAGENET_MEAN, IMAGENET_STD, Normalized

    state = torch.load(WEIGHTS, map_location="cpu", weights_only=True)["state_dict"]
    network = fm.build_architecture("resnet20", (3, 32, 32), 10)
    network.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    test = fm.load("cifar10", root=SHARED / "data", split="test")
    model, labels = Normalized(network, IMAGENET_MEAN, IMAGENET_STD).eval(), np.asarray(test.y[:IMAGES])
    found = fm.measure(model, np.asarray(test.x[:IMAGES]), labels, parse_estimator("deepfool:norm=l2"))
    return {str(label): found.values[labels == label] for label in np.unique(labels)}
