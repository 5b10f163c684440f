"""Images slightly changed, so that a network learns what does not matter."""

import torch
from torch import Tensor
from torch.nn import functional

from fairmargin.errors import InputError

_REACH = 4  # pixels that an image is moved by at most, as is usual for 32 × 32


def augmented(x: Tensor, kind: str, random: torch.Generator) -> Tensor:
    """The images, each flipped or not and moved by some pixels; what comes in at the edge is 0.

    >>> x = torch.arange(4.0).reshape(1, 1, 1, 4)
    >>> augmented(x, "none", torch.Generator()) is x
    True
    """
    if kind == "none":
        return x
    if x.ndim != 4:
        raise InputError(
            f"is for images (channels, height, width), not for samples of shape {tuple(x.shape[1:])}",
            field="augmentation",
            given=kind,
        )
    flip = torch.rand(len(x), generator=random) < 0.5
    x = torch.where(flip.to(x.device)[:, None, None, None], x.flip(-1), x)
    return x if kind == "flip" else _moved(x, random)


def _moved(x: Tensor, random: torch.Generator) -> Tensor:
    height, width = x.shape[-2:]
    padded = functional.pad(x, (_REACH,) * 4)
    down, right = torch.randint(0, 2 * _REACH + 1, (2, len(x)), generator=random).to(x.device)
    rows = down[:, None] + torch.arange(height, device=x.device)
    columns = right[:, None] + torch.arange(width, device=x.device)
    each = torch.arange(len(x), device=x.device)[:, None, None]
    # Indices at the front and the back come first in the result: (n, height, width, channels).
    return padded[each, :, rows[:, :, None], columns[:, None, :]].permute(0, 3, 1, 2).contiguous()
