"""Residual networks for small images: a 3×3 stem that keeps the size, and no first pool."""

from collections import OrderedDict
from collections.abc import Callable

from torch import Tensor, nn
from torch.nn import functional

from fairmargin.models.architectures.initialisation import he_initialised
from fairmargin.models.architectures.shape import Shape
from fairmargin.models.architectures.shortcuts import PaddedChannels, Subsampled

Shortcut = Callable[[int, int, int], nn.Module]  # (channels in, channels out, stride)


def resnet18(shape: Shape, classes: int) -> nn.Module:
    """ResNet-18 with the stem for CIFAR (Ma 2022, Mousavi 2023)."""
    return _resnet(shape[0], classes, (64, 128, 256, 512), (2, 2, 2, 2), BasicBlock, _projection)


def resnet50(shape: Shape, classes: int) -> nn.Module:
    """ResNet-50 with the stem for CIFAR (Ma 2022, Tran 2024); `resnet50_imagenet` is the one for large images."""
    return _resnet(shape[0], classes, (64, 128, 256, 512), (3, 4, 6, 3), Bottleneck, _projection)


def resnet8(shape: Shape, classes: int) -> nn.Module:
    """ResNet-8: the smallest of He's networks for CIFAR, quick on a laptop."""
    return _narrow(shape, classes, blocks=1)


def resnet20(shape: Shape, classes: int) -> nn.Module:
    """ResNet-20 of He 2016 for CIFAR; parameters are named as in `akamaster/pytorch_resnet_cifar10`."""
    return _narrow(shape, classes, blocks=3)


def resnet32(shape: Shape, classes: int) -> nn.Module:
    """ResNet-32 of He 2016 for CIFAR, as `resnet20`."""
    return _narrow(shape, classes, blocks=5)


def resnet56(shape: Shape, classes: int) -> nn.Module:
    """ResNet-56 of He 2016 for CIFAR, as `resnet20`."""
    return _narrow(shape, classes, blocks=9)


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


def _narrow(shape: Shape, classes: int, blocks: int) -> nn.Module:
    """The 6n + 2 layers of He 2016, §4.2: 16, 32 and 64 channels, shortcuts without weights."""
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
    parts: OrderedDict[str, nn.Module] = OrderedDict()
    parts["conv1"] = nn.Conv2d(channels, widths[0], 3, padding=1, bias=False)
    parts["bn1"] = nn.BatchNorm2d(widths[0])
    parts["relu"] = nn.ReLU()
    before = widths[0]
    for stage, (width, count) in enumerate(zip(widths, blocks, strict=True)):
        layer = []
        for position in range(count):
            layer.append(block(before, width, 2 if stage > 0 and position == 0 else 1, shortcut))
            before = width * block.expansion
        parts[f"layer{stage + 1}"] = nn.Sequential(*layer)
    parts["pool"] = nn.AdaptiveAvgPool2d(1)
    parts["flatten"] = nn.Flatten()
    parts["linear"] = nn.Linear(before, classes)
    return nn.Sequential(parts)


def _projection(channels: int, out: int, stride: int) -> nn.Module:
    """He's option B: a 1×1 convolution where the shape changes."""
    if channels == out and stride == 1:
        return nn.Identity()
    return nn.Sequential(nn.Conv2d(channels, out, 1, stride, bias=False), nn.BatchNorm2d(out))


def _zero_padded(channels: int, out: int, stride: int) -> nn.Module:
    """He's option A: every second pixel, and channels of zeros on both sides."""
    if channels == out and stride == 1:
        return nn.Identity()
    extra = out - channels
    return nn.Sequential(Subsampled(), PaddedChannels(extra // 2, extra - extra // 2))
