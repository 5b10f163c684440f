"""Norms in which the length of a perturbation is measured."""

from enum import Enum

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Floats
from fairmargin.errors import InputError


class Norm(Enum):
    """Norm of a perturbation: L1, L2 or L∞.

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
        """Dual norm q, with 1/p + 1/q = 1. The distance to a hyperplane is divided by the dual norm of its normal."""
        return {Norm.L1: Norm.LINF, Norm.L2: Norm.L2, Norm.LINF: Norm.L1}[self]

    def length(self, delta: npt.NDArray[np.floating], axis: int = -1) -> Floats:
        """Return the norm of `delta` along `axis`."""
        magnitude = np.abs(np.asarray(delta, dtype=np.float64))
        if self is Norm.L1:
            return np.asarray(magnitude.sum(axis=axis))
        if self is Norm.LINF:
            return np.asarray(magnitude.max(axis=axis, initial=0.0))
        # Divided by the largest entry, so that squares of very large or small entries neither overflow nor underflow.
        top = magnitude.max(axis=axis, keepdims=True, initial=0.0)
        safe = np.where((top > 0) & np.isfinite(top), top, 1.0)
        return np.asarray(np.sqrt(((magnitude / safe) ** 2).sum(axis=axis)) * safe.squeeze(axis))

    @classmethod
    def parse(cls, text: "str | Norm") -> "Norm":
        """Return the norm of this name. Accepts spellings such as "l2", "L2", "2" and "Norm.L2"."""
        if isinstance(text, Norm):
            return text
        key = str(text).strip().lower().removeprefix("norm.").replace("_", "").replace("∞", "inf")
        spelled = {"l1": cls.L1, "1": cls.L1, "l2": cls.L2, "2": cls.L2, "linf": cls.LINF, "inf": cls.LINF}
        if key not in spelled:
            raise InputError(f"Unknown norm {text!r}. Expected one of l1, l2, linf.")
        return spelled[key]

    def __str__(self) -> str:
        return {Norm.L1: "L1", Norm.L2: "L2", Norm.LINF: "L∞"}[self]
