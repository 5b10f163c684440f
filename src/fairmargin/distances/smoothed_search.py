"""Where the vote of a smoothed classifier might turn: a search on the mean of squashed margins over noisy copies."""

import math

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import look, unit
from fairmargin.distances.smoothing_votes import SEARCH, Poll, Rows
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import in_units, norm_of
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.planes import nearest_on_plane
from fairmargin.perturbation.tiles import by_tiles

_NEAREST = 0.1  # times sigma
_FURTHEST = 4.0  # times sigma, or as far as it is from the sample: no step is longer
_AVERAGED = 4  # steps; all before are taken in full
_FIRM = 0.999  # how sure a mean vote may be: beyond, its probit is noise


def towards_the_turn(network: Network, poll: Poll, row: Rows, y: int, key: int, steps: int, copies: int) -> Rows:
    """The input nearest to the sample at which the smoothed margin seems to vanish.

    In each step the probit of the mean soft vote, which in the limit of hard votes grows no faster than 1/σ and is
    straight if the model is, is linearised from fresh noise, and the nearest input is taken on the plane where it
    would be 0 (the step of Hasofer and Lind, in the manner of Rackwitz and Fiessler). Later steps are averaged, so
    that their noise is too.

    Guarantee: inside the domain, and a function of the sample and its key; whether the vote really turns must be asked.

    Parameters
    ----------
    network
        For gradients.
    poll
        For noise.
    row, y, key
        One sample.
    steps
        So many forward and backward passes of
    copies
        noisy copies each.
    """
    start = torch.from_numpy(row).to(network.device, network.dtype)[None]
    sigma = _sigma(network, poll)
    x = start
    for step in range(steps):
        level, gain = _linearised(network, poll, x, y, key, SEARCH + step, copies)
        delta = in_units(x - start, network.scale)
        needed = (gain * delta).sum(dim=1) + level
        # Where the vote seems to have turned already, a little way out: a direction is what is sought.
        needed = torch.maximum(needed, _NEAREST * sigma * norm_of(gain, Norm.L2))
        there = nearest_on_plane(network, start, gain, needed, Norm.L2)
        move = there - x
        far = norm_of(in_units(move, network.scale), Norm.L2)
        most = norm_of(delta, Norm.L2).clamp(min=_FURTHEST * sigma)
        share = torch.where(far > most, most / torch.where(far > 0, far, 1.0), 1.0)
        x = x + min(1.0, _AVERAGED / (step + 1)) * share[:, None] * move
    if not torch.any(x != start):
        # No slope to follow: some direction, by the key; a turn far along it is better than none.
        keys = torch.tensor([key], dtype=torch.uint64).view(torch.int64)
        step_out = unit(network, torch.zeros_like(start), keys, SEARCH)
        x = (start + sigma * step_out * network.scale).clamp(network.low, network.high)
    found: Rows = x[0].cpu().numpy().astype(poll.kind)
    return found


def _linearised(
    network: Network, poll: Poll, x: Tensor, y: int, key: int, stage: int, copies: int
) -> tuple[Tensor, Tensor]:
    """Φ⁻¹ of the mean soft vote at one row, and how fast a step of length 1 along each feature lowers it."""

    def seen(rows: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        found = look(network, rows, labels, lead)  # its sign is the vote
        return found.value, found.gain, found.sound

    parts: list[tuple[Tensor, ...]] = []
    for noisy in poll.copies(x[0].cpu().numpy().astype(poll.kind), key, stage, copies):
        rows = torch.from_numpy(noisy).to(network.device, network.dtype)
        labels = torch.full((len(rows),), y, dtype=torch.int64, device=rows.device)
        parts.append(by_tiles(network, seen, rows, labels))
    value, gain, sound = (torch.cat(part) for part in zip(*parts, strict=True))
    margin = torch.where(sound, value.double(), 0.0)
    # In units of their own size: what is searched must not depend on how confident the model is trained to sound.
    size = margin.abs().mean().clamp(min=torch.finfo(torch.float64).tiny)
    soft = torch.sigmoid(margin / size)
    mean = soft.mean().clamp(1 - _FIRM, _FIRM)
    level = torch.special.ndtri(mean)
    density = torch.exp(-(level**2) / 2) / math.sqrt(2 * math.pi)
    weight = (soft * (1 - soft) / (size * density * copies)).to(gain.dtype)
    return level[None].to(gain.dtype), (weight[:, None] * gain).sum(dim=0, keepdim=True)


def _sigma(network: Network, poll: Poll) -> float:
    """The noise in units of the scale."""
    deviation = torch.from_numpy(poll.deviation).to(network.device, network.dtype)
    return float(in_units(deviation[None], network.scale).max())
