"""Wide residual networks."""

from collections import OrderedDict

from torch import Tensor, nn
from torch.nn import functional

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape

_STEM = 16
_BLOCKS = 5  # per stage


def wrn32_10(shape: Shape, classes: int) -> nn.Module:
    """Build WRN-32-10 of Ma 2022: three stages of 160, 320 and 640 channels, five blocks each.

    Five is (32 − 2) / 6, as published; by the convention of wide residual networks, (depth − 4) / 6 blocks per stage,
    the same network is called WRN-34-10.

    Reference: Zagoruyko, Komodakis, "Wide Residual Networks", BMVC 2016.
    """
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv1"] = nn.Conv2d(shape[0], _STEM, 3, padding=1, bias=False)
    before = _STEM
    for stage, width in enumerate((160, 320, 640)):
        first = WideBlock(before, width, 1 if stage == 0 else 2)
        parts[f"layer{stage + 1}"] = nn.Sequential(first, *(WideBlock(width, width, 1) for _ in range(_BLOCKS - 1)))
        before = width
    parts |= OrderedDict(bn1=nn.BatchNorm2d(before), relu=nn.ReLU(), pool=nn.AdaptiveAvgPool2d(1))
    parts |= OrderedDict(flatten=nn.Flatten(), linear=nn.Linear(before, classes))
    return he_initialised(nn.Sequential(parts))


# The source text of a class of ours is part of the fingerprint of a network: see the comment in resnet.py.
# ruff: disable[D401]
class WideBlock(nn.Module):
    """BatchNorm and ReLU before each of two 3×3 convolutions; a 1×1 convolution around them where the shape changes."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        changes = channels != width or stride != 1
        self.shortcut = nn.Conv2d(channels, width, 1, stride, bias=False) if changes else None

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        active = functional.relu(self.bn1(x))
        out: Tensor = self.conv2(functional.relu(self.bn2(self.conv1(active))))
        return out + (x if self.shortcut is None else self.shortcut(active))


# ruff: enable[D401]
