"""Effective numbers of samples of a design: clusters of samples that belong together, and weights of samples."""

from dataclasses import dataclass

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.shares import effective_size
from fairmargin.inference.units import sums_in_order
from fairmargin.presentation.formatting import listed, quoted


@dataclass(frozen=True, slots=True, eq=False)
class Design:
    """Clusters and weights of the samples of an analysis; None where each sample is alone, or all weights are equal."""

    cluster: Ints | None
    weights: Floats | None

    @classmethod
    def of(cls, settings: AuditSettings, samples: int) -> "Design":
        """Return the design of an analysis of so many samples."""
        return cls(settings.cluster_codes(samples), settings.weights(samples))

    def words(self, samples: int) -> str:
        """Return a sentence about the weights; empty if there are none."""
        if self.weights is None:
            return ""
        return (
            f"Samples count by their weights: together, these {samples:,} are as informative as "
            f"{self.effective(np.arange(samples)):,.0f} with equal weights."
        )

    def effective(self, rows: Ints) -> float:
        """Return (Σw)² / Σw² over independent units, whose weights are the sums of those of their samples.

        So many samples with equal weights give a mean with the same error if weights and values are independent, and if
        the samples of a cluster are copies of each other (Kish 1965, "Survey sampling").

        >>> Design(np.array([0, 0, 1]), None).effective(np.arange(3))
        1.8
        """
        if self.cluster is None and self.weights is None:
            return float(len(rows))
        weights = np.ones(len(rows)) if self.weights is None else self.weights[rows]
        if self.cluster is not None:
            codes, inverse = np.unique(self.cluster[rows], return_inverse=True)
            weights = sums_in_order(inverse, weights, len(codes))
        return effective_size(np.sort(weights))  # rounding depends on the order of the samples

    def share(self, hits: Bools, rows: Ints) -> tuple[float, float]:
        """Return the share of hits among some samples, and the number of independent samples that it is known from.

        With weights, this number is at most p(1 − p) divided by the squared standard error of the share p, because
        weights and hits may depend on each other (Korn and Graubard 1998, "Confidence intervals for proportions with
        small expected number of positive counts estimated from survey data").
        """
        own, size = hits[rows], self.effective(rows)
        if self.weights is None:
            return float(own.mean()), size
        wrong, right = (np.sort(self.weights[rows][mask]) for mask in (~own, own))
        everyone = wrong.sum() + right.sum()
        share = float(right.sum() / everyone)
        error2 = (np.square(right).sum() * (1 - share) ** 2 + np.square(wrong).sum() * share**2) / everyone**2
        known = share * (1 - share) / error2 if error2 > 0 and self.cluster is None else size
        return share, float(min(size, known))

    def curve_size(self, curve: RobustnessCurve, size: float) -> float:
        """Return the number of independent samples for the confidence band of a curve of `size` effective samples.

        With weights, the largest variance of the curve decides, because weights may depend on the distances.
        """
        if self.weights is None or self.cluster is not None or curve.weights is None:
            return size
        last = np.append(curve.values[1:] > curve.values[:-1], True)  # of equal distances
        whole = curve.weights.sum()
        below, squares = (np.cumsum(part)[last] for part in (curve.weights / whole, (curve.weights / whole) ** 2))
        variance = squares * (1 - below) ** 2 + (squares[-1] - squares) * below**2
        largest = float(variance.max())
        return min(size, 0.25 / largest) if largest > 0 else size


def absent_words(partition: Partition, present: Ints) -> list[str]:
    """Return how many samples have weight 0, and which groups have no others and are hence left out."""
    absent = len(partition) - len(present)
    names = sorted(set(partition.labels) - set(partition.take(present).labels))
    whom = f"{absent:,} of {len(partition):,} samples have weight 0 and count as absent"
    which = f"{'which is' if len(names) == 1 else 'which are'} left out"
    groups = f", among them all of {listed([quoted(name) for name in names])}, {which}" if names else ""
    return [f"{whom}{groups}."]
