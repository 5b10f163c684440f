"""What an attack at a fixed radius is."""

import inspect
import math
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.protocol import Classifier

_MISSING = {"gradient": "its gradients", "predict": "its predictions"}


@runtime_checkable
class Attack(Protocol):
    """A frozen dataclass whose fields are hyper-parameters, `norm` among them; calling it runs the algorithm.

    `revision` goes up whenever results change: it is part of the store key, the package's version is not.
    """

    needs: ClassVar[str]  # "predict" or "gradient"
    norms: ClassVar[frozenset[Norm]]
    revision: ClassVar[int]

    @property
    def norm(self) -> Norm:
        """The norm that the radius is measured in."""

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """Return an input for each sample, of its shape, within the radius and inside the domain.

        A sample that the model misclassifies already is returned as it is. For others it is an input that the plain
        model misclassifies if the attack found one, and otherwise the one of largest loss.

        Parameters
        ----------
        model
            A `Classifier`, or anything that `as_classifier` accepts.
        x
            Samples of any shape (n, …).
        y
            Class positions.
        radius
            How far to go, in units of the domain's scale: a number, a text such as "4/255", or one number a sample.
        keys
            One number a sample, from which comes all its randomness: `sample_keys` makes them.
        """


def accepted_norm(attack: type[Attack], norm: Norm | str) -> Norm:
    """Return the norm if the attack supports it; attacks call this in their `__post_init__`."""
    parsed = Norm.parse(norm)
    if parsed not in attack.norms:
        able = ", ".join(sorted(each.value for each in attack.norms))
        raise InputError(f"cannot attack in {parsed}; it attacks in {able}", of=attack.__name__)
    return parsed


def check_attack(model: Classifier, attack: Attack, name: str = "") -> None:
    """Refuse what is no attack, and an attack that needs what the model does not offer.

    `name` is how the user spelled the attack, if not by its class.
    """
    if isinstance(attack, type) or not isinstance(attack, Attack):
        given = f"the class `{attack.__name__}`" if isinstance(attack, type) else repr(attack)
        raise InputError(f"`attack` must be an attack such as `fm.ATTACKS['pgd']()`; given {given}.")
    if not _takes_radius(attack):
        raise InputError(
            f"`attack` must be an attack such as `fm.ATTACKS['pgd']()`, called with a `radius`; given {attack!r}, "
            "which takes none. An estimator of distances goes to `fm.measure`."
        )
    if attack.needs not in model.offers:
        offered = ", ".join(sorted(model.offers))
        raise ModelError(
            f"`{name or type(attack).__name__}` needs from the model {_MISSING.get(attack.needs, attack.needs)}; "
            f"{'this model' if name else f'`{type(model).__name__}`'} offers {offered}. Choose another attack, or a "
            "model that has them."
        )


def is_attack(value: object) -> bool:
    """Whether this is an attack, and no class of attacks or estimator of distances."""
    return not isinstance(value, type) and isinstance(value, Attack) and _takes_radius(value)


def _takes_radius(attack: Attack) -> bool:
    """Whether it can be called with a radius: estimators of distances have all else that attacks have."""
    try:
        taken = inspect.signature(attack).parameters.values()
    except (TypeError, ValueError):  # written in another language, say: it will show when called
        return True
    return any(each.name == "radius" or each.kind is each.VAR_KEYWORD for each in taken)


def check_share_of_radius(attack: object, **given: float) -> None:
    """Refuse steps that are no share of the radius."""
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
            raise InputError(
                "must be a positive share of the radius, such as 0.25",
                field=name,
                given=value,
                of=type(attack).__name__,
            )
