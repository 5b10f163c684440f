"""Toys of the papers, made from a seed: data whose boundaries, distances and thresholds one can reckon by hand."""

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.data.card import Card, Entry, Request, Split
from fairmargin.data.dataset import Dataset
from fairmargin.data.splitting import SENTENCE, seeded_split
from fairmargin.errors import InputError

Linear = tuple[Floats, Floats]  # weights, one row a class, and one offset a class

ROUND_CROSS_BUDGET = 1.0
_BLOCK, _BLOCKS_A_TURN = 40, 5  # 2 shapes × 2 classes × 10 samples; of five blocks the last is for testing
_LICENCE = "None is needed: made from a seed by Fairmargin itself (Apache-2.0)."
_ETHICS = "No people: the groups are geometry."
_NANDA = "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, Fairness Through Robustness, FAccT 2021"
_TRAN = "C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, On the Effects of Fairness to Adversarial Vulnerability, 2024"
_MA = "X. Ma, Z. Wang, W. Liu, On the Tradeoff Between Robustness and Fairness, NeurIPS 2022"

THREE_CLASSES = Card(
    title="Toy: three classes in the plane, one of which lies closer to the boundary",
    classes="violet, orange or brown",
    groups=("class",),
    split=SENTENCE.format(unit="sample"),
    licence=_LICENCE,
    ethics=_ETHICS,
    citation=f"After {_NANDA}, Figure 2.",
)
ROUND_CROSS = Card(
    title="Toy: round and cross points in the plane, and two perfect classifiers of which one is biased",
    classes="blue or green",
    groups=("shape",),
    split="Of every 200 samples the last 40 are for testing, so that the shares hold exactly in either part.",
    licence=_LICENCE,
    ethics=_ETHICS,
    citation=f"After {_NANDA}, Figure 1.",
)
GAUSSIAN_PAIR = Card(
    title="Toy: two Gaussians on a line, the upper one wider, balanced",
    classes="minus, from N(-2, 1), or plus, from N(2, 4)",
    groups=("side",),
    split=SENTENCE.format(unit="sample"),
    licence=_LICENCE,
    ethics=_ETHICS,
    citation=f"After {_TRAN}.",
)
GAUSSIAN_CLASSES = Card(
    title="Toy: two round Gaussians in ten dimensions, one wider than the other",
    classes="minus, around (-1, …, -1), or plus, around (1, …, 1)",
    groups=("sign",),
    split=SENTENCE.format(unit="sample"),
    licence=_LICENCE,
    ethics=_ETHICS,
    citation=f"After {_MA}.",
)


def three_classes(samples: int = 600, seed: int = 0) -> Dataset:
    """Three clouds in the plane, classified alike well, of which the narrow one (brown) lies closer to the boundary.

    Parameters
    ----------
    samples
        How many; the classes take turns, so that they are as large as each other.
    seed
        Of the random numbers.

    >>> three_classes().partition("class")
    Partition('class', brown: 200, orange: 200, violet: 200)
    """
    _at_least("samples", samples, 3)
    y = np.arange(samples) % 3
    centres, spread = np.array([[-3.0, 0.0], [3.0, 0.0], [0.0, 2.2]]), np.array([0.9, 0.9, 0.4])
    x = centres[y] + spread[y][:, None] * np.random.RandomState(seed).standard_normal((samples, 2))
    return Dataset(x, y, name="toy-three-classes", class_names=("violet", "orange", "brown"))


