"""What came of the attacks on a sweep's networks: the robust accuracy of every class, and what is made of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError
from fairmargin.inference.spread import debiased_variance
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.ma.sweep_study import ATTACKS, MADRY, Sweep, section_name
from fairmargin_papers.shared.measures import accuracy_by_group

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
        """A method along the radii trained with: (seeds, radii, attacks, radii attacked with, classes)."""
        asked = self.sweep.radii[method] if radii is None else radii
        return np.stack([self.shares[method, radius] for radius in asked], axis=1)

    def at(self, method: str, attack: str, test: int) -> Floats:
        """The same under one attack: (seeds, radii, classes)."""
        return np.asarray(self.along(method)[:, :, attack_number(attack), self.sweep.tests.index(test)])


def attack_number(attack: str) -> int:
    """The position of an attack in arrays.

    >>> attack_number("PGD-20")
    1
    """
    if attack not in ATTACKS:
        raise InputError(f"No attack of the sweep is called {attack!r}; there are {', '.join(ATTACKS)}.")
    return list(ATTACKS).index(attack)


def read_grid(grid: StudyRun, sweep: Sweep, network: str) -> Swept:
    """The robust accuracies of one network of the sweep; of a second network there is Madry's method only."""
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
    """The mean over the classes, which are the last axis."""
    return np.asarray(shares.mean(axis=-1))


def worst_class(shares: Floats) -> Floats:
    """The least of the classes."""
    return np.asarray(shares.min(axis=-1))


def vcra(shares: Floats, sizes: Floats) -> Floats:
    """The variance of class-wise robust accuracy, less what so few test samples of a class add to it by chance.

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
