"""A theorem at given parameters: whether its premise holds there, and whether its conclusion does."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One printed theorem, corollary or proposition, looked at for given parameters.

    A statement is refuted where its premise holds and its conclusion does not. Where the premise fails it says nothing,
    whether or not the conclusion happens to hold.

    Parameters
    ----------
    name
        As the paper numbers it, "Theorem 5.5".
    premise, conclusion
        Both in words and symbols.
    premise_holds, conclusion_holds
        One answer per set of parameters, in the shape that the parameters broadcast to.
    remark
        What is wrong in print, or what else the reader should know.

    Examples
    --------
    >>> printed = Statement("Theorem 1", "K > 1", "the thresholds are ordered", True, False)
    >>> printed.verdict
    'refuted'
    """

    name: str
    premise: str
    conclusion: str
    premise_holds: bool | Bools
    conclusion_holds: bool | Bools
    remark: str = ""

    @property
    def verdict(self) -> str:
        """The verdict: "holds", "refuted" or "premise fails"; for many sets of parameters the worst one."""
        premise, conclusion = np.broadcast_arrays(self.premise_holds, self.conclusion_holds)
        if (premise & ~conclusion).any():
            return "refuted"
        return "holds" if premise.any() else "premise fails"
