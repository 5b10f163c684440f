"""Outputs of networks: what a network returns for each sample, and how it becomes one score per class.

A search follows the gradient of score differences. The gradients of probabilities vanish where a model is certain, so a
search on them stops too far from the boundary. Searches therefore never use probabilities: a final Softmax or Sigmoid
layer is left out, or log-odds are used if that is not possible.
"""

import copy
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError, exits_refused

_LAYERS = (nn.Softmax, nn.Sigmoid)
_SUM = 1e-4  # tolerance for the sum of a row of float32 probabilities
# Names, without suffix, of the autograd nodes that only change the shape.
_RESHAPING = (
    "Squeeze",
    "Unsqueeze",
    "View",
    "UnsafeView",
    "ReshapeAlias",
    "Select",
    "Slice",
    "Clone",
    "ToCopy",
    "Alias",
)
_LINEAR = ("Addmm", "Mm", "Mv", "Addmv", "Convolution", "Linear")
_AMBIGUOUS = (
    "The model returns one number per sample, and all of them lie between 0 and 1 for the samples given, so that it "
    "may be a probability or a logit. Let it return two columns instead: `torch.stack([1 - p, p], dim=1)` for a "
    "probability p of shape (n,), or `torch.stack([torch.zeros_like(z), z], dim=1)` for a logit z of that shape."
)


_LOGARITHM = (
    "The model returns one number per sample that seems to be the logarithm of a probability: its last operation is a "
    "logarithm, and all numbers are below 0. Let it return the logit z before it, of shape (n,) or (n, 1), or "
    "two columns of logarithms, one per class."
)


class Returned(StrEnum):
    """The kinds of numbers that a network can return."""

    SCORES = "scores"  # one per class, on an arbitrary scale
    PROBABILITIES = "probabilities"  # one per class, with the sum 1
    SIGMOIDS = "sigmoids"  # one per class, each between 0 and 1
    LOGIT = "logit"  # one number: the second class if it is above 0
    SIGMOID = "sigmoid"  # one number: the second class if it is above 1/2


@dataclass(frozen=True, slots=True)
class Outputs:
    """How to convert the output of a network to scores.

    Guarantee: the class with the largest score is the class that the network predicts; ties go to the first class.

    Parameters
    ----------
    kind
        Kind of numbers that the network returns.
    layer
        Name of the final Softmax or Sigmoid layer, which searches leave out; empty if there is none.
    """

    kind: Returned = Returned.SCORES
    layer: str = ""

    @property
    def single(self) -> bool:
        """Whether the network returns one number for each sample."""
        return self.kind in (Returned.LOGIT, Returned.SIGMOID)

    @property
    def searched_as_log_odds(self) -> bool:
        """Whether searches use log-odds, because the network returns probabilities and no layer could be left out."""
        return not self.layer and self.kind in (Returned.PROBABILITIES, Returned.SIGMOIDS, Returned.SIGMOID)

    def scores(self, out: Tensor) -> Tensor:
        """Return one score per class; `out` is what the network returns without its final layer."""
        if self.searched_as_log_odds:
            out = _log(out) if self.kind is Returned.PROBABILITIES else _log_odds(out)
        return as_two(out) if self.single else out

    def decided(self, module: nn.Module, out: Tensor) -> Tensor:
        """Return the scores, adjusted to the decision of the whole network, whose rounding can cause ties."""
        scores = self.scores(out)
        if self.kind in (Returned.SCORES, Returned.LOGIT):
            return scores
        given: Tensor = module.get_submodule(self.layer)(out) if self.layer else out
        winner = (given.flatten() > 0.5).long() if self.single else given.argmax(dim=1)
        other = torch.nonzero(scores.argmax(dim=1) != winner)[:, 0]
        if len(other):
            scores, most = scores.clone(), scores.amax(dim=1)[other]
            scores[other, winner[other]] = torch.nextafter(most, torch.full_like(most, torch.inf))
        return scores

    def tied(self, out: Tensor) -> Tensor:
        """Return which samples have several sigmoids that are exactly 1, so that the first of them decides."""
        return (out >= 1).sum(dim=1) > 1 if self.kind is Returned.SIGMOIDS else torch.zeros(len(out), dtype=torch.bool)

    def saturated(self, out: Tensor) -> Tensor:
        """Return which samples have probabilities of exactly 0 or 1, so that there is no gradient to follow."""
        least = torch.finfo(out.dtype).tiny
        if self.single:
            return (out.flatten() < least) | (out.flatten() >= 1)
        first, second = out.topk(2, dim=1).values.unbind(1)
        return (second < least) | ((first >= 1) if self.kind is Returned.SIGMOIDS else second < least)


