"""A theorem at given parameters: whether its premise holds there, and whether its conclusion does."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One printed theorem, corollary or proposition, evaluated at given parameters.

    A statement is refuted if its premise holds and its conclusion does not. If the premise fails, the statement is not
    tested, whether or not the conclusion holds.

    Parameters
    ----------
    name
        Name in the paper, such as "Theorem 5.5".
    premise, conclusion
        Description in words and symbols.
    premise_holds, conclusion_holds
        One answer per set of parameters, in the shape that the parameters broadcast to.
    remark
        Errors of the printed statement, and further information.

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

    def __post_init__(self) -> None:
        answers = np.broadcast_arrays(self.premise_holds, self.conclusion_holds)
        for name, holds in zip(("premise_holds", "conclusion_holds"), answers, strict=True):
            object.__setattr__(self, name, bool(holds) if holds.ndim == 0 else holds)

    @property
    def verdict(self) -> str:
        """The verdict: "holds", "refuted" or "premise fails"; for many sets of parameters the worst one."""
        premise, conclusion = np.broadcast_arrays(self.premise_holds, self.conclusion_holds)
        if (premise & ~conclusion).any():
            return "refuted"
        return "holds" if premise.any() else "premise fails"
