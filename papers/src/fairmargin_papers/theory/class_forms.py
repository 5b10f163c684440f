"""The closed forms of two Gaussian classes on arrays that `gaussian_classes` has checked."""

from dataclasses import dataclass

import numpy as np
from scipy.special import logit, ndtr

from fairmargin.core.arrays import Bools, Floats
from fairmargin_papers.theory.best_threshold import BestThreshold, best_threshold
from fairmargin_papers.theory.normal import log_mean_excess, mass_between


@dataclass(frozen=True, slots=True, eq=False)
class ClassForms:
    """x | ± ~ N(±μ_±·1, σ_±² I_d), prior α of +, predicted sign(⟨1, x⟩ + b); every field is an array of float64.

    Margins are in standard deviations: z₊ = (b + d(μ₊−ε)) / (√d σ₊) and z₋ = (−b + d(μ₋−ε)) / (√d σ₋), so that the
    robust errors at radius ε are Φ(−z₊) and Φ(−z₋).
    """

    mean_plus: Floats
    mean_minus: Floats
    std_plus: Floats
    std_minus: Floats
    dim: Floats
    prior: Floats

    @property
    def shape(self) -> tuple[int, ...]:
        """Common shape of all parameters."""
        fields = (self.mean_plus, self.mean_minus, self.std_plus, self.std_minus, self.dim, self.prior)
        return np.broadcast_shapes(*(field.shape for field in fields))

    @property
    def log_ratio(self) -> Floats:
        """κ = ln(ασ₋ / ((1−α)σ₊))."""
        return np.asarray(logit(self.prior) + np.log(self.std_minus / self.std_plus))

    @property
    def equal_stds(self) -> Bools:
        """Whether σ₊ = σ₋."""
        return np.asarray(self.std_plus == self.std_minus)

    def separation(self, radius: Floats) -> Floats:
        """Return M = μ₊ + μ₋ − 2ε, the distance between the means under an adversary of radius ε."""
        return np.asarray(self.mean_plus + self.mean_minus - 2 * radius)

    def trained(self, train_radius: Floats) -> BestThreshold:
        """Return the threshold with the least robust error at `train_radius`."""
        mean_std = (self.std_plus + self.std_minus) / 2
        scaled = np.sqrt(self.dim) * self.separation(train_radius) / mean_std
        skew = (self.std_minus - self.std_plus) / (2 * mean_std)
        log_spread = np.log(self.std_minus / self.std_plus)
        return best_threshold(scaled, skew, np.asarray(log_spread), np.asarray(logit(self.prior)))

    def bias(self, train_radius: Floats) -> Floats:
        """Return b = √d·σ̄·(Q − δP)/2 − d(μ₊−μ₋)/2."""
        threshold, root = self.trained(train_radius), np.sqrt(self.dim)
        by_plus = root * self.std_plus * threshold.plus - self.dim * (self.mean_plus - train_radius)
        by_minus = self.dim * (self.mean_minus - train_radius) - root * self.std_minus * threshold.minus
        spread = (self.std_plus + self.std_minus) * threshold.lead - (self.std_minus - self.std_plus) * threshold.total
        middle = root * spread / 4 - self.dim * (self.mean_plus - self.mean_minus) / 2
        # All three are equal to b. The middle is precise if the spreads are similar, otherwise the narrow class is.
        narrow = np.where(self.std_plus < self.std_minus, by_plus, by_minus)
        ratio = self.std_plus / self.std_minus
        return np.asarray(np.where((ratio > 1 / 3) & (ratio < 3), middle, narrow))

    def margins(self, train_radius: Floats, test_radius: Floats) -> tuple[Floats, Floats]:
        """Return (z₊, z₋) at the test radius, without b, which is large for large d."""
        threshold = self.trained(train_radius)
        shift = np.sqrt(self.dim) * (train_radius - test_radius)
        return threshold.plus + shift / self.std_plus, threshold.minus + shift / self.std_minus

    def errors(self, train_radius: Floats, test_radius: Floats) -> tuple[Floats, Floats]:
        """Return (R₊, R₋) at the test radius."""
        plus, minus = self.margins(train_radius, test_radius)
        return np.asarray(ndtr(-plus)), np.asarray(ndtr(-minus))

    def risk(self, train_radius: Floats, test_radius: Floats) -> Floats:
        """Return αR₊ + (1−α)R₋ at the test radius."""
        plus, minus = self.errors(train_radius, test_radius)
        return np.asarray(self.prior * plus + (1 - self.prior) * minus)

    def gap(self, train_radius: Floats, test_radius: Floats) -> Floats:
        """Return |R₊ − R₋|, calculated from the smaller tails."""
        plus, minus = self.margins(train_radius, test_radius)
        return mass_between(np.minimum(-plus, -minus), np.maximum(-plus, -minus))

    def mean_distances(self, train_radius: Floats) -> tuple[Floats, Floats]:
        """Return E max(0, margin) of each class in L∞: (σ/√d)·(zΦ(z) + φ(z)) at the natural margin z."""
        plus, minus = self.margins(train_radius, np.zeros(()))
        unit = 1 / np.sqrt(self.dim)
        return (
            np.asarray(self.std_plus * unit * _mean_of_positive_part(plus)),
            np.asarray(self.std_minus * unit * _mean_of_positive_part(minus)),
        )


def _mean_of_positive_part(margin: Floats) -> Floats:
    """Return E max(0, z + Z) = zΦ(z) + φ(z); below z = −40 it is less than the smallest float."""
    return np.asarray(np.exp(log_mean_excess(np.maximum(margin, -40.0))))
