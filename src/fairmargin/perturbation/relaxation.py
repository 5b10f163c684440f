"""Bounds on the values of a network over a region of inputs.

Forward passes propagate intervals; backward passes propagate linear functions (CROWN). A region is the ball around each
sample, intersected with the domain.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.layers.affine import Affine
from fairmargin.models.layers.steps import Added, Largest, Layers, Rectified, Step, value_of, windows
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import norm_of

FUNCTIONS_AT_ONCE = 64  # linear functions bounded in one backward pass, which limits memory
_TINY = 1e-37  # largest error of a result that underflows in float32
_ROUNDS = 8  # iterations for the Lagrange multiplier; the bound holds for every multiplier
_ROUNDING = torch.finfo(torch.float64).eps


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """Region of inputs around each sample of a tile, {x + δ : ‖δ / scale‖ ≤ radius} ∩ box, in double precision.

    Parameters
    ----------
    center
        Samples, one row each.
    scale
        Change of each feature that has length 1; 0 for immutable features.
    down, up
        Largest decrease and increase of each feature of each sample inside the box, in units of the scale.
    norm
        Norm of the perturbation δ: L2 or L∞.
    radius
        Radius of the region, one number per sample.
    """

    center: Tensor
    scale: Tensor
    down: Tensor
    up: Tensor
    norm: Norm
    radius: Tensor

    @classmethod
    def around(cls, network: Network, rows: Tensor, norm: Norm, radius: Tensor) -> "Region":
        """Create the regions of these radii around samples, inside the network's domain."""
        center, scale = rows.double(), network.scale.double()
        still = scale == 0
        unit = torch.where(still, 1.0, scale)
        # A sample may lie outside of the box by rounding: then the region is extended to contain it.
        down, up = (center - network.low.double()) / unit, (network.high.double() - center) / unit
        zero = torch.zeros_like(center)
        down, up = (torch.where(still, zero, way.clamp(min=0)) for way in (down, up))
        return cls(center, scale, down, up, norm, radius.double())

    @property
    def farthest(self) -> Tensor:
        """Length of the longest perturbation inside the box. The region does not grow beyond this radius."""
        way = torch.maximum(self.down, self.up)
        endless = torch.isinf(way).any(dim=1)
        return torch.where(endless, torch.inf, norm_of(torch.where(endless[:, None], 0.0, way), self.norm))

    def interval(self) -> tuple[Tensor, Tensor]:
        """Return the smallest and the largest value of each feature in the region."""
        radius = self.radius[:, None]
        return (
            self.center - self.scale * torch.minimum(self.down, radius),
            self.center + self.scale * torch.minimum(self.up, radius),
        )

    def least(self, slopes: Tensor) -> Tensor:
        """Return a lower bound of ⟨slope, x⟩ over the region, for slopes of shape (samples, functions, features).

        In L∞ the bound is the minimum, up to rounding. In L2 it is the Lagrange dual: for every λ ≥ 0, the sum over i
        of the minimum of aᵢ dᵢ + λ dᵢ² / 2 over the box, minus λ radius² / 2, is at most the minimum of ⟨a, d⟩ over the
        region. Equality holds for the best λ, which is approximated by a few iterations.
        """
        gain = slopes * self.scale
        radius = self.radius[:, None, None]
        limit = torch.where(gain > 0, self.down[:, None], self.up[:, None]).minimum(radius)
        gain = gain.abs()
        if self.norm is Norm.LINF:
            drop = (gain * limit).sum(dim=2)
            size = drop
        else:
            drop, size = _dual(gain, limit, radius)
        at_center = (slopes * self.center[:, None]).sum(dim=2)
        size = size + (slopes * self.center[:, None]).abs().sum(dim=2)
        return at_center - drop - slopes.shape[2] * _ROUNDING * size


