"""What came of an attack: it proposes, the plain model decides, and nobody leaves the ball or the box."""

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

_ROUNDING = float(np.finfo(np.float32).eps)  # a network calculates in single precision, whatever the data are in
_SLACK = 1e-5  # of the radius
_BOX_SLACK = 1e-6  # as much as samples themselves may stray from the box


def attack_shard(
    model: Classifier, attack: Attack, x: Any, y_positions: Ints, radius: Any, seed: int = 0, start: int = 0
) -> Distances:
    """Which samples of a checked shard withstand an attack, as distances.

    0 where a sample is misclassified already; how far the attack went where the plain model, asked again, is wrong
    about what it returned; `inf`, after trying the radius, where it withstood. Only correct samples are attacked.

    Guarantee: upper bounds, whatever the attack claims; it is refused if it left the ball or the box.
    """
    samples = np.asarray(x)
    correct = model.predict(samples) == y_positions
    radii, which = as_radii(radius, len(samples)), np.flatnonzero(correct)
    values, tried = np.zeros(len(samples)), np.zeros(len(samples))
    if which.size:
        keys = sample_keys(samples, y_positions, seed)[which]
        begin, labels = samples[which], y_positions[which]
        asked = float(radii[0]) if (radii == radii[0]).all() else radii[which]
        # Copies: an attack may write into what it is given.
        found = _as_samples(attack, attack(model, begin.copy(), labels.copy(), radius=asked, keys=keys), begin)
        far = _checked(attack, model.domain, begin, found, radii[which], which + start)
        fooled = model.predict(found) != labels
        values[which], tried[which] = np.where(fooled, far, np.inf), radii[which]
    return Distances(values, correct, Bound.UPPER, attack.norm, tried=tried)


def check_radius(domain: Domain, norm: Norm, radius: float, features: int) -> None:
    """Refuse a radius that is larger than the box: it would let any input become any other."""
    low, high, scale = domain.flat(features)
    moves = domain.movable(features)
    if not moves.any():
        raise InputError("No feature can move: the domain's low and high are equal, or its scale is 0, everywhere.")
    widest = float(norm.length((high[moves] - low[moves]) / scale[moves]))
    if radius > widest:
        pixels = 1 <= radius <= 255 and (high[moves] <= 1).all()
        hint = f"did you mean {radius:g}/255?" if pixels else "choose a smaller one."
        raise InputError(
            f"The radius {radius:g} in {norm} is larger than the box, in which no two inputs are farther apart than "
            f"{widest:g}: any input could become any other; {hint}"
        )


def _as_samples(attack: Attack, returned: Any, begin: npt.NDArray[Any]) -> npt.NDArray[Any]:
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
    """How far each sample was moved, after looking that it stayed in its ball and in the box."""
    before, after = (np.asarray(each, dtype=np.float64).reshape(len(each), -1) for each in (begin, found))
    low, high, scale = domain.flat(before.shape[1])
    moves = domain.movable(before.shape[1])
    _refuse(attack, ~np.isfinite(after).all(axis=1), indices, "returned NaN or infinity for sample {}")
    rounding = 4 * _ROUNDING * np.maximum(np.abs(before), np.abs(after))
    slack = rounding + _BOX_SLACK
    shifted = (np.abs(after - before) > slack) & ~moves
    _refuse(attack, shifted.any(axis=1), indices, "moved a feature of sample {} that cannot move")
    # A sample that lies outside of the box, by rounding, may stay where it is.
    outside = (after < np.minimum(low, before) - slack) | (after > np.maximum(high, before) + slack)
    _refuse(attack, (outside & moves).any(axis=1), indices, "moved sample {} out of the domain's box")
    far = attack.norm.length((after - before)[:, moves] / scale[moves])
    allowed = radii * (1 + _SLACK) + attack.norm.length(rounding[:, moves] / scale[moves])
    first = int((far > allowed).argmax())
    how = f"{far[first]:.6g} instead of {radii[first]:.6g} in {attack.norm}"
    _refuse(attack, far > allowed, indices, f"moved sample {{}} out of its ball, by {how}")
    return far


def _refuse(attack: Attack, bad: Any, indices: Ints, what: str) -> None:
    if bad.any():
        raise InputError(
            f"`{type(attack).__name__}` {what.format(indices[bad.argmax()])} ({bad.sum():,} of {len(bad):,} attacked "
            "samples). What it finds there does not count: mend the attack, or check its norm and radius."
        )
