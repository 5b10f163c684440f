"""Networks that begin with public weights or those of a file: fetched, read safely, adapted to channels and classes."""

import hashlib
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file

from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.architectures.catalog import ARCHITECTURES, build_architecture
from fairmargin.models.architectures.pretrained import imagenet_file, pretrained, read_state
from tests.models.hostile import Bomb
from tests.peers import peer

NAME, SIDE = "squeezenet1_0", 33
X = torch.rand(2, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Replace the public weights of a small network by random ones at a file:// address, with an empty hub folder."""
    torch.manual_seed(0)
    source = build_architecture(NAME, (3, SIDE, SIDE), 1000)
    file = tmp_path / "weights.pth"
    torch.save(source.state_dict(), file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:8]
    file = file.rename(tmp_path / f"{NAME}-{digest}.pth")
    entry = ARCHITECTURES[NAME]
    weights = replace(entry.weights, url=file.as_uri(), sha256=digest)
    monkeypatch.setitem(ARCHITECTURES.entries, NAME, replace(entry, weights=weights))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "hub"))
    return SimpleNamespace(source=source.eval(), file=file, hub=tmp_path / "hub" / "hub" / "checkpoints")


@pytest.mark.parametrize("name", [name for name, entry in ARCHITECTURES.items() if entry.weights is not None])
def test_addresses_are_those_of_torchvision_s_first_weights_and_contain_the_hash(name):
    public = ARCHITECTURES[name].weights
    assert public.url.startswith("https://download.pytorch.org/models/")
    assert public.url.endswith(f"-{public.sha256}.pth")
    assert len(public.sha256) == 8
    theirs = peer("torchvision.models").get_model_weights(name.removesuffix("_imagenet")).IMAGENET1K_V1
    assert public.url == theirs.url


def test_weights_are_fetched_once_and_kept(stand_in):
    assert torch.equal(pretrained(NAME, (3, SIDE, SIDE), 1000).eval()(X), stand_in.source(X))
    assert (stand_in.hub / stand_in.file.name).is_file()
    stand_in.file.unlink()
    assert torch.equal(pretrained(NAME, (3, SIDE, SIDE), 1000).eval()(X), stand_in.source(X))


def test_weights_that_cannot_be_fetched_are_refused_and_not_kept(stand_in):
    with pytest.raises(ModelError, match=rf"`{NAME}` needs images of at least 21×21 pixels; given 20×20"):
        pretrained(NAME, (3, 20, 20), 10)  # before anything is fetched
    assert not stand_in.hub.exists()
    stand_in.file.write_bytes(stand_in.file.read_bytes() + b"!")
    with pytest.raises(ModelError, match=r"could not be downloaded.*hash"):
        pretrained(NAME, (3, SIDE, SIDE), 10)
    assert list(stand_in.hub.glob("*")) == []
    stand_in.file.unlink()
    with pytest.raises(ModelError) as caught:
        pretrained(NAME, (3, SIDE, SIDE), 10)
    assert f"Put the file {stand_in.file.name} into {stand_in.hub}" in str(caught.value)


def test_the_last_layer_is_new_only_where_the_number_of_classes_is_another(stand_in):
    network = pretrained(NAME, (3, SIDE, SIDE), 5, stand_in.file).eval()
    assert network(X).shape == (2, 5)
    assert torch.equal(network.features[0].weight, stand_in.source.features[0].weight)
    same = pretrained(NAME, (3, SIDE, SIDE), 1000, str(stand_in.file))
    assert torch.equal(same.classifier[1].weight, stand_in.source.classifier[1].weight)


def test_weights_are_adapted_to_grey_images_but_not_to_other_channels(stand_in):
    grey = X[:, :1]
    network = pretrained(NAME, (1, SIDE, SIDE), 1000, stand_in.file).eval()
    torch.testing.assert_close(network(grey), stand_in.source(grey.expand(-1, 3, -1, -1)))
    with pytest.raises(ModelError, match=r"for images of 3 channels; given 4"):
        pretrained(NAME, (4, SIDE, SIDE), 10, stand_in.file)
    assert pretrained(NAME, (5, SIDE, SIDE), 7, None)(torch.zeros(2, 5, SIDE, SIDE)).shape == (2, 7)


@pytest.mark.parametrize(
    ("name", "published", "channels", "side"),
    [("alexnet", 224, 3, 32), ("densenet121", 64, 1, 64), ("resnet18_imagenet", 64, 1, 64)],
)
def test_files_are_adapted_to_other_images_and_classes(name, published, channels, side, tmp_path):
    torch.manual_seed(0)
    torch.save(build_architecture(name, (3, published, published), 12).state_dict(), tmp_path / "weights.pth")
    network = pretrained(name, (channels, side, side), 4, tmp_path / "weights.pth").eval()
    with torch.no_grad():
        assert network(torch.rand(2, channels, side, side)).shape == (2, 4)


def test_a_fine_tuned_file_keeps_its_own_channels_and_classes(stand_in, tmp_path):
    tuned = pretrained(NAME, (1, SIDE, SIDE), 5, stand_in.file).eval()
    state = {f"module.{key}": value for key, value in tuned.state_dict().items()}
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "tuned.pt")
    save_file(tuned.state_dict(), tmp_path / "tuned.safetensors")
    for file in ("tuned.pt", "tuned.safetensors"):
        back = pretrained(NAME, (1, SIDE, SIDE), 5, tmp_path / file).eval()
        assert torch.equal(back(X[:, :1]), tuned(X[:, :1]))


def test_a_file_that_would_run_code_is_refused_and_runs_none(stand_in, tmp_path):
    torch.save(Bomb(tmp_path / "ran"), tmp_path / "evil.pt")
    with pytest.raises(UntrustedError, match=r"evil\.pt' holds pickled objects.*state_dict") as refused:
        pretrained(NAME, (3, SIDE, SIDE), 10, tmp_path / "evil.pt")
    assert "--trust" not in str(refused.value)  # there is no such way here
    assert not (tmp_path / "ran").exists()


def test_the_old_names_of_densenet_are_read_as_the_new(tmp_path):
    old = "features.denseblock1.denselayer1.norm.1.weight"
    torch.save({old: torch.zeros(2), "features.conv0.weight": torch.ones(1)}, tmp_path / "densenet.pth")
    names = set(read_state(tmp_path / "densenet.pth"))
    assert names == {"features.denseblock1.denselayer1.norm1.weight", "features.conv0.weight"}


def test_a_file_that_is_not_there_is_named_with_its_address_if_it_must_not_be_fetched(stand_in):
    with pytest.raises(ModelError) as caught:
        imagenet_file(NAME, fetch=False)
    assert f"The file {stand_in.file.name} with the weights of `{NAME}` is not in {stand_in.hub}." in str(caught.value)
    assert f"Download it from {stand_in.file.as_uri()}" in str(caught.value)
    assert not stand_in.hub.exists()
    fetched = imagenet_file(NAME)
    assert imagenet_file(NAME, fetch=False) == fetched
