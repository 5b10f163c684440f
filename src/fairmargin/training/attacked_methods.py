"""Training methods that learn from attacked inputs, a row each; those that are fair as well as robust among them."""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.norm import Norm
from fairmargin.training.aggregates import GapsToMean, VarianceOfGroups
from fairmargin.training.checking import among, not_negative
from fairmargin.training.crafting import by_cross_entropy, by_divergence, check_attack, trades_terms
from fairmargin.training.losses import SAMPLE_LOSSES, CrossEntropy
from fairmargin.training.recipe import Recipe, Term
from fairmargin.training.views import MOVED


@dataclass(frozen=True, slots=True)
class FairRobust:
    """Fair and robust at once: L + L_PGD(ε) + λ Σ_a |L_a − L|.

    Parameters
    ----------
    weight
        λ.
    radius, steps, step, norm
        Of the attack; a step is a share of the radius.
    loss
        Of all three terms: "cross_entropy" or "ramp".

    Reference: C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, §6.1.
    """

    weight: float = 1.0
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    loss: str = "cross_entropy"
    title: ClassVar[str] = "clean and attacked loss, groups’ losses pulled together (Tran 2024)"

    def __post_init__(self) -> None:
        check_attack(self)
        not_negative(self, weight=self.weight)
        among(self, SAMPLE_LOSSES, loss=self.loss)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """The loss, that of attacked inputs, and the gaps."""
        clean, moved = SAMPLE_LOSSES[self.loss](), SAMPLE_LOSSES[self.loss](MOVED)
        gaps = Term(clean, GapsToMean(), self.weight, "gaps")
        return Recipe.of(Term(clean), Term(moved, name="attacked"), gaps, adversary=by_cross_entropy(self))


@dataclass(frozen=True, slots=True)
class Madry:
    """Adversarial training: the cross-entropy of inputs attacked by PGD.

    (1/n) Σ_i max_{‖δ‖ ≤ ε} ℓ(f(x_i + δ), y_i), the maximum by so many steps from a random start.

    Parameters
    ----------
    radius, steps, step, norm
        ε, and the attack's steps; a step is a share of the radius.

    Reference: A. Madry et al., "Towards deep learning models resistant to adversarial attacks", ICLR 2018.
    """

    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    title: ClassVar[str] = "adversarial training by PGD (Madry 2018)"

    def __post_init__(self) -> None:
        check_attack(self)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """One term, on attacked inputs."""
        return Recipe.of(Term(CrossEntropy(MOVED), name="attacked"), adversary=by_cross_entropy(self))


@dataclass(frozen=True, slots=True)
class Trades:
    """Accuracy, and a boundary far from the data: CE(f(x), y) + β · KL(f(x) ‖ f(x′)), x′ maximising the KL.

    Parameters
    ----------
    beta
        β; published: 6 on CIFAR, 1 on MNIST.
    radius, steps, step, norm
        Of the attack, which starts at x + 0.001·N(0, 1); a step is a share of the radius.

    Reference: H. Zhang et al., "Theoretically principled trade-off between robustness and accuracy", ICML 2019.
    """

    beta: float = 6.0
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    title: ClassVar[str] = "accuracy, and a boundary far from the data (TRADES, Zhang 2019)"

    def __post_init__(self) -> None:
        check_attack(self)
        not_negative(self, beta=self.beta)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Cross-entropy and divergence."""
        return Recipe.of(*trades_terms(self.beta), adversary=by_divergence(self))


@dataclass(frozen=True, slots=True)
class FAT:
    """Fair adversarial training: the attacked loss, and the variance of it between groups, R_adv + λ · Var_a(R_adv,a).

    Parameters
    ----------
    weight
        λ.
    radius, steps, step, norm
        Of the attack; a step is a share of the radius.
    published
        The variance over 100 slots, most of them empty, as in the published code; otherwise over the groups present.

    Reference: X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and fairness", NeurIPS 2022.
    """

    weight: float = 0.1
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    published: bool = False
    title: ClassVar[str] = "adversarial training with the variance between groups (FAT, Ma 2022)"

    def __post_init__(self) -> None:
        check_attack(self)
        not_negative(self, weight=self.weight)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """The attacked loss and its variance."""
        attacked = CrossEntropy(MOVED)
        variance = Term(attacked, VarianceOfGroups(_slots(self.published)), self.weight, "variance")
        return Recipe.of(Term(attacked, name="attacked"), variance, adversary=by_cross_entropy(self))


@dataclass(frozen=True, slots=True)
class FATTrades:
    """TRADES with the variance of the attacked loss between groups.

    CE(f(x), y) + β · KL(f(x) ‖ f(x′)) + λ · Var_a(CE_a(f(x′), y)).

    Parameters
    ----------
    weight, beta
        λ and β.
    radius, steps, step, norm
        Of the attack; a step is a share of the radius.
    crafted_by
        "kl", as TRADES does it, or "cross_entropy", as the published code does.
    published
        The variance over 100 slots.

    Reference: X. Ma, Z. Wang, W. Liu, "On the tradeoff between robustness and fairness", NeurIPS 2022.
    """

    weight: float = 0.1
    beta: float = 6.0
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    crafted_by: str = "kl"
    published: bool = False
    title: ClassVar[str] = "TRADES with the variance between groups (FAT, Ma 2022)"

    def __post_init__(self) -> None:
        check_attack(self)
        not_negative(self, weight=self.weight, beta=self.beta)
        among(self, ("kl", "cross_entropy"), crafted_by=self.crafted_by)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """TRADES' terms and the variance."""
        attack = by_divergence(self) if self.crafted_by == "kl" else by_cross_entropy(self)
        variance = VarianceOfGroups(_slots(self.published))
        return Recipe.of(
            *trades_terms(self.beta), Term(CrossEntropy(MOVED), variance, self.weight, "variance"), adversary=attack
        )


def _slots(published: bool) -> int:
    return 100 if published else 0
