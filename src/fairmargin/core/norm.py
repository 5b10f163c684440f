"""How the length of a perturbation is measured."""

from enum import Enum

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError


class Norm(Enum):
    """The norm of a perturbation.

    >>> Norm.LINF.dual
    <Norm.L1: 'l1'>
    >>> float(Norm.L2.length(np.array([3.0, 4.0])))
    5.0
    """

    L1 = "l1"
    L2 = "l2"
    LINF = "linf"

    @property
    def dual(self) -> "Norm":
        """The norm q with 1/p + 1/q = 1: the distance to a hyperplane divides by the dual norm of its normal."""
        return {Norm.L1: Norm.LINF, Norm.L2: Norm.L2, Norm.LINF: Norm.L1}[self]

    def length(self, delta: npt.NDArray[np.floating], axis: int = -1) -> Floats:
        """The length of `delta` along `axis`."""
        magnitude = np.abs(np.asarray(delta, dtype=np.float64))
        if self is Norm.L1:
            return np.asarray(magnitude.sum(axis=axis))
        if self is Norm.LINF:
            return np.asarray(magnitude.max(axis=axis, initial=0.0))
        # Scaled, so that neither huge nor tiny entries over- or underflow when squared.
        top = magnitude.max(axis=axis, keepdims=True, initial=0.0)
        safe = np.where((top > 0) & np.isfinite(top), top, 1.0)
        return np.asarray(np.sqrt(((magnitude / safe) ** 2).sum(axis=axis)) * safe.squeeze(axis))

    @classmethod
    def parse(cls, text: "str | Norm") -> "Norm":
        """A norm from its name; the one place that knows how norms are spelled by users."""
        if isinstance(text, Norm):
            return text
        key = str(text).strip().lower().removeprefix("norm.").replace("_", "").replace("∞", "inf")
        spelled = {"l1": cls.L1, "1": cls.L1, "l2": cls.L2, "2": cls.L2, "linf": cls.LINF, "inf": cls.LINF}
        if key not in spelled:
            raise InputError(f"Unknown norm {text!r}. Expected one of l1, l2, linf.")
        return spelled[key]

    def __str__(self) -> str:
        return {Norm.L1: "L1", Norm.L2: "L2", Norm.LINF: "L∞"}[self]
