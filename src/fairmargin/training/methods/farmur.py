"""Adversarial retraining of the groups that are easiest to fool."""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.norm import Norm
from fairmargin.training.methods.adversarial import by_divergence, check_attack, trades_terms
from fairmargin.training.parts.checks import check_choice, check_count, check_not_negative, check_share
from fairmargin.training.parts.controllers import (
    ROBUST,
    TRAINING,
    VALIDATION,
    VULNERABLE,
    VulnerableGroups,
    first_epoch_after,
)
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.recipe import Part, Recipe, Term


@dataclass(frozen=True, slots=True)
class Farmur:
    """TRADES on all samples, then TRADES on the vulnerable groups and plain training on the robust ones.

    The first phase minimises mean[CE + β · KL(f(x) ‖ f(x′))] over all samples. Then Rob(P) is measured; P is vulnerable
    if Rob(P) < Rob(f), the mean over groups. The second phase minimises mean_vulnerable[CE + β · KL(f(x) ‖ f(x′))] +
    mean_robust[CE], each mean over a batch of its own.

    Parameters
    ----------
    beta, radius, steps, step, norm
        Settings of TRADES.
    since
        Share of the epochs after which the second phase begins; published: 100 of 120.
    found_on
        Where Rob(P) is measured: "training" or "validation" data.
    estimator, samples
        The estimator of distances, and the maximum number of samples of each group.

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
    title: ClassVar[str] = "TRADES, then TRADES on vulnerable groups only (FARMUR, Mousavi 2023)"

    def __post_init__(self) -> None:
        check_attack(self)
        check_not_negative(self, beta=self.beta)
        check_share(self, since=self.since)
        check_count(self, samples=self.samples)
        check_choice(self, (TRAINING, VALIDATION), found_on=self.found_on)
        self._finds()

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: one part in the first phase, and two in the second."""
        trades = Part(trades_terms(self.beta), by_divergence(self))
        if epoch < first_epoch_after(self.since, epochs):
            return Recipe((trades,), self._finds())
        vulnerable = Part(trades.terms, trades.adversary, among=VULNERABLE)
        robust = Part((Term(CrossEntropy(), name="robust groups"),), among=ROBUST)
        return Recipe((vulnerable, robust), self._finds())

    def _finds(self) -> VulnerableGroups:
        """Return the controller that finds the vulnerable groups."""
        return VulnerableGroups(self.since, self.found_on, self.estimator, self.samples)