class TwoColumns(nn.Module):
    """A network with one logit z, converted to a network with the scores [0, z]."""

    def __init__(self, model: nn.Module, like: Tensor) -> None:
        super().__init__()
        self.model = model
        self.columns = nn.Linear(1, 2, bias=False).to(like.device, like.dtype).requires_grad_(False)
        self.columns.weight.copy_(torch.tensor([[0.0], [1.0]]))

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores [0, z] of both classes."""
        scores: Tensor = self.columns(self.model(x).reshape(-1, 1))
        return scores


def as_two(out: Tensor) -> Tensor:
    """Return [0, z] for one logit z of shape (n,) or (n, 1).

    >>> as_two(torch.tensor([2.0, -1.0])).tolist()
    [[0.0, 2.0], [0.0, -1.0]]
    """
    z = out.reshape(-1)
    return torch.stack([torch.zeros_like(z), z], dim=1)


def is_single(out: Tensor, classes: int) -> bool:
    """Return whether a network of two classes returned one number for each sample."""
    return classes == 2 and (out.dim() == 1 or (out.dim() == 2 and out.shape[1] == 1))


def outputs_of(module: nn.Module, x: Tensor, classes: int) -> Outputs:
    """Determine what a network in evaluation mode returns, from its outputs for some samples.

    Probabilities are recognised by their range and, for several columns, by their sums; one column between 0 and 1 is a
    probability only if the last operation is a Sigmoid.
    """
    answer = _answer(module, x)
    if not isinstance(answer, Tensor) or not answer.is_floating_point() or not answer.dim():
        return Outputs()  # raises an error when it is used
    out, last = answer.detach(), _last_step(answer.grad_fn)
    single = is_single(out, classes) and len(out) == len(x)
    if not single and tuple(out.shape) != (len(x), classes):
        return Outputs()
    if single and last in ("LogSigmoid", "Log") and (out <= 0).all():  # as a logit, it would never be the second class
        raise ModelError(_LOGARITHM)
    if not ((out >= 0) & (out <= 1)).all():
        return Outputs(Returned.LOGIT) if single else Outputs()
    summing = not single and bool(((out.sum(dim=1) - 1).abs() <= max(_SUM, classes * _eps(out))).all())
    if last in _LINEAR:  # the range of the values is a coincidence
        return Outputs(Returned.LOGIT) if single else Outputs()
    layer, name = _final_layer(module, x, out)
    if single:
        if isinstance(layer, nn.Sigmoid) or last == "Sigmoid":
            return Outputs(Returned.SIGMOID, name if isinstance(layer, nn.Sigmoid) else "")
        raise ModelError(_AMBIGUOUS)
    if summing:
        return Outputs(Returned.PROBABILITIES, name if isinstance(layer, nn.Softmax) else "")
    if isinstance(layer, nn.Sigmoid) or last == "Sigmoid":
        return Outputs(Returned.SIGMOIDS, name if isinstance(layer, nn.Sigmoid) else "")
    return Outputs()


def _answer(module: nn.Module, x: Tensor) -> Any:
    """Return the outputs, with their autograd graph if the network can be differentiated."""
    with torch.enable_grad(), exits_refused():
        try:
            return module(x.clone().requires_grad_(True).clone())  # not the leaf, which forbids in-place operations
        except RuntimeError:
            pass
    with torch.no_grad(), exits_refused():
        return module(x.clone())


def without_layer(module: nn.Module, name: str) -> nn.Module:
    """Return a copy of a module without one layer, sharing its parameters and buffers."""
    if not name:
        return module
    shared = {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}
    made = copy.deepcopy(module, shared)
    parent, _, own = name.rpartition(".")
    setattr(made.get_submodule(parent), own, nn.Identity())
    return made


def _final_layer(module: nn.Module, x: Tensor, out: Tensor) -> tuple[nn.Module | None, str]:
    """Return the final Softmax or Sigmoid layer and its name, or None and an empty name."""
    candidates = [
        (part, name) for name, part in module.named_modules() if name and type(part) in _LAYERS
    ]  # a subclass may calculate something else
    for layer, name in reversed(candidates):
        try:
            with torch.no_grad():
                before = without_layer(module, name)(x.clone())
                again = layer(before)
        except Exception:
            continue
        if again.shape == out.shape and torch.allclose(again, out, rtol=1e-4, atol=_eps(out)):
            return layer, name
    return None, ""


def _last_step(step: Any) -> str:
    """Return the name of the last operation that changes more than the shape; one added constant is ignored."""
    added = False
    while step is not None:
        name = str(step.name()).rstrip("0123456789").removesuffix("Backward")
        before = [each for each, _ in step.next_functions if each is not None]
        if name in _RESHAPING and len(before) == 1:
            step = before[0]
        elif name == "Add" and len(before) == 1 and not added:
            step, added = before[0], True
        else:
            return "" if added and name not in _LINEAR else name
    return ""


def _log(p: Tensor) -> Tensor:
    return p.clamp(min=torch.finfo(p.dtype).tiny).log()


def _log_odds(p: Tensor) -> Tensor:
    """Compute log(p / (1 − p)), with finite values for p equal to 0 or 1."""
    kind = torch.finfo(p.dtype)
    inside = p.clamp(kind.tiny, 1 - kind.eps / 2)
    return inside.log() - torch.log1p(-inside)


def _eps(out: Tensor) -> float:
    return torch.finfo(out.dtype).eps
