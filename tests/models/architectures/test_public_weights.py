"""Models that others trained and published load by name and are as accurate as they are said to be."""

import gzip
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
import torch

from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.normalized import IMAGENET_MEAN, IMAGENET_STD, Normalized

SHARED = Path(__file__).parents[4] / "shared"
WEIGHTS, DATA = SHARED / "weights", SHARED / "data"
CIFAR, MNIST = DATA / "cifar-10-python-subset.tar.xz", DATA / "mnist"
COUNT = 1_000

pytestmark = [
    pytest.mark.shared,
    pytest.mark.skipif(
        not (WEIGHTS.is_dir() and CIFAR.is_file() and MNIST.is_dir()),
        reason="../shared with its weights and data is not beside the project",
    ),
]


def accuracy(network, x, y):
    with torch.no_grad():
        found = torch.cat([network.eval()(part).argmax(dim=1) for part in x.split(250)])
    return (found == y).double().mean().item()


def cifar_test():
    with tarfile.open(CIFAR, "r|xz") as archive:  # a stream: the test batch comes early
        member = next(member for member in archive if member.name.endswith("test_batch"))
        batch = pickle.load(archive.extractfile(member), encoding="bytes")
    pixels = torch.from_numpy(batch[b"data"][:COUNT].reshape(-1, 3, 32, 32).copy())
    return pixels.float() / 255, torch.tensor(batch[b"labels"][:COUNT])


@pytest.fixture(scope="module")
def mnist_test():
    with gzip.open(MNIST / "t10k-images-idx3-ubyte.gz") as file:
        pixels = np.frombuffer(file.read(16 + COUNT * 784), np.uint8, offset=16).reshape(-1, 1, 28, 28)
    with gzip.open(MNIST / "t10k-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(8 + COUNT), np.uint8, offset=8)
    return torch.from_numpy(pixels.copy()).float() / 255, torch.from_numpy(labels.astype(np.int64))


def test_the_public_resnet20_loads_and_is_accurate_on_cifar10():
    state = torch.load(WEIGHTS / "cifar10-resnet20-12fca82f.th", map_location="cpu", weights_only=True)["state_dict"]
    network = build_architecture("resnet20", (3, 32, 32), 10)
    network.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    assert accuracy(Normalized(network, IMAGENET_MEAN, IMAGENET_STD), *cifar_test()) >= 0.90


@pytest.mark.parametrize("training", ["clean", "adversarial"])
def test_the_public_mnist_networks_load_and_are_accurate_on_mnist(training, mnist_test):
    state = torch.load(WEIGHTS / f"mnist-lenet5madry-{training}.pt", map_location="cpu", weights_only=True)
    network = build_architecture("mnist_cnn", (1, 28, 28), 10)
    network.load_state_dict(state)
    assert accuracy(network, *mnist_test) >= 0.97
    flat = build_architecture("mnist_cnn", (784,), 10)
    flat.load_state_dict(state)
    assert torch.equal(flat.eval()(mnist_test[0][:5].flatten(1)), network(mnist_test[0][:5]))
