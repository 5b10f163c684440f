"""Adversarial retraining of the groups that are easiest to fool."""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.norm import Norm
from fairmargin.training.checking import among, at_least_one, not_negative, share
from fairmargin.training.controllers import (
    ROBUST,
    TRAINING,
    VALIDATION,
    VULNERABLE,
    VulnerableGroups,
    first_epoch_after,
)
from fairmargin.training.crafting import by_divergence, check_attack, trades_terms
from fairmargin.training.losses import CrossEntropy
from fairmargin.training.recipe import Part, Recipe, Term


@dataclass(frozen=True, slots=True)
class Farmur:
    """TRADES for everyone, then TRADES for the vulnerable groups and plain training for the robust ones.

    First mean[CE + β · KL(f(x) ‖ f(x′))] over everyone. Then Rob(P) is measured; P is vulnerable if Rob(P) < Rob(f),
    the mean over groups; and mean_vulnerable[CE + β · KL(f(x) ‖ f(x′))] + mean_robust[CE] is descended, each mean over
    a batch of its own.

    Parameters
    ----------
    beta, radius, steps, step, norm
        Of TRADES.
    since
        The share of the epochs after which the second phase begins; published: 100 of 120.
    found_on
        Where Rob(P) is measured: "training" or "validation" data.
    estimator, samples
        How, and on at most how many samples of each group.

    Reference: S. A. Mousavi, H. Mousavi, M. Daneshtalab, "FARMUR: fair adversarial retraining to mitigate unfairness in
    robustness", 2023.
    """

    beta: float = 6.0
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    since: float = 100 / 120
    found_on: str = TRAINING
    estimator: str = "plumb:steps=12"
    samples: int = 200
    title: ClassVar[str] = "TRADES, at last for vulnerable groups only (FARMUR, Mousavi 2023)"

    def __post_init__(self) -> None:
        check_attack(self)
        not_negative(self, beta=self.beta)
        share(self, since=self.since)
        at_least_one(self, samples=self.samples)
        among(self, (TRAINING, VALIDATION), found_on=self.found_on)
        self._finds()

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """One part, then two."""
        trades = Part(trades_terms(self.beta), by_divergence(self))
        if epoch < first_epoch_after(self.since, epochs):
            return Recipe((trades,), self._finds())
        vulnerable = Part(trades.terms, trades.adversary, among=VULNERABLE)
        robust = Part((Term(CrossEntropy(), name="robust groups"),), among=ROBUST)
        return Recipe((vulnerable, robust), self._finds())

    def _finds(self) -> VulnerableGroups:
        return VulnerableGroups(self.since, self.found_on, self.estimator, self.samples)
