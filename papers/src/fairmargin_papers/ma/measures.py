"""Robust accuracies of the networks of a sweep, and the measures of fairness that are calculated from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError
from fairmargin.inference.measures import accuracy_by_group
from fairmargin.inference.shares import binomial_interval
from fairmargin.inference.spread import debiased_variance
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.ma.sweep import ATTACKS, MADRY, Sweep, section_name
from fairmargin_papers.shared.claims import Claim, Interval
from fairmargin_papers.shared.trained import BETTER_THAN_GUESSING, SeedMean, over_seeds

Place = tuple[str, int]  # a method and the radius it trained with


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """Robust accuracies of a sweep.

    Parameters
    ----------
    sweep
        What was run.
    classes, sizes
        Names of the classes, and how many test samples each has.
    shares
        By method and radius trained with: (seeds, attacks, radii attacked with, classes).
    natural
        The same without an attack: (seeds, classes).
    """

    sweep: Sweep
    classes: tuple[str, ...]
    sizes: Floats
    shares: Mapping[Place, Floats]
    natural: Mapping[Place, Floats]

    def along(self, method: str, radii: Sequence[int] | None = None) -> Floats:
        """Return the accuracies of a method: (seeds, training radii, attacks, test radii, classes)."""
        asked = self.sweep.radii[method] if radii is None else radii
        return np.stack([self.shares[method, radius] for radius in asked], axis=1)

    def at(self, method: str, attack: str, test: int) -> Floats:
        """Return the accuracies under one attack: (seeds, training radii, classes)."""
        return np.asarray(self.along(method)[:, :, attack_number(attack), self.sweep.tests.index(test)])


def attack_number(attack: str) -> int:
    """Return the position of an attack in arrays.

    >>> attack_number("PGD-20")
    1
    """
    if attack not in ATTACKS:
        raise InputError(f"No attack of the sweep is called {attack!r}; there are {', '.join(ATTACKS)}.")
    return list(ATTACKS).index(attack)


def read_grid(grid: StudyRun, sweep: Sweep, network: str) -> Swept:
    """Read the robust accuracies of one network of the sweep; a second network has Madry's method only."""
    partition = grid.partition(None, "class")
    shares: dict[Place, Floats] = {}
    natural: dict[Place, Floats] = {}
    for method, radius in sweep.trained():
        if network != sweep.network and method != MADRY:
            continue
        by_seed = []
        for seed in sweep.seeds:
            outcomes = [
                grid.outcome(
                    model=network,
                    method=section_name(method, radius),
                    seed=seed,
                    attack=attack,
                    radius=f"{test}/255",
                )
                for attack in ATTACKS
                for test in sweep.tests
            ]
            hits = [outcomes[0].correct, *(outcome.unreached for outcome in outcomes)]
            by_seed.append([list(accuracy_by_group(each, partition).values()) for each in hits])
        found = np.array(by_seed)
        natural[method, radius] = found[:, 0]
        shares[method, radius] = found[:, 1:].reshape(len(sweep.seeds), len(ATTACKS), len(sweep.tests), -1)
    return Swept(sweep, tuple(partition.labels), np.asarray(partition.sizes, dtype=float), shares, natural)


def mean_accuracy(shares: Floats) -> Floats:
    """Return the mean over the classes, which are the last axis."""
    return np.asarray(shares.mean(axis=-1))


def worst_class(shares: Floats) -> Floats:
    """Return the minimum over the classes, which are the last axis."""
    return np.asarray(shares.min(axis=-1))


def vcra(shares: Floats, sizes: Floats) -> Floats:
    """Return the variance of robust accuracy over classes, without the part due to the finite number of samples.

    (1/L) Σ (p_i − p̄)² − (1 − 1/L) · mean of p_i(1 − p_i)/(n_i − 1), not below 0: its expectation does not depend on the
    number of test samples, so that it can be held beside a variance over other numbers of them.

    >>> two = np.array([0.4, 0.8])
    >>> round(float(vcra(two, np.array([1e9, 1e9]))), 6), round(float(vcra(two, np.array([101.0, 101.0]))), 6)
    (0.04, 0.039)
    """
    flat = shares.reshape(-1, shares.shape[-1])
    found = [debiased_variance(each, each * (1 - each) / np.maximum(sizes - 1, 1)) for each in flat]
    return np.array(found).reshape(shares.shape[:-1])


