"""Residual networks: those for small images keep the size in a 3 × 3 stem, those for ImageNet reduce it fourfold."""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.shortcuts import PaddedChannels, Subsampled

Shortcut = Callable[[int, int, int], nn.Module]  # (channels in, channels out, stride)


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-18 with the stem for CIFAR (Ma 2022, Mousavi 2023); `resnet18_imagenet` is for large images."""
    return _resnet(shape[0], classes, (64, 128, 256, 512), (2, 2, 2, 2), BasicBlock, _projection)


def resnet50(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-50 with the stem for CIFAR (Ma 2022, Tran 2024); `resnet50_imagenet` is for large images."""
    return _resnet(shape[0], classes, (64, 128, 256, 512), (3, 4, 6, 3), Bottleneck, _projection)


def resnet8(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-8: the smallest of He's networks for CIFAR, quick on a laptop."""
    return _narrow(shape, classes, blocks=1)


def resnet20(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-20 of He 2016 for CIFAR; parameters are named as in `akamaster/pytorch_resnet_cifar10`."""
    return _narrow(shape, classes, blocks=3)


def resnet32(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-32 of He 2016 for CIFAR; parameters are named as those of `resnet20`."""
    return _narrow(shape, classes, blocks=5)


def resnet56(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-56 of He 2016 for CIFAR; parameters are named as those of `resnet20`."""
    return _narrow(shape, classes, blocks=9)


def resnet18_imagenet(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-18 for large images, with random weights; Nanda's published code calls it ResNet-50."""
    return _imagenet(shape[0], classes, (2, 2, 2, 2), bottleneck=False)


def resnet50_imagenet(shape: Shape, classes: int) -> nn.Module:
    """Build ResNet-50 for large images, with random weights (Nanda 2021)."""
    return _imagenet(shape[0], classes, (3, 4, 6, 3), bottleneck=True)


# The source text of our own classes, docstrings included, is part of the fingerprint of a network, under which
# distances are stored. After any change in these two classes, distances of their networks have to be measured again.
# ruff: disable[D401]
class BasicBlock(nn.Module):
    """Two 3×3 convolutions and a way around them.

    Reference: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition", CVPR 2016.
    """

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = shortcut(channels, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(inner + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3×3 convolution between two of 1×1, the last four times as wide, and a way around them (He 2016)."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, shortcut: Shortcut) -> None:
        super().__init__()
        out = width * self.expansion
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(out)
        self.shortcut = shortcut(channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        inner = functional.relu(self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x))))))
        return functional.relu(self.bn3(self.conv3(inner)) + self.shortcut(x))


# ruff: enable[D401]


class ImagenetBlock(nn.Module):
    """Add the output of two or three convolutions to the input, with the parameter names of the public weights.

    A 1 × 1 convolution adapts the input where its shape differs from the output's (He's option B). A bottleneck reduces
    the size in its 3 × 3 convolution, as the public weights do, and not in the first one as in the paper.

    Parameters
    ----------
    channels
        Number of channels of the input.
    width
        Number of channels inside the block.
    stride
        2 if the block halves the size, otherwise 1.
    bottleneck
        Whether a 3 × 3 convolution lies between two of 1 × 1, the last of which is four times as wide; otherwise there
        are two 3 × 3 convolutions.
    """

    def __init__(self, channels: int, width: int, stride: int, *, bottleneck: bool) -> None:
        super().__init__()
        out = 4 * width if bottleneck else width
        kernel, first, second = (1, 1, stride) if bottleneck else (3, stride, 1)
        self.conv1 = nn.Conv2d(channels, width, kernel, first, padding=kernel // 2, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, second, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.bottleneck = bottleneck
        if bottleneck:
            self.conv3 = nn.Conv2d(width, out, 1, bias=False)
            self.bn3 = nn.BatchNorm2d(out)
        self.downsample = _projection(channels, out, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum after a ReLU."""
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        if self.bottleneck:
            inner = self.bn3(self.conv3(functional.relu(inner)))
        return functional.relu(inner + self.downsample(x))


def _imagenet(channels: int, classes: int, blocks: tuple[int, ...], *, bottleneck: bool) -> nn.Module:
    """Build the networks of He 2016, §3.3: a 7 × 7 stem with a pool, and four stages of 64 to 512 channels."""
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, 64, 7, 2, padding=3, bias=False),
        bn1=nn.BatchNorm2d(64),
        relu=nn.ReLU(),
        maxpool=nn.MaxPool2d(3, 2, padding=1),
    )
    block = partial(ImagenetBlock, bottleneck=bottleneck)
    last = _add_stages(parts, 64, (64, 128, 256, 512), blocks, block, 4 if bottleneck else 1)
    parts |= OrderedDict(avgpool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), fc=nn.Linear(last, classes))
    return he_initialised(nn.Sequential(parts))


def _narrow(shape: Shape, classes: int, blocks: int) -> nn.Module:
    """Build the 6n + 2 layers of He 2016, §4.2: 16, 32 and 64 channels, shortcuts without weights."""
    network = _resnet(shape[0], classes, (16, 32, 64), (blocks,) * 3, BasicBlock, _zero_padded)
    return he_initialised(network)


def _resnet(
    channels: int,
    classes: int,
    widths: tuple[int, ...],
    blocks: tuple[int, ...],
    block: type[BasicBlock] | type[Bottleneck],
    shortcut: Shortcut,
) -> nn.Module:
    parts: OrderedDict[str, nn.Module] = OrderedDict(
        conv1=nn.Conv2d(channels, widths[0], 3, padding=1, bias=False), bn1=nn.BatchNorm2d(widths[0]), relu=nn.ReLU()
    )
    last = _add_stages(parts, widths[0], widths, blocks, partial(block, shortcut=shortcut), block.expansion)
    parts |= OrderedDict(pool=nn.AdaptiveAvgPool2d(1), flatten=nn.Flatten(), linear=nn.Linear(last, classes))
    return nn.Sequential(parts)


def _add_stages(
    parts: OrderedDict[str, nn.Module],
    channels: int,
    widths: tuple[int, ...],
    blocks: tuple[int, ...],
    block: Callable[[int, int, int], nn.Module],
    expansion: int,
) -> int:
    """Add the stages of blocks, all but the first of which halve the size; return the number of channels at the end."""
    for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
        layer = []
        for position in range(count):
            layer.append(block(channels, width, 2 if stage > 0 and position == 0 else 1))
            channels = width * expansion
        parts[f"layer{stage + 1}"] = nn.Sequential(*layer)
    return channels


def _projection(channels: int, out: int, stride: int) -> nn.Module:
    """Build He's option B: a 1 × 1 convolution where the shape changes."""
    if channels == out and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


def _zero_padded(channels: int, out: int, stride: int) -> nn.Module:
    """Build He's option A: every second pixel, and channels of zeros on both sides."""
    if channels == out and stride == 1:
        return nn.Identity()
    extra = out - channels
    return nn.Sequential(Subsampled(), PaddedChannels(extra // 2, extra - extra // 2))
