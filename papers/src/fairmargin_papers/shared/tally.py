"""Counts of the settings of a theorem's parameters in which it holds."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.progress import Count
from fairmargin_papers.shared.claims import Verdict, by_settings
from fairmargin_papers.theory.statement import Statement

Settings = dict[str, Floats]


@dataclass(frozen=True, slots=True)
class Tally:
    """Number of settings in which the conclusion of a statement holds, of those that meet its premise."""

    holding: int
    of: int
    first_failure: int = -1  # position of the first setting in which it does not hold; −1 if there is none

    @property
    def verdict(self) -> Verdict:
        """Verdict on the theorem; one counter-example refutes it."""
        return by_settings(self.holding, self.of)

    def __str__(self) -> str:
        return f"{self.holding:,} of {self.of:,} settings"


def tally_of(premise: Bools, conclusion: Bools) -> Tally:
    """Count settings from the premise and the conclusion of a statement in each of them.

    >>> print(tally_of(np.array([True, True, False]), np.array([True, False, False])))
    1 of 2 settings
    """
    failing = premise & ~conclusion
    first = int(failing.argmax()) if failing.any() else -1
    return Tally(int((premise & conclusion).sum()), int(premise.sum()), first)


def counter_example(found: Tally, values: Settings) -> str:
    """Describe the first setting in which a statement fails; empty if it never fails.

    >>> counter_example(Tally(1, 2, 1), {"K": np.array([2.0, 3.0])})
    'Counter-example: K = 3.'
    """
    if found.first_failure < 0:
        return ""
    said = "; ".join(f"{name} = {array[found.first_failure]:.4g}" for name, array in values.items())
    return f"Counter-example: {said.replace('-', '−')}."


def evaluated(
    values: Settings,
    size: int,
    statements: Callable[..., Iterable[Statement]],
    names: Iterable[str],
    progress: Count,
) -> dict[str, tuple[Bools, Bools]]:
    """Return premise and conclusion of the named statements in every setting.

    Parameters
    ----------
    values
        Arrays of parameters, one value per setting.
    size
        Number of settings that are evaluated at once, which limits memory.
    statements
        Called with the arrays of some settings, in the order of `values`.
    names
        Names of the statements.
    progress
        Called with (settings done, all settings).
    """
    count = len(next(iter(values.values())))
    kept = {name: (np.zeros(count, np.bool_), np.zeros(count, np.bool_)) for name in names}
    for start in range(0, count, size):
        block = slice(start, min(start + size, count))
        for statement in statements(*(array[block] for array in values.values())):
            if statement.name in kept:
                premise, conclusion = kept[statement.name]
                premise[block], conclusion[block] = statement.premise_holds, statement.conclusion_holds
        progress(block.stop, count)
    return kept
