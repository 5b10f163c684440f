"""What a distance estimator is."""

from typing import Any, ClassVar, Protocol, runtime_checkable

from fairmargin.core.arrays import Ints, Keys
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
    """

    needs: ClassVar[str]  # "predict", "gradient", "linear" or "layers"
    norms: ClassVar[frozenset[Norm]]
    revision: ClassVar[int]

    @property
    def norm(self) -> Norm:
        """The norm that distances are measured in."""

    def __call__(self, model: Any, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """One distance per sample; `y` holds class positions, and all randomness of sample i comes from `keys[i]`."""


def keeps_several(estimator: DistanceEstimator) -> bool:
    """Whether the estimator can measure the distance from a set of several classes."""
    return bool(getattr(estimator, "keeps_several", estimator.needs in ("predict", "gradient")))


def accepted_norm(estimator: type[DistanceEstimator], norm: Norm | str) -> Norm:
    """The norm, if the estimator can measure in it; estimators ask in their `__post_init__`."""
    parsed = Norm.parse(norm)
    if parsed not in estimator.norms:
        able = ", ".join(sorted(each.value for each in estimator.norms))
        raise InputError(f"`{estimator.__name__}` cannot measure in {parsed}; it measures in {able}.")
    return parsed