def round_cross(samples: int = 200, seed: int = 0) -> Dataset:
    """Points in the plane whose coordinates are, but for the sign, their distances to two perfect boundaries.

    Guarantee: both `round_cross_classifiers` are right about every sample. Within `ROUND_CROSS_BUDGET`, in any norm,
    lie exactly 70 % of the round and 30 % of the cross samples under the first, and 30 % of both under the second; so
    in either class, and in either split of the catalog.

    Parameters
    ----------
    samples
        A multiple of 40, so that the shares can be exact.
    seed
        Of the random numbers.

    >>> toy = round_cross()
    >>> near = np.abs(np.asarray(toy.x)) <= ROUND_CROSS_BUDGET
    >>> {shape: near[which].mean(axis=0).tolist() for shape, which in toy.partition("shape")}
    {'cross': [0.3, 0.3], 'round': [0.7, 0.3]}
    """
    if samples < _BLOCK or samples % _BLOCK:
        raise InputError(f"`samples` must be a multiple of {_BLOCK}, so that the shares are exact; given {samples}.")
    random = np.random.RandomState(seed)
    cells = (samples // _BLOCK, 2, 2, 10)  # block, shape, class, sample
    attacked = np.array([[7, 3], [3, 3]])  # of ten: rows are shapes, columns classifiers
    rank = random.random_sample((*cells, 2)).argsort(axis=3)  # 0 … 9 in random order, for either classifier
    near = rank < attacked[:, None, None, :]
    # Well to either side of the budget, so that no rounding can move a sample across.
    inside, beyond = random.uniform(0.1, 0.9, near.shape), random.uniform(1.2, 3.0, near.shape)
    _, shape, y, _ = (axis.ravel() for axis in np.indices(cells))
    distance = ROUND_CROSS_BUDGET * np.where(near, inside, beyond).reshape(samples, 2)
    x = np.where(y == 1, 1.0, -1.0)[:, None] * distance
    shapes = np.array(["round", "cross"])[shape]
    return Dataset(x, y, {"shape": shapes}, name="toy-round-cross", class_names=("blue", "green"))


def round_cross_classifiers() -> tuple[Linear, Linear]:
    """The biased and the fair classifier of `round_cross`, each as (weight, bias) for `as_classifier`.

    The boundaries are the axes: then the distance is a coordinate, whatever the norm.

    >>> biased, fair = round_cross_classifiers()
    >>> biased[0].tolist(), fair[0].tolist()
    ([[-0.5, 0.0], [0.5, 0.0]], [[0.0, -0.5], [0.0, 0.5]])
    """
    first, second = (np.outer([-0.5, 0.5], axis) + 0.0 for axis in np.eye(2))  # + 0.0: no negative zeros
    return (first, np.zeros(2)), (second, np.zeros(2))


def gaussian_pair(
    low: float = -2.0, high: float = 2.0, spread: float = 2.0, samples: int = 2000, seed: int = 0
) -> Dataset:
    """X | minus ~ N(low, 1) and X | plus ~ N(high, spread²) on a line, as many of one as of the other.

    With the default numbers Tran's order of thresholds (fair ≤ natural ≤ robust) holds for steps up to 1.

    Parameters
    ----------
    low, high
        The means μ̲ < μ̄.
    spread
        The standard deviation K of the upper class; above 1 in the paper.
    samples
        How many; an even number.
    seed
        Of the random numbers.

    >>> gaussian_pair().partition("side").sizes.tolist()
    [1000, 1000]
    """
    if not (np.isfinite([low, high, spread]).all() and low < high and spread > 0):
        raise InputError(
            f"`low` must lie below `high` and `spread` must be positive; given low={low:g}, high={high:g}, "
            f"spread={spread:g}."
        )
    _at_least("samples", samples, 2)
    if samples % 2:
        raise InputError(f"`samples` must be even, for the pair is balanced; given {samples}.")
    y = np.arange(samples) % 2
    noise = np.random.RandomState(seed).standard_normal(samples)
    x = np.array([low, high])[y] + np.array([1.0, spread])[y] * noise
    side = np.array(["low", "high"])[y]
    return Dataset(x[:, None], y, {"side": side}, name="gaussian-pair", class_names=("minus", "plus"))


def gaussian_classes(
    dimensions: int = 10,
    means: tuple[float, float] = (1.0, 1.0),
    spreads: tuple[float, float] = (2.0, 1.0),
    prior: float = 0.5,
    samples: int = 2000,
    seed: int = 0,
) -> Dataset:
    """x | minus ~ N(−μ₋·1, σ₋² I) and x | plus ~ N(μ₊·1, σ₊² I) in d dimensions.

    Parameters
    ----------
    dimensions
        The number d.
    means
        μ₋ and μ₊, both positive.
    spreads
        The standard deviations σ₋ and σ₊.
    prior
        The share α of plus; the number of samples is exactly that share, rounded.
    samples
        How many.
    seed
        Of the random numbers.

    >>> gaussian_classes(dimensions=3, prior=0.25).partition("sign")
    Partition('sign', minus: 1,500, plus: 500)
    """
    _at_least("dimensions", dimensions, 1)
    _at_least("samples", samples, 2)
    if not np.isfinite([*means, *spreads]).all() or min(*means, *spreads) <= 0:
        raise InputError(f"`means` and `spreads` must be positive numbers; given {means} and {spreads}.")
    plus = round(prior * samples) if 0 < prior < 1 else 0
    if not 0 < plus < samples:
        raise InputError(
            f"`prior` must lie between 0 and 1 and leave a sample to either class; given {prior:g} of {samples}."
        )
    y = (np.arange(samples) >= samples - plus).astype(np.int64)
    noise = np.random.RandomState(seed).standard_normal((samples, dimensions))
    x = np.array([-means[0], means[1]])[y][:, None] + np.array(spreads)[y][:, None] * noise
    names = ("minus", "plus")
    return Dataset(x, y, {"sign": np.array(names)[y]}, name="gaussian-classes", class_names=names)


def load_three_classes(request: Request) -> Dataset:
    """A split of `three_classes()`."""
    return _seeded(three_classes(), request.split)


def load_round_cross(request: Request) -> Dataset:
    """A split of `round_cross()`, in whole blocks."""
    whole = round_cross()
    is_test = np.arange(len(whole)) // _BLOCK % _BLOCKS_A_TURN == _BLOCKS_A_TURN - 1
    return whole if request.split == "all" else whole.take(is_test == (request.split == "test"))


def load_gaussian_pair(request: Request) -> Dataset:
    """A split of `gaussian_pair()`."""
    return _seeded(gaussian_pair(), request.split)


def load_gaussian_classes(request: Request) -> Dataset:
    """A split of `gaussian_classes()`."""
    return _seeded(gaussian_classes(), request.split)


def _seeded(whole: Dataset, split: Split) -> Dataset:
    return whole if split == "all" else whole.take(seeded_split(len(whole), split))


def _at_least(name: str, given: int, least: int) -> None:
    if given < least:
        raise InputError(f"`{name}` must be at least {least}; given {given}.")


THREE_CLASSES_ENTRY = Entry(THREE_CLASSES, load_three_classes)
ROUND_CROSS_ENTRY = Entry(ROUND_CROSS, load_round_cross)
GAUSSIAN_PAIR_ENTRY = Entry(GAUSSIAN_PAIR, load_gaussian_pair)
GAUSSIAN_CLASSES_ENTRY = Entry(GAUSSIAN_CLASSES, load_gaussian_classes)
