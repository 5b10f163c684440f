"""Protocol of attacks at a fixed radius, and checks that attacks share."""

import inspect
import math
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints, Keys, is_number
from fairmargin.core.norm import Norm
from fairmargin.errors import InputError, ModelError
from fairmargin.models.protocol import Classifier

_MISSING = {"gradient": "its gradients", "predict": "its predictions"}


@runtime_checkable
class Attack(Protocol):
    """Protocol of attacks: frozen dataclasses whose fields are hyper-parameters and whose call runs the attack.

    `needs` is what the attack needs from a model, `norms` are the norms that it supports. `revision` is increased when
    results of the attack change. It is a part of the keys of stored results; the version of the package is not.
    """

    needs: ClassVar[str]  # "predict" or "gradient"
    norms: ClassVar[frozenset[Norm]]
    revision: ClassVar[int]

    @property
    def norm(self) -> Norm:
        """Norm in which the radius is measured."""

    def __call__(self, model: Any, x: Any, y: Ints, *, radius: Any, keys: Keys) -> npt.NDArray[np.floating[Any]]:
        """Return an input for each sample, of the same shape, within the radius and inside the domain.

        A sample that the model misclassifies is returned unchanged. For other samples, the result is an input that the
        model misclassifies, if the attack found one, and otherwise the input with the largest loss.

        Parameters
        ----------
        model
            A `Classifier`, or anything that `as_classifier` accepts.
        x
            Samples of any shape (n, …).
        y
            Positions of the samples' classes in the order of the model's outputs.
        radius
            Maximum length of a perturbation in units of the domain's scale: a number, a text such as "4/255", or one
            number per sample.
        keys
            One key per sample, which seeds its random numbers. `sample_keys` computes them.
        """


def accepted_norm(attack: type[Attack], norm: Norm | str) -> Norm:
    """Return the parsed norm if the attack supports it, or raise an error. Attacks call this in `__post_init__`."""
    parsed = Norm.parse(norm)
    if parsed not in attack.norms:
        able = ", ".join(sorted(each.value for each in attack.norms))
        raise InputError(f"does not support the norm {parsed}; it supports {able}", of=attack.__name__)
    return parsed


def check_attack(model: Classifier, attack: Attack, name: str = "") -> None:
    """Raise an error if a value is not an attack, or if the attack needs something that the model does not offer.

    `name` is the user's name of the attack for error messages; by default the name of its class.
    """
    if isinstance(attack, type) or not isinstance(attack, Attack):
        given = f"the class `{attack.__name__}`" if isinstance(attack, type) else repr(attack)
        raise InputError(f"`attack` must be an attack such as `fm.ATTACKS['pgd']()`; given {given}.")
    if not _takes_radius(attack):
        raise InputError(
            f"`attack` must be an attack such as `fm.ATTACKS['pgd']()`, which is called with a `radius`; given "
            f"{attack!r}, which has no such parameter. Pass an estimator of distances to `fm.measure` instead."
        )
    if model.domain.columns:
        raise ModelError(
            f"`{name or type(attack).__name__}` moves every feature as a number, and cannot attack rows of a table. "
            "Measure their distances instead, which also tell the accuracy at every radius."
        )
    if attack.needs not in model.offers:
        offered = ", ".join(sorted(model.offers))
        raise ModelError(
            f"`{name or type(attack).__name__}` needs from the model {_MISSING.get(attack.needs, attack.needs)}; "
            f"{'this model' if name else f'`{type(model).__name__}`'} offers {offered}. Choose another attack or "
            "another model."
        )


def is_attack(value: object) -> bool:
    """Return whether a value is an attack. A class of attacks and an estimator of distances are not."""
    return not isinstance(value, type) and isinstance(value, Attack) and _takes_radius(value)


def _takes_radius(attack: Attack) -> bool:
    """Return whether an attack accepts a radius, which distinguishes it from an estimator of distances."""
    try:
        taken = inspect.signature(attack).parameters.values()
    # No signature, for instance of a compiled function: an error occurs when it is called.
    except (TypeError, ValueError):
        return True
    return any(each.name == "radius" or each.kind is each.VAR_KEYWORD for each in taken)


def check_share_of_radius(attack: object, **given: float) -> None:
    """Raise an error for step lengths that are not positive fractions of the radius."""
    for name, value in given.items():
        if not is_number(value) or not 0 < value < math.inf:
            raise InputError(
                "must be a positive fraction of the radius, such as 0.25",
                field=name,
                given=value,
                of=type(attack).__name__,
            )
