"""PyramidNet: residual networks whose width grows a little in every block."""

from collections import OrderedDict

from torch import Tensor, nn

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.shortcuts import PaddedChannels

_STEM = 16
_BLOCKS = 18  # in each of the three stages, for depth 110 (two convolutions per block) and 164 (three)
_EXPANSION = 4  # the output of a bottleneck is four times as wide as its inside


def pyramidnet110(shape: Shape, classes: int) -> nn.Module:
    """Build PyramidNet α = 64, depth 110, basic blocks: the widths rise from 16 to 80 (Nanda 2021, CIFAR-10)."""
    return _pyramidnet(shape[0], classes, alpha=64, bottleneck=False)


def pyramidnet164(shape: Shape, classes: int) -> nn.Module:
    """Build PyramidNet α = 48, depth 164, bottlenecks: inner widths rise to 64, outputs to 256 (CIFAR-100)."""
    return _pyramidnet(shape[0], classes, alpha=48, bottleneck=True)


# The source text of a class of ours is part of the fingerprint of a network: see the comment in resnet.py.
# ruff: disable[D401]
class PyramidBlock(nn.Module):
    """residual(x) + x, where x is averaged to the residual's size and gets channels of zeros.

    No ReLU follows the sum, nor does one precede the first convolution: more of them cost accuracy here.

    Reference: Han, Kim, Kim, "Deep Pyramidal Residual Networks", CVPR 2017.
    """

    def __init__(self, residual: nn.Sequential, extra: int, stride: int) -> None:
        super().__init__()
        self.residual = residual
        # An odd side is rounded up, as the convolution with stride 2 does.
        pool = nn.AvgPool2d(2, 2, ceil_mode=True) if stride == 2 else nn.Identity()
        self.shortcut = nn.Sequential(pool, PaddedChannels(0, extra))

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        out: Tensor = self.residual(x) + self.shortcut(x)
        return out


# ruff: enable[D401]


def _pyramidnet(channels: int, classes: int, *, alpha: int, bottleneck: bool) -> nn.Module:
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv1"] = nn.Conv2d(channels, _STEM, 3, padding=1, bias=False)
    parts["bn1"] = nn.BatchNorm2d(_STEM)
    width, steps = _STEM, 3 * _BLOCKS
    for stage in range(3):
        blocks: list[nn.Module] = []
        for step in range(stage * _BLOCKS + 1, (stage + 1) * _BLOCKS + 1):
            inner = round(_STEM + alpha * step / steps)
            stride = 2 if stage > 0 and not blocks else 1
            out = inner * _EXPANSION if bottleneck else inner
            residual = _bottleneck(width, inner, stride) if bottleneck else _basic(width, inner, stride)
            blocks.append(PyramidBlock(residual, out - width, stride))
            width = out
        parts[f"layer{stage + 1}"] = nn.Sequential(*blocks)
    parts |= OrderedDict(bn_final=nn.BatchNorm2d(width), relu=nn.ReLU(), pool=nn.AdaptiveAvgPool2d(1))
    parts |= OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(width, classes))
    return he_initialised(nn.Sequential(parts))


def _basic(width: int, out: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(width),
        nn.Conv2d(width, out, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(out),
        nn.ReLU(),
        nn.Conv2d(out, out, 3, padding=1, bias=False),
        nn.BatchNorm2d(out),
    )


def _bottleneck(width: int, inner: int, stride: int) -> nn.Sequential:
    return nn.Sequential(
        nn.BatchNorm2d(width),
        nn.Conv2d(width, inner, 1, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU(),
        nn.Conv2d(inner, inner, 3, stride, padding=1, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU(),
        nn.Conv2d(inner, inner * _EXPANSION, 1, bias=False),
        nn.BatchNorm2d(inner * _EXPANSION),
    )
