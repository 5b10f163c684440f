"""Promises of every network of the catalog."""

import pickle
import subprocess
import sys
from functools import cache

import pytest
import torch
from torch import fx

from fairmargin.errors import ModelError
from fairmargin.models.architectures.catalog import ARCHITECTURES, build_architecture
from fairmargin.models.normalized import Normalized

LARGE = {"alexnet", "vgg19", "vgg19_bn"}  # hundreds of megabytes each: tested on the meta device only
QUICK = [name for name in ARCHITECTURES if name not in LARGE]
SMALLEST = {
    "deep_cnn": 32,
    "deep_cnn_cifar100": 32,
    "vgg13": 32,
    "adience_cnn": 37,
    "lenet5": 12,
    "cnn6": 8,
    "small_alexnet": 8,
    "utk_cnn": 6,
    "small_cnn": 4,
    "mnist_cnn": 4,
    "vgg19": 32,
    "vgg19_bn": 32,
    "densenet121": 29,
    "squeezenet1_0": 21,
}


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Use one thread: threads do not help for small batches, and slow them down on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def size_of(name):
    return max(8, SMALLEST.get(name, 8))


@cache
def network(name):
    """Return one network of each kind, for two-channel images of the smallest size; building large ones is slow."""
    torch.manual_seed(0)
    return build_architecture(name, (2, size_of(name), size_of(name)), 3).eval()


def images(name, count=2):
    return torch.rand(count, 2, size_of(name), size_of(name), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("name", QUICK)
def test_returns_the_same_finite_scores_each_time_also_when_traced(name):
    x = images(name)
    with torch.no_grad():
        first, second, traced = network(name)(x), network(name)(x), fx.symbolic_trace(network(name))(x)
    assert first.shape == (2, 3)
    assert torch.isfinite(first).all()
    assert torch.equal(first, second)
    assert torch.equal(first, traced)
    assert torch.equal(x, images(name))


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_takes_the_shape_of_the_paper_and_images_that_are_not_square_without_torchvision(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)  # importing it fails
    published = ARCHITECTURES[name].published
    shape = (3, 32, 32) if "any" in published else tuple(map(int, published.split("×")))
    for each in (shape, (3, size_of(name) + 1, size_of(name) + 6)):
        with torch.device("meta"):
            assert build_architecture(name, each, 10).eval()(torch.zeros(2, *each)).shape == (2, 10)


@pytest.mark.parametrize("name", QUICK)
def test_has_a_gradient_in_the_input_that_can_be_differentiated_again(name):
    x = images(name).requires_grad_()
    scores = network(name)(x)
    (gradient,) = torch.autograd.grad((scores.amax(1) - scores.amin(1)).sum(), x, create_graph=True)
    assert (gradient.detach().flatten(1).norm(dim=1) > 0).all()
    weight = next(network(name).parameters())
    (second,) = torch.autograd.grad(gradient.square().sum(), weight)
    assert second.abs().sum() > 0


PICKLED = ("logistic", "small_cnn", "pyramidnet110", "lenet5", "mnist_cnn", "resnet8", "densenet121", "squeezenet1_0")


@pytest.mark.parametrize("name", PICKLED)
def test_survives_pickling(name):
    back = pickle.loads(pickle.dumps(network(name)))
    with torch.no_grad():
        assert torch.equal(back(images(name)), network(name)(images(name)))


@pytest.mark.parametrize("name", ["small_cnn", "resnet8", "deep_cnn_cifar100"])
def test_the_seed_decides_the_weights(name):
    made = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        made.append(build_architecture(name, (1, 32, 32), 3).state_dict())
    key = next(iter(made[0]))
    assert torch.equal(made[0][key], made[1][key])
    assert not torch.equal(made[0][key], made[2][key])


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_size_works_and_one_pixel_less_is_refused_with_it(name):
    side = SMALLEST[name]
    before = torch.get_rng_state()
    with torch.device("meta"):
        assert build_architecture(name, (1, side, side), 2).eval()(torch.zeros(1, 1, side, side)).shape == (1, 2)
    with pytest.raises(ModelError, match=rf"`{name}` needs images of at least {side}×{side} pixels; given {side - 1}×"):
        build_architecture(name, (1, side - 1, side), 2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", ["logistic", "resnet8", "resnet18", "pyramidnet110", "wrn32_10"])
def test_networks_that_end_with_an_average_take_a_single_pixel_and_logistic_regression_any_shape(name):
    for shape in [(3, 1, 1), *([(63,), (28, 28), (2, 3, 4, 5)] if name == "logistic" else [])]:
        with torch.device("meta"):
            assert build_architecture(name, shape, 5).eval()(torch.zeros(2, *shape)).shape == (2, 5)


def test_a_flat_sample_of_a_square_number_is_a_grey_image():
    torch.manual_seed(0)
    flat = build_architecture("small_cnn", (64,), 10)
    torch.manual_seed(0)
    square = build_architecture("small_cnn", (1, 8, 8), 10)
    x = torch.rand(3, 64, generator=torch.Generator().manual_seed(2))
    assert torch.equal(flat(x), square(x.reshape(3, 1, 8, 8)))
    assert torch.equal(fx.symbolic_trace(flat)(x), flat(x))
    assert torch.equal(pickle.loads(pickle.dumps(flat))(x), flat(x))


def test_weights_fit_flat_and_square_samples_alike():
    flat, square = build_architecture("resnet8", (64,), 10), build_architecture("resnet8", (1, 8, 8), 10)
    assert set(flat.state_dict()) == set(square.state_dict())
    flat.load_state_dict(square.state_dict())
    assert all(torch.equal(flat.state_dict()[key], value) for key, value in square.state_dict().items())
    wrapped = Normalized(build_architecture("resnet8", (64,), 10), 0.5, 0.5)
    wrapped.load_state_dict({f"model.{key}": value for key, value in square.state_dict().items()})
    assert torch.equal(wrapped.state_dict()["model.linear.weight"], square.state_dict()["linear.weight"])
    lacking = {key: value for key, value in square.state_dict().items() if key != "conv1.weight"}
    with pytest.raises(RuntimeError, match=r"conv1\.weight"):
        flat.load_state_dict(lacking)


def test_listing_the_networks_loads_no_torch():
    program = (
        "import sys; from fairmargin.models.architectures.catalog import ARCHITECTURES as A; "
        "assert all(a.published and 0 < len(a.title) <= 80 for a in A.values()); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60, check=False).returncode == 0
