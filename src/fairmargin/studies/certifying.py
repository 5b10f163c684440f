"""An extra stage without further measuring: what certificates by smoothing guarantee, each of which may be false."""

from collections.abc import Mapping, Sequence

from fairmargin.analyses.certified import certify_groups
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.distances.protocol import DistanceEstimator
from fairmargin.distances.smoothing import Smoothing
from fairmargin.studies.run_folder import StoredCertificates

_SIGMAS = (0.0, 0.5, 1.0, 2.0, 3.0)  # radii at which certified accuracy is told, in units of the noise


def certificates_of(
    estimators: Mapping[str, DistanceEstimator],
    measured: Sequence[tuple[str, Distances]],
    partitions: Sequence[Partition],
    confidence: float,
) -> tuple[StoredCertificates, ...]:
    """For each estimator that is `smoothing`, and every partition: what holds although certificates may be false."""
    found = []
    for name, distances in measured:
        estimator = estimators.get(name)
        if isinstance(estimator, Smoothing):
            found += [
                StoredCertificates(
                    name,
                    certify_groups(distances, each, radii(estimator), alpha=estimator.alpha, confidence=confidence),
                )
                for each in partitions
            ]
    return tuple(found)


def radii(estimator: Smoothing) -> tuple[float, ...]:
    """Where to look: from 0 on, as far as a radius can be certified at all.

    >>> radii(Smoothing(sigma=0.25)), radii(Smoothing(sigma=1.0, draws=20))
    ((0.0, 0.125, 0.25, 0.5, 0.75), (0.0, 0.5))
    """
    return tuple(n * estimator.sigma for n in _SIGMAS if n * estimator.sigma < estimator.largest)
