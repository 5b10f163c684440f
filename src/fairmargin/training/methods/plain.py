"""Training methods that use unmodified samples: plain training, and methods that are fair to groups.

To add one, write a frozen dataclass with a `recipe` here or in a file of your own, and one line in `catalog.py`.
"""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.radius import parse_radius
from fairmargin.training.parts.aggregates import GapsToMean, GapToRest, WeightedGroups
from fairmargin.training.parts.checks import check_choice, check_not_negative, check_positive
from fairmargin.training.parts.controllers import RaisedWhereWorse
from fairmargin.training.parts.losses import SAMPLE_LOSSES, CrossEntropy, Ramp, Withstanding
from fairmargin.training.recipe import Recipe, Term


@dataclass(frozen=True, slots=True)
class ERM:
    """Plain training: the mean cross-entropy.

    L = (1/n) Σ_i ℓ(f(x_i), y_i).

    Reference: V. Vapnik, "Principles of risk minimization for learning theory", NeurIPS 1991.
    """

    title: ClassVar[str] = "plain training: the mean cross-entropy"

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return a recipe of one term."""
        return Recipe.of(Term(CrossEntropy()))


@dataclass(frozen=True, slots=True)
class RampTraining:
    """Plain training with the ramp loss min(1, max(0, 1 − (f_y − max_{k≠y} f_k))).

    The loss limits the influence of outliers. A sample whose margin is below 0 or above 1 has no gradient, so a
    network that starts badly may not improve.

    Reference: C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, §7.
    """

    title: ClassVar[str] = "plain training with the ramp loss"

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return a recipe of one term."""
        return Recipe.of(Term(Ramp()))


@dataclass(frozen=True, slots=True)
class AdvERM:
    """Training that lets groups withstand a step of length τ equally often.

    L + α · |mean_{¬P} s((d−τ)/T) − mean_P s((d−τ)/T)|, means over correctly classified samples, d the linearised
    distance to the boundary, trained through the gradient's norm; see `losses.Withstanding`. A batch without a correct
    sample of either side contributes L only.

    Parameters
    ----------
    weight
        Weight α of the gap; published: 0.005, 0.1, 1, 2, 10.
    radius
        Length τ of the step, an L2 length in the units of the inputs.
    group
        The protected group, which is compared with all others; empty: the sum over every group against its rest.
    temperature
        Temperature T of the sigmoid s. 0 is the printed indicator, whose gradient is zero: training then equals `erm`.
    published
        Hold the gradient's norm constant, as the published code does.

    Reference: V. Nanda et al., "Fairness through robustness", 2020.
    """

    weight: float = 1.0
    radius: float = 0.5
    group: str = ""
    temperature: float = 0.1
    published: bool = False
    title: ClassVar[str] = "groups withstand a small step equally often (Nanda 2020)"

    def __post_init__(self) -> None:
        check_not_negative(self, weight=self.weight, temperature=self.temperature)
        object.__setattr__(self, "radius", parse_radius(self.radius))
        check_positive(self, radius=self.radius)

    @property
    def remark(self) -> str:
        """A note about these settings; empty if there is none."""
        if self.temperature:
            return ""
        return "`temperature` of `adverm` is 0: the indicator has no gradient, and the network is trained as by `erm`."

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the cross-entropy, and the gap between groups."""
        sure = Withstanding(self.radius, self.temperature, self.published)
        gap = Term(sure, GapToRest(self.group or None), self.weight, "gap")
        return Recipe.of(Term(CrossEntropy()), gap)


@dataclass(frozen=True, slots=True)
class Penalty:
    """Training that makes the losses of groups equal: L + λ Σ_a |L_a − L|.

    Parameters
    ----------
    weight
        Weight λ of the gaps; published: 0, 1, 2.
    loss
        "cross_entropy" or "ramp".

    Reference: C. Tran et al., "On the effects of fairness to adversarial vulnerability", 2024, Eq. 3.
    """

    weight: float = 1.0
    loss: str = "cross_entropy"
    title: ClassVar[str] = "a penalty on the gaps between groups’ losses (Tran 2024)"

    def __post_init__(self) -> None:
        check_not_negative(self, weight=self.weight)
        check_choice(self, SAMPLE_LOSSES, loss=self.loss)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: the loss, and the gaps between the losses of groups and of all samples."""
        loss = SAMPLE_LOSSES[self.loss]()
        return Recipe.of(Term(loss), Term(loss, GapsToMean(), self.weight, "gaps"))


@dataclass(frozen=True, slots=True)
class GroupDRO:
    """Training for the worst group's loss: min_θ max_q Σ_a q_a L_a, with q raised where the loss is large.

    Parameters
    ----------
    step
        Step size of the weights, q_a ∝ q_a · exp(step · L_a) after each batch.

    Reference: S. Sagawa et al., "Distributionally robust neural networks for group shifts", ICLR 2020.
    """

    step: float = 0.01
    title: ClassVar[str] = "the worst group’s loss (group DRO, Sagawa 2020)"

    def __post_init__(self) -> None:
        check_not_negative(self, step=self.step)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: one term, the cross-entropy weighted by group."""
        return Recipe.of(Term(CrossEntropy(), WeightedGroups()), controller=RaisedWhereWorse(self.step))
