"""The copy of a torch module that searches calculate with: the same function but for last digits, and faster.

Which copy that is follows from a fixed rule. BatchNorm is folded into the layer before it wherever that is possible.
Channels come last in memory for colour images, not for images of one channel. Seconds of one tile of 64 images, forward
and backward, on one thread of an x86 processor with torch 2.13, as multiples of the speed of the module itself:

    ==============================  ======  =============  ====
    network, shape of its images    folded  channels last  both
    ==============================  ======  =============  ====
    resnet20, 3 × 32 × 32             1.34           1.16  1.41
    resnet8, 3 × 32 × 32              1.24           1.13  1.29
    cnn6, 3 × 32 × 32                    –           1.40     –
    lenet5, 1 × 28 × 28                  –           0.95     –
    small_cnn, 1 × 28 × 28               –           0.91     –
    mnist_cnn, 1 × 28 × 28               –           0.90     –
    ==============================  ======  =============  ====
"""

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fairmargin.errors import ModelError
from fairmargin.models.folding import ChannelsLast, folded

_AGREEMENT = 1e-3  # of the largest score: a copy that is further away calculates something else


@dataclass(frozen=True, slots=True)
class SearchCopy:
    """How the copy of a module is made that searches calculate with.

    Parameters
    ----------
    fold
        BatchNorm folded into the convolution or linear layer before it.
    channels_last
        Images laid out with their channels last in memory.
    """

    fold: bool = False
    channels_last: bool = False


ORIGINAL = SearchCopy()


def copies_for(module: nn.Module, shape: tuple[int, ...]) -> Iterator[SearchCopy]:
    """Yield what the rule asks for on samples of that shape, then less of it, and at last the module itself.

    >>> [*copies_for(nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)), (3, 8, 8))][0]
    SearchCopy(fold=True, channels_last=True)
    >>> [*copies_for(nn.Sequential(nn.Linear(64, 4), nn.ReLU()), (64,))]
    [SearchCopy(fold=False, channels_last=False)]
    """
    kinds = {type(part) for part in module.modules()}
    # 64 bits are asked for where last digits matter.
    single = all(parameter.dtype == torch.float32 for parameter in module.parameters())
    fold = single and any(issubclass(kind, nn.modules.batchnorm._BatchNorm) for kind in kinds)
    last = single and any(issubclass(kind, nn.Conv2d) for kind in kinds) and len(shape) == 3 and shape[0] > 1
    yield from dict.fromkeys((SearchCopy(fold, last), SearchCopy(fold), SearchCopy(channels_last=last), ORIGINAL))


def copied(module: nn.Module, how: SearchCopy) -> nn.Module:
    """Return a copy of the module made that way; the module itself if there is nothing to do.

    Guarantee: the module is untouched. What cannot be done is a `ModelError` with the reason.
    """
    if how == ORIGINAL:
        return module
    try:
        made = copy.deepcopy(module)
    except Exception as error:  # whatever the user's attributes raise when they are copied
        raise ModelError(f"the module cannot be copied ({type(error).__name__}: {error})") from None
    for part in made.modules():
        part.training = False
    for parameter in made.parameters():
        parameter.requires_grad_(False)
        parameter.grad = None
    if how.fold:
        made = folded(made)
    return ChannelsLast(made) if how.channels_last else made


def chosen(
    module: nn.Module, shape: tuple[int, ...], scores_of: Callable[[nn.Module, Tensor], Tensor], rows: Tensor
) -> tuple[SearchCopy, nn.Module]:
    """Return how the copy is made, and the copy: the first of the rule that can be made and agrees with the module.

    A copy agrees if its scores are the module's up to 0.1 %, and if a row's scores and gradients are the same bits in
    another place of the tile. The module is in evaluation mode.
    """
    for how in copies_for(module, shape):
        if how == ORIGINAL:
            break
        try:
            made = copied(module, how)
            if _agrees(made, module, scores_of, rows):
                return how, made
        except Exception:  # the user's code may raise anything on a layout that it does not expect
            continue
    return ORIGINAL, module


def _agrees(made: nn.Module, module: nn.Module, scores_of: Callable[[nn.Module, Tensor], Tensor], rows: Tensor) -> bool:
    with torch.no_grad():
        right = scores_of(module, rows)
    (scores, slopes), (turned, slopes_turned) = (_pass(made, scores_of, given) for given in (rows, rows.roll(1, 0)))
    return (
        torch.allclose(scores, right, rtol=0, atol=_AGREEMENT * float(right.abs().max()))
        and torch.equal(turned, scores.roll(1, 0))
        and torch.equal(slopes_turned, slopes.roll(1, 0))
    )


def _pass(module: nn.Module, scores_of: Callable[[nn.Module, Tensor], Tensor], rows: Tensor) -> tuple[Tensor, Tensor]:
    """Scores, and gradients of the lead over the strongest rival."""
    with torch.enable_grad():
        x = rows.detach().requires_grad_(True)
        scores = scores_of(module, x)
        first, second = scores.topk(2, dim=1).values.unbind(1)
        (slopes,) = torch.autograd.grad((first - second).sum(), x)
    return scores.detach(), slopes