def _dual(gain: Tensor, limit: Tensor, radius: Tensor) -> tuple[Tensor, Tensor]:
    """Return an upper bound of the decrease of functions with these slopes, and the sizes of the terms of its sum."""
    free = gain
    budget = radius.square().expand(*gain.shape[:2], 1)
    for _ in range(_ROUNDS):
        rest = free.square().sum(dim=2, keepdim=True)
        multiplier = torch.where(rest > 0, (rest / torch.where(budget > 0, budget, 1.0)).sqrt(), 0.0)
        stopped = gain > multiplier * limit
        free = torch.where(stopped, 0.0, gain)
        used = torch.where(stopped, limit, 0.0).square().sum(dim=2, keepdim=True)
        budget = (radius.square() - used).clamp(min=0)
    positive = multiplier > 0
    way = torch.where(positive, gain / torch.where(positive, multiplier, 1.0), torch.inf).minimum(limit)
    size = (gain * way).sum(dim=2)
    fall = size + (multiplier[:, :, 0] / 2) * (radius[:, :, 0].square() - way.square().sum(dim=2))
    return fall, size + multiplier[:, :, 0] * radius[:, :, 0].square()


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Bounds on the values of one step of a network, for every input in the region.

    Parameters
    ----------
    low, high
        Lower and upper bounds of each value, of shape (samples, *shape).
    center
        Values at the samples.
    change
        Upper bound of the L2 distance of the values from `center`, one number per sample.
    rounding
        Upper bound of the model's rounding error in this step; None if the step does not round.
    middle, spread, loose
        If given, each value is middle + spread · d + e with ‖d‖₂ ≤ radius and |e| ≤ loose.
    """

    low: Tensor
    high: Tensor
    center: Tensor
    change: Tensor
    rounding: Tensor | None = None
    middle: Tensor | None = None
    spread: Tensor | None = None
    loose: Tensor | None = None


@dataclass(slots=True, eq=False)
class Relaxation:
    """Bounds on the values of all steps of a model over a region.

    Guarantee: every bound holds for the model in its own floating-point arithmetic. At each step its result may differ
    from the exact one by (terms + 4) · eps · (|W| |z| + |b|), for sums in any order. (The bound of Higham, "Accuracy
    and stability of numerical algorithms", §3.1, is half of that. The other half, and the 4, account for the rounding
    of the bounds themselves, which are computed in double precision without directed rounding.)

    Parameters
    ----------
    layers
        Model, as steps whose outputs can be bounded.
    region
        Inputs for which the bounds hold.
    wide
        Maximum number of inputs of a ReLU or a maximum for which they are also bounded by backward passes; 0 for
        intervals only.
    values
        Bounds on the inputs and on the values of each step.
    """

    layers: Layers
    region: Region
    wide: int
    values: list[Values]

    @classmethod
    def of(cls, layers: Layers, region: Region, wide: int = 0) -> "Relaxation":
        """Compute bounds on the values of all steps."""
        low, high = (part.reshape(len(part), *layers.shape) for part in region.interval())
        center = region.center.reshape(low.shape)
        first = Values(low, high, center, _length(torch.maximum(center - low, high - center)))
        if region.norm is Norm.L2:
            change = torch.minimum(first.change, region.radius * region.scale.amax())
            first = Values(low, high, center, change, None, center, region.scale.reshape(layers.shape), 0 * low)
        relaxation = cls(layers, region, wide, [first])
        bent = {s for step in layers.steps if isinstance(step.kind, (Rectified, Largest)) for s in step.sources}
        for number, step in enumerate(layers.steps, start=1):
            relaxation.values.append(relaxation._forward(step))
            if number in bent and step.size <= wide:
                relaxation._tighten(number, step)
        return relaxation

    def lowest(self, end: int, functions: Tensor) -> tuple[Tensor, Tensor]:
        """Return a lower bound of each linear function of a step's values, and the slopes of that bound in the inputs.

        Parameters
        ----------
        end
            Number of the step.
        functions
            Coefficients of the linear functions, of shape (samples, functions, *shape).

        References
        ----------
        H. Zhang et al., "Efficient neural network robustness certification with general activation functions" (CROWN),
        NeurIPS 2018.
        """
        count = functions.shape[:2]
        pending = {end: functions}
        constant = functions.new_zeros(count)
        for number in range(end, 0, -1):
            if number not in pending:
                continue
            step, slopes = self.layers.steps[number - 1], pending.pop(number)
            gained, parts = self._backward(number, step, slopes)
            constant = constant + gained
            for source, part in zip(step.sources, parts, strict=True):
                pending[source] = pending[source] + part if source in pending else part
        slopes = pending[0].flatten(2) if 0 in pending else functions.new_zeros(*count, self.region.center.shape[1])
        return constant + self.region.least(slopes), slopes

    def _forward(self, step: Step) -> Values:
        before = [self.values[source] for source in step.sources]
        center = value_of(step, [part.center for part in before])
        match step.kind:
            case Affine():
                values = self._affine(step.kind, before[0], center)
            case Rectified():
                low, high = before[0].low.clamp(min=0), before[0].high.clamp(min=0)
                values = Values(low, high, center, before[0].change)
            case Largest():
                low, high = (windows(part, step.kind.members).amax(dim=2) for part in (before[0].low, before[0].high))
                change = before[0].change * step.kind.norm
                values = Values(low.reshape(center.shape), high.reshape(center.shape), center, change)
            case Added():
                values = self._added(before[0], before[1], center)
        return _with_least_change(values)

    def _affine(self, layer: Affine, before: Values, center: Tensor) -> Values:
        """Return the tightest of three bounds: from intervals, from the L2 norm of all changes, and from the region."""
        half, size = (before.high - before.low) / 2, torch.maximum(before.low.abs(), before.high.abs())
        width, size = layer.absolute(torch.cat([half, size])).chunk(2)
        middle = layer.apply((before.high + before.low) / 2) + layer.bias
        low, high = middle - width, middle + width
        change, reach = before.change * layer.norm, None
        if layer.squared is not None:
            reach = _each(before.change, low) * layer.squared(torch.ones_like(before.low[:1])).sqrt()
            low, high = torch.maximum(low, center - reach), torch.minimum(high, center + reach)
        ball: tuple[Tensor | None, ...] = (None, None, None)
        if before.middle is not None and before.spread is not None and before.loose is not None and layer.squared:
            middle, loose = layer.apply(before.middle) + layer.bias, layer.absolute(before.loose)
            spread = layer.squared(before.spread.square()[None]).sqrt()
            reach = _each(self.region.radius, low) * spread + loose
            low, high = torch.maximum(low, middle - reach), torch.minimum(high, middle + reach)
            # Otherwise several values depend on the same feature of the region.
            ball = (middle, spread[0], loose) if layer.one_to_one else ball
        if not layer.terms:
            return Values(low, high, center, change, None, *ball)
        rounding = self._unit(layer.terms) * (size + layer.bias_size) + _TINY
        if ball[2] is not None:
            ball = (ball[0], ball[1], ball[2] + rounding)
        return Values(low - rounding, high + rounding, center, change + _length(rounding), rounding, *ball)

    def _added(self, one: Values, other: Values, center: Tensor) -> Values:
        size = sum(torch.maximum(part.low.abs(), part.high.abs()) for part in (one, other))
        rounding = self._unit(1) * torch.as_tensor(size) + _TINY
        change = one.change + other.change + _length(rounding)
        return Values(one.low + other.low - rounding, one.high + other.high + rounding, center, change, rounding)

    def _tighten(self, number: int, step: Step) -> None:
        """Tighten the bounds on the values of a step by backward passes."""
        known = self.values[number]
        low, high = known.low.flatten(1).clone(), known.high.flatten(1).clone()
        for part in _slices(step.size):
            unit = torch.eye(step.size, dtype=low.dtype, device=low.device)[part].reshape(1, -1, *step.shape)
            functions = unit.expand(len(low), *unit.shape[1:])
            low[:, part] = torch.maximum(low[:, part], self.lowest(number, functions)[0])
            high[:, part] = torch.minimum(high[:, part], -self.lowest(number, -functions)[0])
        high = torch.maximum(low, high)  # rounding can exchange bounds that are equal
        low, high = low.reshape(known.low.shape), high.reshape(known.low.shape)
        self.values[number] = _with_least_change(replace(known, low=low, high=high))

    def _backward(self, number: int, step: Step, slopes: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the constant that a step adds to a linear bound, and the slopes with respect to the step's inputs."""
        lost = slopes.new_zeros(slopes.shape[:2])
        rounding = self.values[number].rounding
        if rounding is not None:
            lost = -_inner(slopes.abs(), rounding)
        match step.kind:
            case Affine():
                lost = lost + _inner(slopes, step.kind.bias.expand(len(slopes), *step.shape))
                back = step.kind.adjoint(slopes.flatten(0, 1))
                return lost, (back.reshape(*slopes.shape[:2], *back.shape[1:]),)
            case Rectified():
                gained, back = _rectified(self.values[step.sources[0]], slopes)
                return gained, (back,)
            case Largest():
                gained, back = _largest(self.values[step.sources[0]], step.kind.members, slopes)
                return gained, (back,)
            case Added():
                return lost, (slopes, slopes)

    def _unit(self, terms: int) -> float:
        return (terms + 4) * torch.finfo(self.layers.precision).eps


