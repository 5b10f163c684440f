"""Shortcuts of residual blocks that have no weights."""

from torch import Tensor, nn
from torch.nn import functional


# The source text of a class of ours is part of the fingerprint of a network: see the comment in resnet.py.
# ruff: disable[D401]
class Subsampled(nn.Module):
    """Every second row and column.

    >>> import torch
    >>> Subsampled()(torch.arange(9.0).reshape(1, 1, 3, 3)).flatten().tolist()
    [0.0, 2.0, 6.0, 8.0]
    """

    def forward(self, x: Tensor) -> Tensor:
        """Half of the rows and columns, rounded up."""
        return x[:, :, ::2, ::2]


class PaddedChannels(nn.Module):
    """The same image with channels of zeros around its own.

    Parameters
    ----------
    before, after
        How many channels of zeros come first, and last.

    >>> import torch
    >>> PaddedChannels(1, 2)(torch.ones(1, 1, 1, 1)).flatten().tolist()
    [0.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.before, self.after = before, after

    def forward(self, x: Tensor) -> Tensor:
        """The image with more channels."""
        return functional.pad(x, (0, 0, 0, 0, self.before, self.after))

    def extra_repr(self) -> str:
        """The numbers, for `repr`: two networks that differ in them must not look alike."""
        return f"before={self.before}, after={self.after}"


# ruff: enable[D401]
