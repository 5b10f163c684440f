"""Outcomes of attacks: results are verified with the original model and must lie in the ball and the box."""

from typing import Any

import numpy as np
import numpy.typing as npt

from fairmargin.attacks.protocol import Attack
from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.core.radius import as_radii
from fairmargin.errors import InputError
from fairmargin.models.protocol import Classifier

_ROUNDING = float(np.finfo(np.float32).eps)  # networks compute in single precision, also for data in double precision
_SLACK = 1e-5  # tolerance relative to the radius
_BOX_SLACK = 1e-6  # tolerance of the box, which also applies to samples


def attack_shard(
    model: Classifier, attack: Attack, x: Any, y_positions: Ints, radius: Any, seed: int = 0, start: int = 0
) -> Distances:
    """Attack the correctly classified samples of a shard and return the outcomes as distances.

    The distance is 0 for a sample that is misclassified before the attack; the length of the perturbation if the model
    misclassifies the result of the attack; and `inf`, with `tried` equal to the radius, if it does not.

    Guarantee: the distances are upper bounds for every attack, because results are evaluated again. Results outside of
    the ball or the box raise an error.
    """
    samples = np.asarray(x)
    correct = model.predict(samples) == y_positions
    radii, which = as_radii(radius, len(samples)), np.flatnonzero(correct)
    values, tried = np.zeros(len(samples)), np.zeros(len(samples))
    if which.size:
        keys = sample_keys(samples, y_positions, seed)[which]
        begin, labels = samples[which], y_positions[which]
        given = float(radii[0]) if (radii == radii[0]).all() else radii[which]
        # The attack gets copies, because it may modify its arguments.
        found = _as_samples(attack, attack(model, begin.copy(), labels.copy(), radius=given, keys=keys), begin)
        far = _checked(attack, model.domain, begin, found, radii[which], which + start)
        fooled = model.predict(found) != labels
        values[which], tried[which] = np.where(fooled, far, np.inf), radii[which]
    return Distances(values, correct, Bound.UPPER, attack.norm, tried=tried)


def check_radius(domain: Domain, norm: Norm, radius: float, features: int) -> None:
    """Raise an error for a radius larger than the box, within which every input could become any other."""
    low, high, scale = domain.flat(features)
    moves = domain.movable(features)
    if not moves.any():
        raise InputError(
            "All features are immutable: `low` equals `high`, or `scale` is 0, for every feature of the domain."
        )
    widest = float(norm.length((high[moves] - low[moves]) / scale[moves]))
    if radius > widest:
        pixels = 1 <= radius <= 255 and (high[moves] <= 1).all()
        hint = f"did you mean {radius:g}/255?" if pixels else "choose a smaller one."
        raise InputError(
            f"The radius {radius:g} in {norm} is larger than the box, in which no two inputs are farther apart than "
            f"{widest:g}, so every input could become any other; {hint}"
        )


def _as_samples(attack: Attack, returned: Any, begin: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the result of an attack as an array, or refuse what has another shape or type."""
    expected = f"`{type(attack).__name__}` must return samples of shape {begin.shape}"
    if not hasattr(returned, "shape"):
        raise InputError(f"{expected} as one array; it returned a {type(returned).__name__}.")
    found = np.asarray(returned.detach().cpu() if hasattr(returned, "detach") else returned)
    if found.shape != begin.shape:
        raise InputError(f"{expected}; it returned shape {found.shape}.")
    if found.dtype.kind not in "fiu":
        raise InputError(f"{expected} that are real numbers; it returned an array of {found.dtype}.")
    return found


def _checked(
    attack: Attack, domain: Domain, begin: npt.NDArray[Any], found: npt.NDArray[Any], radii: Floats, indices: Ints
) -> Floats:
    """Return the length of each perturbation, after checking that the results lie in the ball and in the box."""
    before, after = (np.asarray(each, dtype=np.float64).reshape(len(each), -1) for each in (begin, found))
    low, high, scale = domain.flat(before.shape[1])
    moves = domain.movable(before.shape[1])
    _refuse(attack, ~np.isfinite(after).all(axis=1), indices, "returned NaN or infinity for sample {}")
    rounding = 4 * _ROUNDING * np.maximum(np.abs(before), np.abs(after))
    slack = rounding + _BOX_SLACK
    shifted = (np.abs(after - before) > slack) & ~moves
    _refuse(attack, shifted.any(axis=1), indices, "changed an immutable feature of sample {}")
    # A sample that lies outside of the box, by rounding, may keep its values.
    outside = (after < np.minimum(low, before) - slack) | (after > np.maximum(high, before) + slack)
    _refuse(attack, (outside & moves).any(axis=1), indices, "moved sample {} out of the domain's box")
    far = attack.norm.length((after - before)[:, moves] / scale[moves])
    allowed = radii * (1 + _SLACK) + attack.norm.length(rounding[:, moves] / scale[moves])
    first = int((far > allowed).argmax())
    how = f"{far[first]:.6g} instead of {radii[first]:.6g} in {attack.norm}"
    _refuse(attack, far > allowed, indices, f"moved sample {{}} out of its ball, by {how}")
    return far


def _refuse(attack: Attack, bad: Any, indices: Ints, what: str) -> None:
    """Raise an error that names the first sample marked by `bad`, if there is one."""
    if bad.any():
        raise InputError(
            f"`{type(attack).__name__}` {what.format(indices[bad.argmax()])} ({bad.sum():,} of {len(bad):,} attacked "
            "samples). Such results are not valid: correct the attack, or check its norm and radius."
        )
