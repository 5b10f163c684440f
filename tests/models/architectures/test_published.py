"""The networks are those of the papers: parameters counted by hand, widths, numbers of blocks, constants."""

from itertools import pairwise

import pytest
import torch
from torch import nn

from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.architectures.shortcuts import PaddedChannels


def built(name, shape, classes):
    """Without memory: only shapes are of interest."""
    with torch.device("meta"):
        return build_architecture(name, shape, classes)


def parameters(network):
    return sum(parameter.numel() for parameter in network.parameters())


def all_of(network, kind):
    return [layer for layer in network.modules() if isinstance(layer, kind)]


def conv(before, after, kernel, bias=True):
    return before * after * kernel**2 + after * bias


def linear(before, after):
    return before * after + after


def bn(width):
    return 2 * width


def chain(widths, cost):
    return sum(cost(before, after) for before, after in pairwise(widths))


def narrow_resnet(blocks):
    """He 2016: 16, 32, 64 channels, `blocks` pairs of convolutions each, shortcuts free."""
    convolutions = [3, 16, *[16] * 2 * blocks, *[32] * 2 * blocks, *[64] * 2 * blocks]
    return chain(convolutions, lambda i, o: conv(i, o, 3, bias=False) + bn(o)) + linear(64, 10)


def deep_cnn():
    widths = [3, 64, 64, 128, 128, 256, 256, 256, *[512] * 6]
    return chain(widths, lambda i, o: conv(i, o, 3) + bn(o)) + linear(512, 512) + bn(512) + linear(512, 10)


def deep_cnn_cifar100():
    widths = [3, 128, 128, 256, 256, 512, 512, 1024]
    return chain(widths, lambda i, o: conv(i, o, 3)) + linear(1024, 100)


