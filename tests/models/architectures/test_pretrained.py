"""Networks of torchvision: refused with a sentence where it does not import, otherwise built, loaded and adapted."""

import hashlib
import importlib
import importlib.util
import sys
from collections import OrderedDict
from contextlib import suppress
from types import ModuleType, SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import fx, nn

from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.architectures.pretrained import pretrained
from fairmargin.models.architectures.weight_files import read_state

X = torch.rand(2, 3, 9, 9, generator=torch.Generator().manual_seed(0))


def stand_in_network(classes):
    """With the names of torchvision's ResNets where it matters."""
    return nn.Sequential(
        OrderedDict(
            conv1=nn.Conv2d(3, 4, 3, stride=2, padding=1, bias=False),
            relu=nn.ReLU(inplace=True),
            pool=nn.AdaptiveAvgPool2d(1),
            flatten=nn.Flatten(),
            fc=nn.Linear(4, classes),
        )
    )


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """A torchvision of one network, whose weights lie behind a file:// address, and an empty hub folder."""
    source = stand_in_network(1000)
    file = tmp_path / "weights.pth"
    torch.save(source.state_dict(), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    file = file.rename(tmp_path / f"resnet18-{digest}.pth")
    models = SimpleNamespace(
        get_model=lambda name, weights, num_classes: stand_in_network(num_classes),
        get_model_weights=lambda name: SimpleNamespace(IMAGENET1K_V1=SimpleNamespace(url=file.as_uri())),
    )
    package = ModuleType("torchvision")
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    return SimpleNamespace(source=source.eval(), file=file, models=models, hub=tmp_path / "hub" / "hub" / "checkpoints")


def test_without_torchvision_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ModelError, match=r"`alexnet` is a network of torchvision.*Install the build.*PyPI is for CUDA"):
        build_architecture("alexnet", (3, 224, 224), 10)


