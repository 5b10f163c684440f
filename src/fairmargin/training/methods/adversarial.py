"""Training methods that use attacked inputs, some of which are fair to groups as well."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from fairmargin.core.norm import Norm
from fairmargin.core.radius import parse_radius
from fairmargin.training.parts.adversaries import Ascent
from fairmargin.training.parts.aggregates import GapsToMean, VarianceOfGroups
from fairmargin.training.parts.batch import MOVED
from fairmargin.training.parts.checks import attack_norm, check_choice, check_count, check_not_negative, check_positive
from fairmargin.training.parts.losses import SAMPLE_LOSSES, CrossEntropy, DivergenceFromClean
from fairmargin.training.recipe import Recipe, Term


class Attacking(Protocol):
    """A method with an attack inside a ball."""

    @property
    def radius(self) -> float:
        """Radius of the ball."""

    @property
    def steps(self) -> int:
        """Number of steps of the attack."""

    @property
    def step(self) -> float:
        """Length of a step as a share of the radius."""

    @property
    def norm(self) -> Norm:
        """Norm of the ball."""


def check_attack(method: Attacking) -> None:
    """Refuse an attack with invalid fields; a radius may be a text such as "4/255"."""
    object.__setattr__(method, "radius", parse_radius(method.radius))
    object.__setattr__(method, "norm", attack_norm(method, method.norm))
    check_positive(method, radius=method.radius, step=method.step)
    check_count(method, steps=method.steps)


def by_cross_entropy(method: Attacking) -> Ascent:
    """Return PGD from a uniform start."""
    return Ascent(method.radius, method.steps, method.step, method.norm)


def by_divergence(method: Attacking) -> Ascent:
    """Return the attack of TRADES: gradient ascent on the KL divergence, from a random point next to the sample."""
    return Ascent(method.radius, method.steps, method.step, method.norm, start="gaussian", loss="kl")


def trades_terms(beta: float) -> tuple[Term, Term]:
    """Return the terms of CE(f(x), y) + β · KL(f(x) ‖ f(x′))."""
    return Term(CrossEntropy()), Term(DivergenceFromClean(), weight=beta, name="divergence")


@dataclass(frozen=True, slots=True)
class FairRobust:
    """Training for fairness and robustness: L + L_PGD(ε) + λ Σ_a |L_a − L|.

    Parameters
    ----------
    weight
        Weight λ of the gaps.
    radius, steps, step, norm
        Radius, number of steps, length of a step as a share of the radius, and norm of the attack.
    loss
        Loss of all three terms: "cross_entropy" or "ramp".

    Reference: C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, §6.1.
    """

    weight: float = 1.0
    radius: float = 8 / 255
    steps: int = 10
    step: float = 0.25
    norm: Norm = Norm.LINF
    loss: str = "cross_entropy"
    title: ClassVar[str] = "clean and attacked loss, and a penalty on the gaps between groups’ losses (Tran 2024)"

    def __post_init__(self) -> None:
        check_attack(self)
        check_not_negative(self, weight=self.weight)
        check_choice(self, SAMPLE_LOSSES, loss=self.loss)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the loss, the loss of attacked inputs, and the gaps between groups' losses."""
        clean, moved = SAMPLE_LOSSES[self.loss](), SAMPLE_LOSSES[self.loss](MOVED)
        gaps = Term(clean, GapsToMean(), self.weight, "gaps")
        return Recipe.of(Term(clean), Term(moved, name="attacked"), gaps, adversary=by_cross_entropy(self))


@dataclass(frozen=True, slots=True)
class Madry:
    """Adversarial training: the cross-entropy of inputs attacked by PGD.

    (1/n) Σ_i max_{‖δ‖ ≤ ε} ℓ(f(x_i + δ), y_i), the maximum approximated by `steps` steps from a random start.

    Parameters
    ----------
    radius, steps, step, norm
        Radius ε, number of steps, length of a step as a share of the radius, and norm of the attack.

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
        """Return the recipe of an epoch: one term, the cross-entropy of attacked inputs."""
        return Recipe.of(Term(CrossEntropy(MOVED), name="attacked"), adversary=by_cross_entropy(self))


@dataclass(frozen=True, slots=True)
class Trades:
    """Training for accuracy and a boundary far from the data: CE(f(x), y) + β · KL(f(x) ‖ f(x′)), x′ maximising the KL.

    Parameters
    ----------
    beta
        Weight β of the divergence; published: 6 on CIFAR, 1 on MNIST.
    radius, steps, step, norm
        Radius, number of steps, length of a step as a share of the radius, and norm of the attack, which starts at
        x + 0.001·N(0, 1).

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
        check_not_negative(self, beta=self.beta)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the cross-entropy and the KL divergence."""
        return Recipe.of(*trades_terms(self.beta), adversary=by_divergence(self))


@dataclass(frozen=True, slots=True)
class FAT:
    """Fair adversarial training: the attacked loss and its variance between groups, R_adv + λ · Var_a(R_adv,a).

    Parameters
    ----------
    weight
        Weight λ of the variance.
    radius, steps, step, norm
        Radius, number of steps, length of a step as a share of the radius, and norm of the attack.
    published
        Take the variance over 100 values, most of them 0, as the published code does; otherwise over the groups in the
        batch.

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
        check_not_negative(self, weight=self.weight)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the loss of attacked inputs, and its variance over groups."""
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
        Weights λ of the variance and β of the divergence.
    radius, steps, step, norm
        Radius, number of steps, length of a step as a share of the radius, and norm of the attack.
    crafted_by
        The loss that the attack maximises: "kl", as in TRADES, or "cross_entropy", as in the published code.
    published
        Take the variance over 100 values, as the published code does.

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
        check_not_negative(self, weight=self.weight, beta=self.beta)
        check_choice(self, ("kl", "cross_entropy"), crafted_by=self.crafted_by)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the terms of TRADES, and the variance of the attacked loss over groups."""
        attack = by_divergence(self) if self.crafted_by == "kl" else by_cross_entropy(self)
        variance = VarianceOfGroups(_slots(self.published))
        return Recipe.of(
            *trades_terms(self.beta), Term(CrossEntropy(MOVED), variance, self.weight, "variance"), adversary=attack
        )


def _slots(published: bool) -> int:
    """Return the number of values over which the variance is taken; 0 for the groups in the batch."""
    return 100 if published else 0
