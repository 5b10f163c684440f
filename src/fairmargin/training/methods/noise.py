"""Training methods that use noisy inputs, for classifiers that are smoothed by the same noise."""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.radius import parse_radius
from fairmargin.training.parts.adversaries import Noise, SmoothedAscent
from fairmargin.training.parts.batch import MOVED
from fairmargin.training.parts.checks import check_count, check_positive
from fairmargin.training.parts.losses import CrossEntropy
from fairmargin.training.recipe import Recipe, Term


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Training on inputs with Gaussian noise, for certificates by smoothing with the same noise.

    (1/n) Σ_i ℓ(f(x_i + η_i), y_i), η_i ~ N(0, noise²) drawn again at every step.

    Parameters
    ----------
    noise
        Standard deviation of the noise, in the units of the inputs.

    Reference: J. Cohen, E. Rosenfeld, J. Z. Kolter, "Certified adversarial robustness via randomized smoothing", 2019.
    """

    noise: float = 0.25
    title: ClassVar[str] = "training with Gaussian noise (Cohen 2019)"

    def __post_init__(self) -> None:
        check_positive(self, noise=self.noise)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: one term, the cross-entropy of noisy inputs."""
        return Recipe.of(Term(CrossEntropy(MOVED), name="noisy"), adversary=Noise(self.noise))


@dataclass(frozen=True, slots=True)
class SmoothAdv:
    """Adversarial training of the smoothed classifier: PGD against the mean softmax of several noisy copies.

    x′ maximises −log (1/m) Σ_j softmax_y f(x′ + η_j) in an L2 ball; the network is then trained on all x′ + η_j.

    Parameters
    ----------
    noise
        Standard deviation of η, in the units of the inputs.
    draws
        Number m of noisy copies of each sample.
    radius, steps, step
        L2 radius, number of steps, and length of a step as a share of the radius of the attack.

    Reference: H. Salman et al., "Provably robust deep learning via adversarially trained smoothed classifiers", 2019.
    """

    noise: float = 0.25
    draws: int = 2
    radius: float = 0.5
    steps: int = 4
    step: float = 0.5
    title: ClassVar[str] = "adversarial training of the smoothed classifier (Salman 2019)"

    def __post_init__(self) -> None:
        object.__setattr__(self, "radius", parse_radius(self.radius))
        check_positive(self, noise=self.noise, radius=self.radius, step=self.step)
        check_count(self, draws=self.draws, steps=self.steps)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """Return the recipe of an epoch: one term, the cross-entropy of inputs that are attacked and noisy."""
        attack = SmoothedAscent(self.noise, self.draws, self.radius, self.steps, self.step)
        return Recipe.of(Term(CrossEntropy(MOVED), name="attacked"), adversary=attack)
