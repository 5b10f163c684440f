"""Training methods that learn from noisy inputs, for classifiers that are smoothed by the same noise; a row each."""

from dataclasses import dataclass
from typing import ClassVar

from fairmargin.core.radius import parse_radius
from fairmargin.training.adversaries import Noise, SmoothedAscent
from fairmargin.training.checking import at_least_one, positive
from fairmargin.training.losses import CrossEntropy
from fairmargin.training.recipe import Recipe, Term
from fairmargin.training.views import MOVED


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Training on inputs with Gaussian noise, for certificates by smoothing with the same noise.

    (1/n) Σ_i ℓ(f(x_i + η_i), y_i), η_i ~ N(0, noise²) drawn anew at every step.

    Parameters
    ----------
    noise
        Its standard deviation, in the units of the inputs.

    Reference: J. Cohen, E. Rosenfeld, J. Z. Kolter, "Certified adversarial robustness via randomized smoothing", 2019.
    """

    noise: float = 0.25
    title: ClassVar[str] = "training with Gaussian noise (Cohen 2019)"

    def __post_init__(self) -> None:
        positive(self, noise=self.noise)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """One term, on noisy inputs."""
        return Recipe.of(Term(CrossEntropy(MOVED), name="noisy"), adversary=Noise(self.noise))


@dataclass(frozen=True, slots=True)
class SmoothAdv:
    """Adversarial training of the smoothed classifier: PGD against the mean softmax of several noisy copies.

    x′ maximises −log (1/m) Σ_j softmax_y f(x′ + η_j) in an L2 ball; the network then learns from all x′ + η_j.

    Parameters
    ----------
    noise
        The standard deviation of η.
    draws
        m, the noisy copies of each sample.
    radius, steps, step
        Of the attack, in L2; a step is a share of the radius.

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
        positive(self, noise=self.noise, radius=self.radius, step=self.step)
        at_least_one(self, draws=self.draws, steps=self.steps)

    def recipe(self, epoch: int, epochs: int) -> Recipe:
        """One term, on attacked noisy inputs."""
        attack = SmoothedAscent(self.noise, self.draws, self.radius, self.steps, self.step)
        return Recipe.of(Term(CrossEntropy(MOVED), name="attacked"), adversary=attack)