def _rectified(before: Values, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate slopes through max(z, 0).

    It lies above a·z, where a is 0 or 1, whichever gives the smaller area, and below the chord over [low, high].
    """
    low, high = before.low, before.high
    bent = (low < 0) & (high > 0)
    chord = torch.where(bent, high / torch.where(bent, high - low, 1.0), (low >= 0).to(low.dtype))
    under = torch.where(bent, (high > -low).to(low.dtype), chord)
    lift = torch.where(bent, -low * chord, 0.0)
    return _inner(slopes.clamp(max=0), lift), slopes * torch.where(slopes > 0, under[:, None], chord[:, None])


def _largest(before: Values, members: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate slopes through the maximum of a window of values.

    The maximum is at least any single value of the window. Let j be the value with the highest upper bound, and v the
    highest upper bound of the others. The maximum is at most max(z_j, v), which lies below its chord over
    [low_j, high_j]; it equals z_j if low_j ≥ v.
    """
    low, high = windows(before.low, members), windows(before.high, members)
    likely = torch.where(members >= 0, (low + high) / 2, -torch.inf).argmax(dim=2, keepdim=True)
    top, which = high.max(dim=2, keepdim=True)
    others = high.scatter(2, which, -torch.inf).amax(dim=2, keepdim=True)
    bottom = low.gather(2, which)
    bent = bottom < others
    chord = torch.where(bent, (top - others) / torch.where(bent, top - bottom, 1.0), 1.0)
    lift = torch.where(bent, torch.where(bent, others, 0.0) - chord * bottom, 0.0)[:, :, 0]

    flat = slopes.flatten(3)
    positive, negative = flat.clamp(min=0), flat.clamp(max=0)
    gained = _inner(negative, lift)
    back = slopes.new_zeros(*slopes.shape[:3], before.low[0, 0].numel())
    for part, chosen in ((positive, likely), (negative * chord[:, None, :, 0], which)):
        at = members.expand(*chosen.shape[:2], *members.shape).gather(2, chosen)[:, :, 0]
        back.scatter_add_(3, at[:, None].expand(*part.shape), part)
    return gained, back.reshape(*slopes.shape[:2], *before.low.shape[1:])


def _with_least_change(values: Values) -> Values:
    """Return the values with `change` reduced to the bound that follows from the intervals, if that is smaller."""
    farthest = torch.maximum(values.high - values.center, values.center - values.low)
    return replace(values, change=torch.minimum(values.change, _length(farthest)))


def _inner(slopes: Tensor, values: Tensor) -> Tensor:
    """Return ⟨slopes, values⟩ for each function of each sample."""
    return torch.bmm(slopes.reshape(*slopes.shape[:2], -1), values.reshape(len(values), -1, 1))[:, :, 0]


def _length(values: Tensor) -> Tensor:
    """Return an upper bound of the L2 norm of each sample's values, which includes its rounding error."""
    return values.reshape(len(values), -1).square().sum(dim=1).sqrt() * (1 + 1e-9)


def _each(numbers: Tensor, like: Tensor) -> Tensor:
    """Reshape one number per sample so that it broadcasts with the values of the samples."""
    return numbers.reshape(-1, *(1 for _ in like.shape[1:]))


def _slices(size: int) -> Iterator[slice]:
    for start in range(0, size, FUNCTIONS_AT_ONCE):
        yield slice(start, min(start + FUNCTIONS_AT_ONCE, size))