def test_a_torchvision_that_breaks_on_import_gives_the_same_sentence_each_time(monkeypatch, tmp_path):
    (tmp_path / "torchvision.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):
        with pytest.raises(ModelError, match=r"operator torchvision::nms does not exist\). Install the build"):
            build_architecture("vgg19", (3, 224, 224), 10)


def test_random_weights_come_for_any_number_of_channels_and_classes(stand_in):
    network = build_architecture("resnet18_imagenet", (5, 9, 9), 7)
    assert network(torch.zeros(2, 5, 9, 9)).shape == (2, 7)
    assert (network.conv1.stride, network.conv1.padding, network.conv1.bias) == ((2, 2), (1, 1), None)
    assert not network.relu.inplace


def test_weights_of_the_hub_are_fetched_once_and_kept(stand_in):
    network = pretrained("resnet18_imagenet", (3, 9, 9), 1000).eval()
    assert torch.equal(network(X), stand_in.source(X))
    assert (stand_in.hub / stand_in.file.name).is_file()
    stand_in.file.unlink()
    assert torch.equal(pretrained("resnet18_imagenet", (3, 9, 9), 1000).eval()(X), stand_in.source(X))


def test_without_a_network_a_sentence_says_which_file_to_put_where(stand_in):
    stand_in.file.unlink()
    with pytest.raises(ModelError) as caught:
        pretrained("resnet18_imagenet", (3, 9, 9), 10)
    assert f"Put the file {stand_in.file.name} into {stand_in.hub}" in str(caught.value)


def test_a_download_with_another_hash_is_refused_and_not_kept(stand_in):
    stand_in.file.write_bytes(stand_in.file.read_bytes() + b"!")
    with pytest.raises(ModelError, match=r"could not be fetched.*hash"):
        pretrained("resnet18_imagenet", (3, 9, 9), 10)
    assert list(stand_in.hub.glob("*")) == []


def test_the_last_layer_is_new_only_where_the_number_of_classes_is_another(stand_in):
    network = pretrained("resnet18_imagenet", (3, 9, 9), 5, stand_in.file).eval()
    assert network(X).shape == (2, 5)
    assert torch.equal(network.conv1.weight, stand_in.source.conv1.weight)
    same = pretrained("resnet18_imagenet", (3, 9, 9), 1000, str(stand_in.file))
    assert torch.equal(same.fc.weight, stand_in.source.fc.weight)


def test_a_grey_image_is_seen_as_three_equal_channels(stand_in):
    grey = X[:, :1]
    network = pretrained("resnet18_imagenet", (1, 9, 9), 1000, stand_in.file).eval()
    torch.testing.assert_close(network(grey), stand_in.source(grey.expand(-1, 3, -1, -1)))


def test_weights_for_three_channels_are_not_stretched_to_four(stand_in):
    with pytest.raises(ModelError, match=r"for images of 3 channels; given 4"):
        pretrained("resnet18_imagenet", (4, 9, 9), 10, stand_in.file)


def test_a_fine_tuned_file_brings_its_own_channels_and_classes(stand_in, tmp_path):
    tuned = pretrained("resnet18_imagenet", (1, 9, 9), 5, stand_in.file).eval()
    state = {f"module.{key}": value for key, value in tuned.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "tuned.pt")
    save_file(tuned.state_dict(), tmp_path / "tuned.safetensors")
    for file in ("tuned.pt", "tuned.safetensors"):
        back = pretrained("resnet18_imagenet", (1, 9, 9), 5, tmp_path / file).eval()
        assert torch.equal(back(X[:, :1]), tuned(X[:, :1]))


class Mischief:
    """Unpickled carelessly, it would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_file_that_would_run_code_is_refused_and_runs_none(stand_in, tmp_path):
    torch.save(Mischief(tmp_path / "ran"), tmp_path / "evil.pt")
    with pytest.raises(UntrustedError, match=r"evil\.pt' holds pickled objects.*state_dict") as refused:
        pretrained("resnet18_imagenet", (3, 9, 9), 10, tmp_path / "evil.pt")
    assert "--trust" not in str(refused.value)  # there is no such way here
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("cut.pth", b"PK\x03\x04 cut short", "cannot be read as a torch checkpoint"),
        ("empty.pt", b"", "cannot be read as a torch checkpoint"),
        ("cut.safetensors", b"\x10\x00", r"cannot be read as \.safetensors"),
    ],
)
def test_a_damaged_file_is_named(stand_in, tmp_path, name, content, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"{name}' {words}"):
        pretrained("resnet18_imagenet", (3, 9, 9), 10, tmp_path / name)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            {"other.weight": torch.zeros(2)},
            r"does not hold the weights of `resnet18_imagenet`: it has no `conv1\.weight`",
        ),
        ({"conv1.weight": torch.zeros(4, 3, 3, 3), "fc.weight": torch.zeros(5, 9)}, "does not hold the weights.*fc"),
        ([1, 2], "holds no state dict.*found a list"),
        ({"conv1.weight": 3}, "holds no state dict"),
    ],
)
def test_weights_of_another_network_are_refused(stand_in, tmp_path, content, words):
    torch.save(content, tmp_path / "other.pt")
    with pytest.raises(ModelError, match=words):
        pretrained("resnet18_imagenet", (3, 9, 9), 10, tmp_path / "other.pt")


def test_a_missing_file_and_an_unknown_name_and_a_flat_sample_are_refused(stand_in, tmp_path):
    with pytest.raises(ModelError, match="There is no file of weights"):
        pretrained("resnet18_imagenet", (3, 9, 9), 10, tmp_path / "missing.pt")
    with pytest.raises(ModelError, match=r"`resnet18` is no network of torchvision. Did you mean 'resnet18_imagenet'"):
        pretrained("resnet18", (3, 9, 9), 10)
    with pytest.raises(ModelError, match=r"takes images.*\(81,\)"):
        pretrained("resnet18_imagenet", (81,), 10)


def test_the_old_names_of_densenet_are_read_as_the_new(tmp_path):
    old = "features.denseblock1.denselayer1.norm.1.weight"
    torch.save({old: torch.zeros(2), "features.conv0.weight": torch.ones(1)}, tmp_path / "densenet.pth")
    names = set(read_state(tmp_path / "densenet.pth"))
    assert names == {"features.denseblock1.denselayer1.norm1.weight", "features.conv0.weight"}


# The real torchvision, where it is installed.

COUNTS = {  # with 1,000 classes, as torchvision's documentation has them
    "alexnet": 61_100_840,
    "vgg19": 143_667_240,
    "vgg19_bn": 143_678_248,
    "resnet18_imagenet": 11_689_512,
    "resnet50_imagenet": 25_557_032,
    "densenet121": 7_978_856,
    "squeezenet1_0": 1_248_424,
}
_DECLARED = []  # a library's declarations live as long as it does


@pytest.fixture
def torchvision():
    """torchvision; beside a CPU build of torch, the operators that its CUDA build lacks are declared first."""
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    with suppress(RuntimeError, ImportError):
        return importlib.import_module("torchvision.models")
    for name in [name for name in sys.modules if name.split(".")[0] == "torchvision"]:
        del sys.modules[name]
    if not _DECLARED:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _DECLARED.append(library)
    return importlib.import_module("torchvision.models")


@pytest.mark.parametrize("name", COUNTS)
def test_torchvision_s_networks_have_their_parameters_and_can_be_traced(torchvision, name):
    with torch.device("meta"):
        network = build_architecture(name, (3, 224, 224), 1000).eval()
        assert sum(parameter.numel() for parameter in network.parameters()) == COUNTS[name]
        traced = fx.symbolic_trace(build_architecture(name, (1, 96, 64), 5).eval())
        assert traced(torch.zeros(2, 1, 96, 64)).shape == (2, 5)


@pytest.mark.parametrize("name", ["squeezenet1_0", "densenet121", "resnet18_imagenet"])
def test_torchvision_s_networks_are_loaded_from_a_file_and_adapted(torchvision, name, tmp_path):
    torch.manual_seed(0)
    torch.save(build_architecture(name, (3, 64, 64), 12).state_dict(), tmp_path / "weights.pth")
    network = pretrained(name, (1, 64, 64), 4, tmp_path / "weights.pth").eval()
    assert network(torch.rand(2, 1, 64, 64)).shape == (2, 4)


def test_alexnet_names_its_smallest_size(torchvision):
    with pytest.raises(ModelError, match=r"`alexnet` needs images of at least 63×63 pixels; given 32×32"):
        build_architecture("alexnet", (3, 32, 32), 10)
