"""What methods that learn from attacked inputs have in common: the attack's fields, checked, and TRADES' terms."""

from typing import Protocol

from fairmargin.core.norm import Norm
from fairmargin.core.radius import parse_radius
from fairmargin.training.adversaries import Ascent
from fairmargin.training.checking import at_least_one, norm_of, positive
from fairmargin.training.losses import CrossEntropy, DivergenceFromClean
from fairmargin.training.recipe import Term


class Attacking(Protocol):
    """A method with an attack inside a ball."""

    @property
    def radius(self) -> float:
        """Of the ball."""

    @property
    def steps(self) -> int:
        """Of the attack."""

    @property
    def step(self) -> float:
        """As a share of the radius."""

    @property
    def norm(self) -> Norm:
        """Of the ball."""


def check_attack(method: Attacking) -> None:
    """Refuse an attack that leads nowhere; a radius may be a text such as "4/255"."""
    object.__setattr__(method, "radius", parse_radius(method.radius))
    object.__setattr__(method, "norm", norm_of(method, method.norm))
    positive(method, radius=method.radius, step=method.step)
    at_least_one(method, steps=method.steps)


def by_cross_entropy(method: Attacking) -> Ascent:
    """PGD from a uniform start."""
    return Ascent(method.radius, method.steps, method.step, method.norm)


def by_divergence(method: Attacking) -> Ascent:
    """TRADES' attack: up the divergence, from beside the sample."""
    return Ascent(method.radius, method.steps, method.step, method.norm, start="gaussian", loss="kl")


def trades_terms(beta: float) -> tuple[Term, Term]:
    """CE(f(x), y) + β · KL(f(x) ‖ f(x′))."""
    return Term(CrossEntropy()), Term(DivergenceFromClean(), weight=beta, name="divergence")
