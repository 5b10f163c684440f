"""The largest radius at which something is still proven, for many samples at once and with few attempts."""

import math
from collections.abc import Callable

import torch
from torch import Tensor

PRECISION = 1e-3  # a search ends where a proven radius is that near to one that was not
_PUSH = 0.4 * PRECISION  # beyond the guessed end, so that two good guesses lie on either side of it
_GROWTH = 4.0  # of the radius, at most, while nothing has failed
_POWERS = (0.02, 8.0)


def largest_radius(
    lead: Callable[[Tensor, Tensor], Tensor], start: Tensor, guess: Tensor, most: Tensor, steps: int
) -> Tensor:
    """The largest radius tried whose lead is above 0; 0 where none is, `inf` where the last possible one is.

    What a lead has lost at radius r grows about like a power of r: the next radius is where the power through the last
    two would have used the lead up, a little beyond. A proof for a radius holds whatever happened at others, so that
    leads need not fall steadily; a guess outside of what is open becomes the middle of that.

    Parameters
    ----------
    lead
        Positions of samples and a radius for each → how much is left of their leads.
    start
        The leads at radius 0; samples without one are not tried.
    guess
        The first radii.
    most
        Radii beyond which nothing more can happen, or `inf`.
    steps
        At most so many radii are tried for each sample.

    >>> one = torch.ones(2, dtype=torch.float64)
    >>> most = torch.tensor([torch.inf, 1.5], dtype=torch.float64)
    >>> found = largest_radius(lambda at, radius: 4 - radius**2, 4 * one, 10 * one, most, steps=12)
    >>> [round(radius, 2) for radius in found.tolist()]
    [2.0, inf]
    """
    low, high = torch.zeros_like(start), torch.full_like(start, torch.inf)
    radius, before = guess.minimum(most), torch.zeros_like(start)
    lost_before, runs = torch.zeros_like(start), torch.zeros_like(start)  # runs: > 0 of proofs, < 0 of failures
    for _ in range(steps):
        apart = torch.isinf(high) | (high - low > PRECISION * high)
        at = torch.nonzero((start > 0) & apart & (low < most) & (radius > 0))[:, 0]
        if not len(at):
            break
        tried = radius[at]
        left = lead(at, tried)
        proven = left > 0  # not so for NaN
        low[at] = torch.where(proven, torch.maximum(low[at], tried), low[at])
        high[at] = torch.where(proven, high[at], torch.minimum(high[at], tried))
        lost = ((start[at] - left) / start[at]).nan_to_num(nan=torch.inf).clamp(min=1e-9)
        end = _crossing(tried, lost, before[at], lost_before[at], proven)
        before[at], lost_before[at] = tried, lost
        runs[at] = torch.where(proven, runs[at].clamp(min=0) + 1, runs[at].clamp(max=0) - 1)
        radius[at] = _inside(end, low[at], high[at], runs[at].abs()).minimum(most[at])
    return torch.where((low >= most) & (start > 0), torch.inf, low)


def _crossing(radius: Tensor, lost: Tensor, before: Tensor, lost_before: Tensor, proven: Tensor) -> Tensor:
    """Where all of the lead (1) would be lost, if what is lost were a power of the radius; a little beyond."""
    power = (lost / lost_before).log() / (radius / before).log()
    usual = torch.where(proven, 1.0, 2.0).to(radius.dtype)
    usable = (before > 0) & torch.isfinite(power) & (power > 0)
    power = torch.where(usable, power, usual).clamp(*_POWERS)
    push = torch.where(proven, 1 + _PUSH, 1 - _PUSH).to(radius.dtype)
    return radius * (-lost.log() / power).clamp(min=-math.log(64), max=math.log(_GROWTH)).exp() * push


def _inside(guess: Tensor, low: Tensor, high: Tensor, run: Tensor) -> Tensor:
    """The guess, if it lies between the radii that are proven and those that failed; else the middle of them.

    While only one end is known, guesses go farther from it with every one that has led to the same side: what is lost
    may not depend on the radius for a while. When both are, a third such guess becomes the middle.
    """
    stride = (_PUSH * 4 ** (run - 1)).clamp(max=_GROWTH - 1)
    outwards = torch.maximum(guess, low * (1 + stride))
    inwards = torch.minimum(guess, high * (1 - stride).clamp(min=1 / 8))
    middle = (low * high).sqrt()
    astray = (guess < low * (1 + _PUSH)) | (guess > high * (1 - _PUSH)) | ((run > 2) & (high > 1.1 * low))
    between = torch.where(astray, middle, guess)
    return torch.where(torch.isinf(high), outwards, torch.where(low > 0, between, inwards))