def variation(shares: Floats, sizes: Floats) -> Floats:
    """√VCRA over the mean accuracy; NaN where every class has 0.

    >>> np.round(variation(np.array([[0.4, 0.8], [0.0, 0.0]]), np.array([1e9, 1e9])), 3).tolist()
    [0.333, nan]
    """
    mean = mean_accuracy(shares)
    return np.sqrt(vcra(shares, sizes)) / np.where(mean > 0, mean, np.nan)


@dataclass(frozen=True, slots=True)
class CellShare:
    """In which share of cells one method lies below, or above, the other.

    Parameters
    ----------
    share, low, high
        The share and its interval.
    cells
        How many cells there are, all seeds together.
    """

    share: float
    low: float
    high: float
    cells: int

    @property
    def interval(self) -> Interval:
        """Both limits."""
        return self.low, self.high

    def __str__(self) -> str:
        return f"{self.share * self.cells:.4g} of {self.cells} cells ({self.share:.0%})"


def share_of_cells(differences: Floats) -> CellShare:
    """Return the share of cells with a difference above 0; ties count half, so that chance gives ½.

    Cells of one seed share initial weights, batches and test samples, and the cells of one pair of networks share the
    networks: one number a seed is taken, and the interval is Student's t over seeds. Where seeds agree by luck that is
    too narrow; it is widened to the exact binomial interval of as many trials as there are pairs of networks, and is
    that interval where all seeds agree to the last cell. Of a single seed nothing is known but the share.

    Parameters
    ----------
    differences
        (seeds, radii trained with, cells of a pair of networks).

    >>> found = share_of_cells(np.ones((3, 4, 6)))
    >>> print(found, [round(limit, 3) for limit in found.interval])
    72 of 72 cells (100%) [0.735, 1.0]
    """
    if differences.ndim != 3 or not differences.size:
        raise InputError(f"Expected differences by seed, radius and cell; given the shape {differences.shape}.")
    wins = (np.sign(differences) + 1) / 2
    by_seed = over_seeds(wins.mean(axis=(1, 2)))
    pairs = differences.shape[0] * differences.shape[1]
    exact = binomial_interval(by_seed.mean * pairs, pairs, 0.95)
    agreed = len(differences) > 1 and np.isinf(by_seed.low)
    limits = exact if agreed else (min(by_seed.low, exact[0]), max(by_seed.high, exact[1]))
    low, high = max(0.0, limits[0]), min(1.0, limits[1])
    return CellShare(by_seed.mean, low, high, differences.size)


def relative_change(fair: Floats, plain: Floats) -> SeedMean | None:
    """By how many per cent the sum over all cells is larger, one number a seed; None where the sum is 0 for a seed.

    Sums rather than a mean of ratios: a cell where hardly anything withstands would count most.

    >>> relative_change(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])).mean
    -50.0
    """
    ours, theirs = (each.reshape(len(each), -1).sum(axis=1) for each in (fair, plain))
    return over_seeds(100 * (ours / theirs - 1)) if (theirs > 0).all() else None


def places_of(swept: Swept, *methods: str) -> tuple[Place, ...]:
    """All radii of these methods."""
    return tuple(place for place in swept.natural if place[0] in methods)


def lost(swept: Swept, places: Iterable[Place]) -> int:
    """How many networks, seed by seed, do hardly better without an attack than guessing."""
    least = BETTER_THAN_GUESSING / len(swept.classes)
    return sum(int((mean_accuracy(swept.natural[place]) < least).sum()) for place in places)


def guarded(rows: Sequence[Claim], swept: Swept, places: Sequence[Place]) -> list[Claim]:
    """Return the rows, undecided if some of the networks on which they depend learned nothing.

    Such a network withstands every attack on one class and has a VCRA of (L − 1)/L²: a rise towards it would pass for
    the claim.
    """
    missed = lost(swept, places)
    if not missed:
        return list(rows)
    said = (
        f"{missed} of {len(places) * len(swept.sweep.seeds)} networks learned nothing (below {BETTER_THAN_GUESSING:g} "
        "times the accuracy of guessing without an attack): undecided, whatever the interval says."
    )
    return [replace(row, verdict="undecided", remark=f"{row.remark} {said}".strip()) for row in rows]
