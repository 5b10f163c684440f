"""Bounds on a network's values over a whole region: intervals forwards, linear functions backwards."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.affine import Affine
from fairmargin.models.layers import Added, Largest, Layers, Rectified, Step, value_of, windows
from fairmargin.perturbation.regions import Region

FUNCTIONS_AT_ONCE = 64
_TINY = 1e-37  # what a value too small for float32 may lose


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """Between which numbers the values of one step lie, for every input of the region.

    Parameters
    ----------
    low, high
        (samples, *shape).
    center
        The exact values at the samples.
    change
        How far from them, in L2, all values together may be; one number a sample.
    rounding
        By how much the model, in its own precision, may miss the step's exact result; None where nothing is rounded.
    middle, spread, loose
        Where each value is middle + spread · d + e with ‖d‖₂ ≤ radius and |e| ≤ loose, the three; else None.
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
    """A model's values over a region, bounded step by step.

    Guarantee: every bound holds for the model as it calculates: at each step its result may miss the exact one by what
    its precision allows, (terms + 4) · eps · (|W| |z| + |b|), in whatever order it adds up. (Higham, "Accuracy and
    stability of numerical algorithms", §3.1, has half of that; the other half, and the 4, are for the arithmetic here,
    which is in double precision and not rounded outwards.)

    Parameters
    ----------
    layers
        The model.
    region
        The inputs.
    wide
        Values that a ReLU or a maximum takes are bounded by backward passes too, if there are at most so many of them;
        0 for intervals only.
    """

    layers: Layers
    region: Region
    wide: int
    values: list[Values]

    @classmethod
    def of(cls, layers: Layers, region: Region, wide: int = 0) -> "Relaxation":
        """Bounds on the values of all steps."""
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
        """A lower bound of each linear function of a step's values, and the slopes in the inputs that prove it.

        Parameters
        ----------
        end
            The step's number.
        functions
            (samples, functions, *shape).

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
        """Three bounds, of which the best counts: by intervals, by the length of all changes, by the region itself."""
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
            ball = (middle, spread[0], loose) if layer.one_to_one else ball  # else features share a step's length
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
        """Bound each of a step's values by backward passes, where that is better."""
        known = self.values[number]
        low, high = known.low.flatten(1).clone(), known.high.flatten(1).clone()
        for some in _slices(step.size):
            unit = torch.eye(step.size, dtype=low.dtype, device=low.device)[some].reshape(1, -1, *step.shape)
            functions = unit.expand(len(low), *unit.shape[1:])
            low[:, some] = torch.maximum(low[:, some], self.lowest(number, functions)[0])
            high[:, some] = torch.minimum(high[:, some], -self.lowest(number, -functions)[0])
        high = torch.maximum(low, high)  # where both are the same but for rounding
        low, high = low.reshape(known.low.shape), high.reshape(known.low.shape)
        self.values[number] = _with_least_change(replace(known, low=low, high=high))

    def _backward(self, number: int, step: Step, slopes: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What a step adds to the constants, and the slopes in the values it takes."""
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
    """max(z, 0) lies between a·z, a 1 or 0 whichever leaves the smaller area, and the chord over [low, high]."""
    low, high = before.low, before.high
    bent = (low < 0) & (high > 0)
    chord = torch.where(bent, high / torch.where(bent, high - low, 1.0), (low >= 0).to(low.dtype))
    under = torch.where(bent, (high > -low).to(low.dtype), chord)
    lift = torch.where(bent, -low * chord, 0.0)
    return _inner(slopes.clamp(max=0), lift), slopes * torch.where(slopes > 0, under[:, None], chord[:, None])


def _largest(before: Values, members: Tensor, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """The largest of a window lies above any one of its values, and below a chord.

    With j the value that reaches highest and v the highest that the others reach, the largest is at most max(z_j, v),
    which the chord over [low_j, high_j] bounds; it is z_j itself where low_j ≥ v.
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
    """The same, where the intervals say of all values together that they change less than is known yet."""
    farthest = torch.maximum(values.high - values.center, values.center - values.low)
    return replace(values, change=torch.minimum(values.change, _length(farthest)))


def _inner(slopes: Tensor, values: Tensor) -> Tensor:
    """⟨slopes, values⟩ for each of a sample's functions."""
    return torch.bmm(slopes.reshape(*slopes.shape[:2], -1), values.reshape(len(values), -1, 1))[:, :, 0]


def _length(values: Tensor) -> Tensor:
    """The L2 norm of a sample's values, at least."""
    return values.reshape(len(values), -1).square().sum(dim=1).sqrt() * (1 + 1e-9)


def _each(numbers: Tensor, like: Tensor) -> Tensor:
    """One number a sample, for each of its values."""
    return numbers.reshape(-1, *(1 for _ in like.shape[1:]))


def _slices(size: int) -> Iterator[slice]:
    for start in range(0, size, FUNCTIONS_AT_ONCE):
        yield slice(start, min(start + FUNCTIONS_AT_ONCE, size))