def pyramid_basic():
    widths = [16 + (64 * k + 27) // 54 for k in range(55)]  # 64 k / 54, rounded to the nearest
    blocks = chain(widths, lambda i, o: bn(i) + conv(i, o, 3, False) + bn(o) + conv(o, o, 3, False) + bn(o))
    return conv(3, 16, 3, False) + bn(16) + blocks + bn(80) + linear(80, 10)


def pyramid_bottleneck():
    inner = [16 + (48 * k + 27) // 54 for k in range(55)]
    total, before = conv(3, 16, 3, False) + bn(16), 16
    for width in inner[1:]:
        total += bn(before) + conv(before, width, 1, False) + bn(width) + conv(width, width, 3, False) + bn(width)
        total += conv(width, 4 * width, 1, False) + bn(4 * width)
        before = 4 * width
    return total + bn(256) + linear(256, 100)


def adience():
    convolutions = conv(3, 96, 7) + bn(96) + conv(96, 256, 5) + bn(256) + conv(256, 384, 3) + bn(384)
    return convolutions + linear(221_184, 512) + linear(512, 512) + linear(512, 8)


COUNTS = {
    ("logistic", (3, 32, 32), 10): linear(3_072, 10),
    ("deep_cnn", (3, 32, 32), 10): deep_cnn(),
    ("deep_cnn_cifar100", (3, 32, 32), 100): deep_cnn_cifar100(),
    ("pyramidnet110", (3, 32, 32), 10): pyramid_basic(),
    ("pyramidnet164", (3, 32, 32), 100): pyramid_bottleneck(),
    ("utk_cnn", (3, 200, 200), 5): conv(3, 32, 7) + conv(32, 64, 5) + linear(153_664, 256) + linear(256, 5),
    ("adience_cnn", (3, 224, 224), 8): adience(),
    ("lenet5", (1, 28, 28), 10): 61_706,  # the number everyone quotes
    ("resnet18", (3, 32, 32), 10): 11_173_962,  # as counted in kuangliu/pytorch-cifar's network
    ("resnet50", (3, 32, 32), 10): 23_520_842,
    ("wrn32_10", (3, 32, 32), 10): 46_160_474,  # as of WRN-34-10, which has 5 blocks a stage too
    ("vgg13", (3, 32, 32), 10): chain(
        [3, 64, 64, 128, 128, 256, 256, 512, 512, 512, 512], lambda i, o: conv(i, o, 3) + bn(o)
    )
    + linear(512, 10),
    ("cnn6", (3, 32, 32), 10): chain([3, 32, 64, 128], lambda i, o: conv(i, o, 3))
    + chain([128 * 4 * 4, 256, 128, 10], linear),
    ("small_cnn", (1, 8, 8), 10): conv(1, 16, 3) + conv(16, 32, 3) + linear(32 * 2 * 2, 64) + linear(64, 10),
    ("small_alexnet", (1, 28, 28), 10): chain([1, 16, 48, 96, 64, 64], lambda i, o: conv(i, o, 3))
    + chain([64 * 3 * 3, 256, 256, 10], linear),
    ("resnet8", (3, 32, 32), 10): narrow_resnet(1),
    ("resnet20", (3, 32, 32), 10): narrow_resnet(3),
    ("resnet32", (3, 32, 32), 10): narrow_resnet(5),
    ("resnet56", (3, 32, 32), 10): narrow_resnet(9),
    ("mnist_cnn", (1, 28, 28), 10): conv(1, 32, 3) + conv(32, 64, 3) + linear(3_136, 200) + linear(200, 10),
}


@pytest.mark.parametrize(("name", "shape", "classes"), COUNTS, ids=str)
def test_has_as_many_parameters_as_the_paper_s_network(name, shape, classes):
    assert parameters(built(name, shape, classes)) == COUNTS[name, shape, classes]
    assert narrow_resnet(3) == 269_722  # 0.27 million in He's table


@pytest.mark.parametrize(("name", "width"), [("utk_cnn", 64 * 15 * 15), ("deep_cnn", 512 * 4)])
def test_the_convolutions_return_more_numbers_for_larger_images(name, width):
    assert all_of(built(name, (3, 64, 64), 5), nn.Linear)[0].in_features == width


def test_the_small_alexnet_has_the_widths_of_alexnet_divided_by_four():
    small, published = built("small_alexnet", (1, 28, 28), 10), built("alexnet", (3, 224, 224), 10)
    widths = [[layer.out_channels for layer in all_of(each, nn.Conv2d)] for each in (small, published)]
    assert [4 * width for width in widths[0]] == widths[1]
    kinds = [[type(layer) for layer in each.modules() if not list(layer.children())] for each in (small, published)]
    pools = [[kind for kind in found if kind in (nn.Conv2d, nn.MaxPool2d, nn.Dropout)] for found in kinds]
    assert pools[0] == pools[1]


BLOCKS = {"pyramidnet110": [18] * 3, "pyramidnet164": [18] * 3, "wrn32_10": [5] * 3}
BLOCKS |= {"resnet18": [2, 2, 2, 2], "resnet50": [3, 4, 6, 3]}
BLOCKS |= {"resnet8": [1] * 3, "resnet20": [3] * 3, "resnet32": [5] * 3, "resnet56": [9] * 3}


@pytest.mark.parametrize(("name", "blocks"), BLOCKS.items(), ids=BLOCKS)
def test_has_as_many_blocks_per_stage_as_published(name, blocks):
    network = built(name, (3, 32, 32), 10)
    assert [len(getattr(network, f"layer{i + 1}")) for i in range(len(blocks))] == blocks
    assert not hasattr(network, f"layer{len(blocks) + 1}")


def test_a_pyramid_block_is_batchnorm_convolution_batchnorm_relu_convolution_batchnorm():
    first = built("pyramidnet110", (3, 32, 32), 10).layer1[0].residual
    kinds = [nn.BatchNorm2d, nn.Conv2d, nn.BatchNorm2d, nn.ReLU, nn.Conv2d, nn.BatchNorm2d]
    assert [type(layer) for layer in first] == kinds


@pytest.mark.parametrize("name", ["pyramidnet110", "pyramidnet164"])
def test_a_pyramid_halves_twice_by_averaging_in_the_shortcut(name):
    network = built(name, (3, 32, 32), 10)
    pools = [name for name, layer in network.named_modules() if isinstance(layer, nn.AvgPool2d)]
    assert pools == ["layer2.0.shortcut.0", "layer3.0.shortcut.0"]
    shortcut = nn.Sequential(nn.AvgPool2d(2, 2, ceil_mode=True), PaddedChannels(0, 1))
    x = torch.arange(4.0).reshape(1, 1, 2, 2)
    assert shortcut(x).flatten().tolist() == [1.5, 0.0]
    assert str(network.layer2[0].shortcut[0]) == str(shortcut[0])


def test_the_shortcut_of_resnet20_takes_every_second_pixel_and_adds_zeros_on_both_sides():
    shortcut = built("resnet20", (3, 32, 32), 10).layer2[0].shortcut
    x = torch.rand(2, 16, 5, 5, generator=torch.Generator().manual_seed(0))
    out = shortcut(x)
    assert out.shape == (2, 32, 3, 3)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert out[:, :8].abs().sum() == out[:, 24:].abs().sum() == 0


@pytest.mark.parametrize(
    ("name", "dropouts"),
    [
        ("deep_cnn", [0.3, 0.4, *[0.4] * 6, 0.5, 0.5]),
        ("utk_cnn", [0.3, 0.3, 0.5]),
        ("adience_cnn", [0.5, 0.5]),
    ],
)
def test_dropout_and_the_epsilon_are_as_published(name, dropouts):
    network = built(name, (3, 64, 64), 10)
    assert [layer.p for layer in all_of(network, nn.Dropout)] == dropouts
    if name == "deep_cnn":
        assert {layer.eps for layer in all_of(network, nn.BatchNorm2d)} == {1e-3}
        assert len(all_of(network, nn.MaxPool2d)) == 5


def test_deep_cnn_for_cifar100_has_batchnorm_without_weights_and_a_last_convolution_without_padding():
    network = built("deep_cnn_cifar100", (3, 32, 32), 100)
    assert {layer.affine for layer in all_of(network, nn.BatchNorm2d)} == {False}
    assert [layer.padding for layer in all_of(network, nn.Conv2d)] == [(1, 1)] * 6 + [(0, 0)]


def test_convolutions_begin_with_the_variance_of_he():
    torch.manual_seed(0)
    weight = build_architecture("resnet20", (3, 8, 8), 10).layer3[1].conv2.weight
    assert weight.std().item() == pytest.approx((2 / (9 * 64)) ** 0.5, rel=0.02)
