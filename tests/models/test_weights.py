import pickle
from collections import OrderedDict

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from fairmargin.errors import ModelError, UntrustedError
from fairmargin.models.reading.weights import load_weights
from tests.models.hostile import Bomb


def network(classes=3, channels=1, seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        OrderedDict(
            conv=nn.Conv2d(channels, 2, 3), norm=nn.BatchNorm2d(2), flat=nn.Flatten(), last=nn.Linear(8, classes)
        )
    )


GIVEN = network(seed=1).state_dict()


def prefixed(prefix):
    return {prefix + name: part for name, part in GIVEN.items()}


def loaded(held, tmp_path, name="weights.pt", into=None, **options):
    torch.save(held, tmp_path / name)
    target = network() if into is None else into
    load_weights(target, tmp_path / name, **options)
    return target


def same(left, right):
    return set(left) == set(right) and all(torch.equal(left[name], right[name]) for name in left)


OPTIMIZER = torch.optim.Adam(network().parameters()).state_dict()
WRAPPED = {name.replace("conv.", "conv.module.").replace("last.", "last._orig_mod."): p for name, p in GIVEN.items()}
HOLDING = [
    *(
        prefixed(each)
        for each in ("", "module.", "model.", "_orig_mod.", "net.", "backbone.", "module.model.", "a.b.c.")
    ),
    *(
        {key: prefixed("module."), "epoch": 3, "optimizer": OPTIMIZER, "best": torch.tensor(0.9)}
        for key in ("state_dict", "model_state_dict", "model", "net", "weights", "ema", "whatever")
    ),
    {"ema": {"shadow": dict(GIVEN), "decay": 0.9}, "normalisation": {"mean": torch.zeros(3)}},
    {"n_averaged": torch.tensor(3), **prefixed("module.")},
    {"teacher": network(classes=9).state_dict(), "student": dict(GIVEN)},
    WRAPPED,
]


@pytest.mark.parametrize("held", HOLDING, ids=lambda held: ", ".join(held)[:40])
def test_finds_the_weights_that_fit_under_any_prefix_and_inside_a_checkpoint(tmp_path, held):
    assert same(loaded(held, tmp_path).state_dict(), GIVEN)


def test_reads_safetensors_and_the_format_before_torch_1_6(tmp_path):
    torch.save(GIVEN, tmp_path / "old.th", _use_new_zipfile_serialization=False)
    save_file(prefixed("module."), tmp_path / "weights.safetensors")
    for name in ("old.th", "weights.safetensors"):
        target = network()
        load_weights(target, tmp_path / name)
        assert same(target.state_dict(), GIVEN)


def test_a_prefix_of_the_network_and_counters_of_batches_may_be_absent_from_the_file(tmp_path):
    wrapped = nn.Sequential(OrderedDict(model=network()))
    assert same(loaded(GIVEN, tmp_path, into=wrapped).model.state_dict(), GIVEN)
    without = {name: part for name, part in GIVEN.items() if "num_batches" not in name}
    assert torch.equal(loaded(without, tmp_path).norm.running_mean, GIVEN["norm.running_mean"])


def test_a_network_whose_own_names_hold_module_is_matched_as_it_is(tmp_path):
    own = nn.ModuleDict({"module": nn.Linear(2, 2), "other": nn.Linear(2, 2)})
    given = nn.ModuleDict({"module": nn.Linear(2, 2), "other": nn.Linear(2, 2)}).state_dict()
    assert same(loaded(given, tmp_path, into=own).state_dict(), given)


def test_a_parameter_shared_by_two_layers_may_be_saved_once(tmp_path):
    tied = nn.ModuleDict({"a": nn.Linear(2, 2, bias=False), "b": nn.Linear(2, 2, bias=False)})
    tied["b"].weight = tied["a"].weight
    save_file({"a.weight": torch.ones(2, 2)}, tmp_path / "tied.safetensors")
    load_weights(tied, tmp_path / "tied.safetensors")
    assert torch.equal(tied["b"].weight, torch.ones(2, 2))


def test_keeps_the_mode_the_frozen_parameters_and_the_random_state(tmp_path):
    target = network().train()
    target.conv.weight.requires_grad_(False)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    loaded(GIVEN, tmp_path, into=target)
    assert target.training
    assert [p.requires_grad for p in target.parameters()] == [False] + [True] * 5
    assert torch.equal(before, torch.get_rng_state())


def refused(held, tmp_path, into=None, **options):
    target = network() if into is None else into
    before = {name: part.clone() for name, part in target.state_dict().items()}
    with pytest.raises(ModelError) as caught:
        loaded(held, tmp_path, into=target, **options)
    assert same(target.state_dict(), before), "nothing may be loaded in part"
    return str(caught.value)


def test_names_what_is_missing_and_what_is_unexpected_first_five_with_counts(tmp_path):
    held = {name: part for name, part in GIVEN.items() if not name.startswith(("norm", "last"))}
    held |= {f"extra.{i}": torch.zeros(1) for i in range(7)}
    message = refused(held, tmp_path)
    assert (
        "6 missing from the file: norm.weight, norm.bias, norm.running_mean, norm.running_var, last.weight …" in message
    )
    assert "7 unknown to the network: extra.0, extra.1, extra.2, extra.3, extra.4 …" in message


def test_names_shapes_expected_and_given(tmp_path):
    held = dict(GIVEN) | {"norm.weight": torch.zeros(4), "last.bias": torch.zeros(4)}
    message = refused(held, tmp_path)
    assert (
        "2 of another shape: norm.weight (expected (2,), given (4,)), last.bias (expected (3,), given (4,))" in message
    )


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors", "weights.ckpt", "weights.th", "weights"])
@pytest.mark.parametrize(
    "content", [b"", b"junk", b"PK\x03\x04 half", b"\xff" * 64, b"\x80\x02}q\x00.", b"\x10" + b"\0" * 7 + b"{"]
)
def test_says_that_a_file_is_damaged(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ModelError, match="cannot be read as"):
        load_weights(network(), tmp_path / name)


@pytest.mark.parametrize("name", ["weights.pt", "weights.safetensors"])
def test_says_that_a_file_was_cut_short(tmp_path, name):
    (save_file if name.endswith("safetensors") else torch.save)(dict(GIVEN), tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    for length in (len(whole) // 2, len(whole) - 20):
        (tmp_path / name).write_bytes(whole[:length])
        with pytest.raises(ModelError, match="cannot be read as"):
            load_weights(network(), tmp_path / name)


def test_a_pickle_named_safetensors_is_not_unpickled(tmp_path):
    (tmp_path / "weights.safetensors").write_bytes(pickle.dumps(Bomb(tmp_path / "marker")))
    with pytest.raises(ModelError, match=r"cannot be read as \.safetensors"):
        load_weights(network(), tmp_path / "weights.safetensors", trust=True)
    assert not (tmp_path / "marker").exists()


@pytest.mark.parametrize("form", ["torch.nn.modules", "TorchScript"])
def test_takes_the_weights_of_a_module_or_a_program_with_trust_only(tmp_path, form):
    given = network(seed=1).eval()
    if form == "TorchScript":
        torch.jit.trace(given, torch.zeros(2, 1, 4, 4)).save(tmp_path / "whole.pt")
    else:
        torch.save(given, tmp_path / "whole.pt")
    with pytest.raises(UntrustedError, match=form):
        load_weights(network(), tmp_path / "whole.pt")
    target = network()
    load_weights(target, tmp_path / "whole.pt", trust=True)
    assert same(target.state_dict(), GIVEN)
