"""The protocol of a distance estimator."""

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

    Raise `revision` whenever results change: it is part of the store key, the version of the package is not. An
    estimator whose numbers could mislead a reader of the report has a class attribute `caution`, a sentence that the
    report prints.

    Several classes to keep are handled outside of the estimator, which is then given a model that treats them as one
    class (`fairmargin.models.kept_classes.Kept`). An estimator that reads weights or layers has to unpack that model
    and declares it by the class attribute `keeps_several = True`; without it, only estimators that need predictions or
    gradients are given several classes.

    On the rows of a table, estimators by gradients search the numbers, see `fairmargin.distances.on_tables`. One that
    cannot measure such rows says why by the class attribute `not_on_tables`, the rest of a sentence.

    An estimator that finds inputs has the method `find` of a `Finder`. A certificate or a proxy has a class attribute
    `bound` instead, from which `fm.nearest` builds its error message.
    """

    needs: ClassVar[str]  # "predict", "gradient", "linear", "trees" or "layers"
    norms: ClassVar[frozenset[Norm]]
    revision: ClassVar[int]

    @property
    def norm(self) -> Norm:
        """The norm in which distances are measured."""

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return one distance per sample.

        `y` holds class positions. All randomness of sample i comes from `keys[i]`.
        """


class Found(NamedTuple):
    """Distances and the inputs at these distances.

    Parameters
    ----------
    distances
        The distances, as the call of the estimator returns them.
    points
        One row per sample: the input found; the sample itself where it is misclassified already, NaN where nothing was
        found.
    """

    distances: Distances
    points: npt.NDArray[np.floating[Any]]


@runtime_checkable
class Finder(DistanceEstimator, Protocol):
    """An estimator that finds an input at each distance; `fm.nearest` returns these inputs."""

    def find(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs, found by the same search as in the call."""


class Search:
    """Base class of estimators that find inputs: calling one returns the distances of `find`."""

    def find(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs found."""
        raise NotImplementedError

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Return the distances of the inputs found."""
        return self.find(model, x, y, keys=keys).distances


def finder(estimator: DistanceEstimator) -> Finder:
    """Return the estimator if it finds inputs; otherwise raise an error that says why it does not."""
    for member in getattr(estimator, "estimators", ()):  # of `Tightest`
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
    """Return whether the estimator can measure the distance to leave a set of several classes."""
    return bool(getattr(estimator, "keeps_several", estimator.needs in ("predict", "gradient")))


def accepted_norm(estimator: type[DistanceEstimator], norm: Norm | str) -> Norm:
    """Return the parsed norm, or raise an error if the estimator does not support it; used in `__post_init__`."""
    parsed = Norm.parse(norm)
    if parsed not in estimator.norms:
        able = ", ".join(sorted(each.value for each in estimator.norms))
        raise InputError(f"cannot measure in {parsed}; it measures in {able}", of=estimator.__name__)
    return parsed
