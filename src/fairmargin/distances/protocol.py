"""What a distance estimator is."""

from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError


@runtime_checkable
class DistanceEstimator(Protocol):
    """A frozen dataclass whose fields are hyper-parameters, `norm` among them; calling it runs the algorithm.

    `revision` goes up whenever results change: it is part of the store key, the package's version is not. An estimator
    whose numbers could mislead a reader of the report says so in `caution`, a sentence.

    An estimator need not know of sets of classes to keep: for several it is given a model that takes them for one
    (`Kept`). One that looks for weights or layers has to look behind that, and says so by `keeps_several`, a truth
    value; others are only given single classes.

    One that finds inputs has the method `find` of a `Finder`. A certificate or a proxy names its `bound` instead, so
    that `fm.nearest` can say why it refuses it.
    """

    needs: ClassVar[str]  # "predict", "gradient", "linear" or "layers"
    norms: ClassVar[frozenset[Norm]]
    revision: ClassVar[int]

    @property
    def norm(self) -> Norm:
        """The norm that distances are measured in."""

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """One distance per sample; `y` holds class positions, and all randomness of sample i comes from `keys[i]`."""


class Found(NamedTuple):
    """Distances, and the inputs that they lead to.

    Parameters
    ----------
    distances
        As the estimator's call gives them.
    points
        A row per sample: the input found; the sample itself where it needs no step, NaN where nothing was found.
    """

    distances: Distances
    points: npt.NDArray[np.floating[Any]]


@runtime_checkable
class Finder(DistanceEstimator, Protocol):
    """An estimator whose distances lead to inputs, which `fm.nearest` returns."""

    def find(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances and the inputs, by the same search as the call."""


def finder(estimator: DistanceEstimator) -> Finder:
    """The estimator, if its distances lead to inputs; otherwise a sentence that says why not."""
    for member in getattr(estimator, "estimators", ()):  # of several joined
        finder(member)
    if isinstance(estimator, Finder):
        return estimator
    name = type(estimator).__name__
    reasons: dict[Any, str] = {
        Bound.LOWER: "is a certificate: it proves that no input is nearer, and finds none",
        Bound.NEITHER: "is a proxy that bounds the distance on neither side: no input lies at its distance",
    }
    why = reasons.get(
        getattr(type(estimator), "bound", None),
        "does not return the inputs that its distances lead to (it has no method `find`)",
    )
    raise InputError(f"`{name}` {why}. Choose an estimator that searches, such as `Plumb`, or an exact one.")


def keeps_several(estimator: DistanceEstimator) -> bool:
    """Whether the estimator can measure the distance from a set of several classes."""
    return bool(getattr(estimator, "keeps_several", estimator.needs in ("predict", "gradient")))


def accepted_norm(estimator: type[DistanceEstimator], norm: Norm | str) -> Norm:
    """The norm, if the estimator can measure in it; estimators ask in their `__post_init__`."""
    parsed = Norm.parse(norm)
    if parsed not in estimator.norms:
        able = ", ".join(sorted(each.value for each in estimator.norms))
        raise InputError(f"cannot measure in {parsed}; it measures in {able}", of=estimator.__name__)
    return parsed
