"""Robust accuracies of the networks of a sweep, and the measures of fairness that are calculated from them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError
from fairmargin.inference.shares import binomial_interval
from fairmargin.inference.spread import debiased_variance
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.ma.sweep import ATTACKS, MADRY, Sweep, section_name
from fairmargin_papers.shared.claims import Claim
from fairmargin_papers.shared.measures import accuracy_by_group
from fairmargin_papers.shared.trained import BETTER_THAN_GUESSING, SeedMean, over_seeds

Place = tuple[str, int]  # a method and its training radius


@dataclass(frozen=True, slots=True, eq=False)
class Swept:
    """Robust accuracies of the networks of a sweep."""

    sweep: Sweep
    classes: tuple[str, ...]
    sizes: Floats  # number of test samples of each class
    shares: Mapping[Place, Floats]  # (seeds, attacks, test radii, classes), by network
    natural: Mapping[Place, Floats]  # accuracy without an attack: (seeds, classes), by network

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
        name, by_seed = section_name(method, radius), []
        for seed in sweep.seeds:
            outcomes = [
                grid.outcome(model=network, method=name, seed=seed, attack=attack, radius=f"{test}/255")
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

    The variance is (1/L) Σ (p_i − p̄)² − (1 − 1/L) · mean of p_i(1 − p_i)/(n_i − 1), and not below 0. Its expectation
    does not depend on the number of test samples, so that variances over different numbers can be compared.

    >>> two = np.array([0.4, 0.8])
    >>> round(float(vcra(two, np.array([1e9, 1e9]))), 6), round(float(vcra(two, np.array([101.0, 101.0]))), 6)
    (0.04, 0.039)
    """
    flat = shares.reshape(-1, shares.shape[-1])
    found = [debiased_variance(each, each * (1 - each) / np.maximum(sizes - 1, 1)) for each in flat]
    return np.array(found).reshape(shares.shape[:-1])


def variation(shares: Floats, sizes: Floats) -> Floats:
    """Return √VCRA over the mean accuracy; NaN if every class has accuracy 0.

    >>> np.round(variation(np.array([[0.4, 0.8], [0.0, 0.0]]), np.array([1e9, 1e9])), 3).tolist()
    [0.333, nan]
    """
    mean = mean_accuracy(shares)
    return np.sqrt(vcra(shares, sizes)) / np.where(mean > 0, mean, np.nan)


@dataclass(frozen=True, slots=True)
class CellShare:
    """Share of cells in which one method is below, or above, another, with an interval."""

    share: float
    low: float
    high: float
    cells: int  # number of cells of all seeds

    def __str__(self) -> str:
        return f"{self.share * self.cells:.4g} of {self.cells} cells ({self.share:.0%})"


def share_of_cells(differences: Floats) -> CellShare:
    """Return the share of cells with a difference above 0; ties count half, so that chance gives ½.

    Cells of one seed share initial weights, batches and test samples, and cells of one pair of networks share the
    networks. Hence the interval is Student's t over one share per seed. Because seeds may agree by accident, it is
    widened to the exact binomial interval of as many trials as there are pairs of networks, and is that interval if
    all seeds agree in every cell. The interval of a single seed is the whole range.

    Parameters
    ----------
    differences
        Array of shape (seeds, training radii, cells of a pair of networks).

    >>> found = share_of_cells(np.ones((3, 4, 6)))
    >>> print(found, [round(limit, 3) for limit in (found.low, found.high)])
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
    """Return the change in per cent of the sum over all cells, over seeds; None if the sum is 0 for a seed.

    Sums are compared because in a mean of ratios the cells with the lowest accuracy would count most.

    >>> relative_change(np.array([[1.0, 1.0], [1.0, 1.0]]), np.array([[2.0, 2.0], [2.0, 2.0]])).mean
    -50.0
    """
    ours, theirs = (each.reshape(len(each), -1).sum(axis=1) for each in (fair, plain))
    return over_seeds(100 * (ours / theirs - 1)) if (theirs > 0).all() else None


def places_of(swept: Swept, *methods: str) -> tuple[Place, ...]:
    """Return the networks of these methods with all training radii."""
    return tuple(place for place in swept.natural if place[0] in methods)


def lost(swept: Swept, places: Iterable[Place]) -> int:
    """Count the networks, of all seeds, that are hardly better than guessing without an attack."""
    least = BETTER_THAN_GUESSING / len(swept.classes)
    return sum(int((mean_accuracy(swept.natural[place]) < least).sum()) for place in places)


def guarded(rows: Sequence[Claim], swept: Swept, places: Sequence[Place]) -> list[Claim]:
    """Return the rows, undecided if some of the networks on which they depend learned nothing.

    A network that always predicts the same class withstands every attack on that class and has a VCRA of (L − 1)/L²,
    so that a rise of VCRA towards this value would wrongly confirm the claim.
    """
    missed = lost(swept, places)
    if not missed:
        return list(rows)
    said = (
        f"{missed} of {len(places) * len(swept.sweep.seeds)} networks learned nothing (below {BETTER_THAN_GUESSING:g} "
        "times the accuracy of guessing without an attack): undecided, whatever the interval says."
    )
    return [replace(row, verdict="undecided", remark=f"{row.remark} {said}".strip()) for row in rows]
