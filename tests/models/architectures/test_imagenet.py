"""The networks for ImageNet are torchvision's: by parameters and, where it is installed, by names and outputs."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from fairmargin.models.architectures.catalog import ARCHITECTURES, build_architecture
from tests.peers import peer

# Parameters for 1,000 classes as torchvision's documentation states them, and torchvision's name for the network.
NETWORKS = {
    "alexnet": (61_100_840, "alexnet"),
    "vgg19": (143_667_240, "vgg19"),
    "vgg19_bn": (143_678_248, "vgg19_bn"),
    "resnet18_imagenet": (11_689_512, "resnet18"),
    "resnet50_imagenet": (25_557_032, "resnet50"),
    "densenet121": (7_978_856, "densenet121"),
    "squeezenet1_0": (1_248_424, "squeezenet1_0"),
}


@pytest.fixture
def torchvision():
    return peer("torchvision.models")


def images(side, channels=3, count=2):
    return torch.rand(count, channels, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", [name for name, entry in ARCHITECTURES.items() if entry.weights is not None])
def test_has_the_documented_number_of_parameters_and_its_first_and_last_layer_where_the_catalog_says(name):
    public = ARCHITECTURES[name].weights
    with torch.device("meta"):
        network, other = build_architecture(name, (3, 224, 224), 1000), build_architecture(name, (5, 64, 64), 7)
    assert sum(parameter.numel() for parameter in network.parameters()) == NETWORKS[name][0]
    assert other.get_submodule(public.stem).weight.shape[1] == 5
    assert other.get_submodule(public.head).weight.shape[0] == 7


@pytest.mark.parametrize("name", NETWORKS)
def test_the_state_dict_and_the_outputs_are_those_of_torchvision(torchvision, name):
    theirs = torchvision.get_model(NETWORKS[name][1]).eval()
    generator = torch.Generator().manual_seed(0)
    for layer in theirs.modules():  # statistics as after a training, so that a BatchNorm in the wrong place is noticed
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_mean.normal_(0, 0.1, generator=generator)
            layer.running_var.uniform_(0.5, 1.5, generator=generator)
    with torch.device("meta"):
        ours = build_architecture(name, (3, 224, 224), 1000).eval()
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict(theirs.state_dict(), assign=True)
    for side in (224, 65):
        with torch.no_grad():
            torch.testing.assert_close(ours(images(side)), theirs(images(side)), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["densenet121", "resnet18_imagenet", "resnet50_imagenet", "squeezenet1_0"])
def test_gradients_and_batch_statistics_of_training_are_those_of_torchvision(torchvision, name):
    theirs = torchvision.get_model(NETWORKS[name][1], num_classes=10).train()
    ours = build_architecture(name, (3, 64, 64), 10).train()
    ours.load_state_dict(theirs.state_dict())
    for network in (ours, theirs):
        torch.manual_seed(0)  # of dropout
        functional.cross_entropy(network(images(64, count=4)), torch.arange(4)).backward()
    for mine, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, other.grad, rtol=1e-4, atol=1e-6)
    for mine, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, other)


@pytest.mark.parametrize("name", NETWORKS)
def test_the_seed_gives_the_weights_that_it_gives_in_torchvision(torchvision, name):
    torch.manual_seed(3)
    ours = build_architecture(name, (3, 224, 224), 10).state_dict()
    torch.manual_seed(3)
    theirs = torchvision.get_model(NETWORKS[name][1], num_classes=10).state_dict()
    assert all(torch.equal(ours[key], value) for key, value in theirs.items())


def test_alexnet_resizes_images_that_are_too_small_for_it_to_the_published_size():
    torch.manual_seed(0)
    small = build_architecture("alexnet", (3, 32, 32), 2).eval()
    with torch.device("meta"):
        published = build_architecture("alexnet", (3, 224, 224), 2).eval()
    published.load_state_dict(small.state_dict(), assign=True)
    resized = functional.interpolate(images(32), (224, 224), mode="bilinear", align_corners=False)
    with torch.no_grad():
        assert torch.equal(small(images(32)), published(resized))


@pytest.mark.parametrize(("sides", "resized"), [((63, 63), False), ((62, 80), True), ((80, 62), True), ((1, 1), True)])
def test_alexnet_does_not_resize_images_from_63_pixels(sides, resized):
    with torch.device("meta"):
        network = build_architecture("alexnet", (3, *sides), 2).eval()
        assert network(torch.zeros(1, 3, *sides)).shape == (1, 2)
    assert any(isinstance(layer, nn.Upsample) for layer in network.modules()) == resized


def test_bilinear_resizing_is_that_of_pillow_with_which_the_paper_resizes():
    numpy, image = pytest.importorskip("numpy"), pytest.importorskip("PIL.Image")
    picture = images(32, channels=1, count=1)
    theirs = image.fromarray(picture[0, 0].numpy()).resize((224, 224), image.Resampling.BILINEAR)
    ours = functional.interpolate(picture, (224, 224), mode="bilinear", align_corners=False)
    torch.testing.assert_close(ours[0, 0], torch.from_numpy(numpy.array(theirs)), rtol=0, atol=1e-5)
