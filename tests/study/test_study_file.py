"""What a study file may contain."""

import json
from pathlib import Path
from typing import Any

import pytest

from fairmargin.errors import InputError
from fairmargin.study.grid import Grid, Member
from fairmargin.study.options import AttackOptions, AuditOptions, TrainOptions
from fairmargin.study.record import RunRecord
from fairmargin.study.study import Study
from fairmargin.study.study_file import engine_of, make_study, read_study


def study(**changes: Any) -> Study:
    fields = {
        "data": {"digits": {}},
        "model": {"small_cnn": {}},
        "train": {"erm": {"epochs": 10}},
        "audit": {"ddn": {}},
    }
    return make_study(fields | changes, "study.toml")


def grid(**changes: Any) -> Grid:
    found = study(**changes).grid
    assert found is not None
    return found


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


def trained(member: Member) -> TrainOptions:
    assert member.train is not None
    return member.train


# What may be written. ------------------------------------------------------------------------------------------------


def test_a_section_is_what_its_name_says_unless_it_says_otherwise() -> None:
    found = grid(
        data={"digits": {}, "mine": {"data": "digits"}},
        model={"logistic": {}, "big": {"model": "arch:small_cnn"}},
        train={"erm": {"epochs": 1}, "half": {"method": "fat:weight=0.5", "epochs": 1}},
        audit={"ddn": {}, "short": {"estimator": "ddn:steps=5"}, "two": {"estimator": ["fmn", "deepfool"]}},
        attack={"pgd": {"radius": "8/255"}, "slow": {"attack": "pgd:steps=50", "radius": [0.1, "1/5"]}},
    )
    assert [each.data for each in found.data.values()] == ["digits", "digits"]
    assert [each.model for each in found.model.values()] == ["arch:logistic", "arch:small_cnn"]
    assert [each.method for each in found.train.values()] == ["erm", "fat:weight=0.5"]
    assert [each.estimator for each in found.audit.values()] == [("ddn",), ("ddn:steps=5",), ("fmn", "deepfool")]
    assert [(each.attack, each.radius) for each in found.attack.values()] == [
        (("pgd",), (8 / 255,)),
        (("pgd:steps=50",), (0.1, 0.2)),
    ]


def test_what_a_method_does_not_say_comes_from_what_all_share_then_from_the_paper_then_from_the_defaults() -> None:
    asked = study(
        train={"settings_of": "ma", "epochs": 12, "batch": 32, "erm": {"batch": 16}, "ramp": {}, "own": {"rate": 0.3}}
    )
    first, second, third = map(trained, asked.members)
    assert (first.epochs, first.batch, first.rate, first.weight_decay) == (12, 16, 0.1, 2e-4)
    assert second.batch == 32
    assert (third.rate, third.method) == (0.3, "own")
    assert first.average == 0


@pytest.mark.parametrize("kind", ["data", "audit", "attack"])
def test_every_kind_of_section_can_share_fields(kind: str) -> None:
    shared = {"data": {"per_group": 7}, "audit": {"resamples": 250}, "attack": {"radius": 0.1, "resamples": 250}}[kind]
    one, other = {"data": ("digits", "more"), "audit": ("ddn", "fmn"), "attack": ("pgd", "fgsm")}[kind]
    named: dict[str, Any] = {one: {}, other: {"data": "digits"} if kind == "data" else {}}
    sections = getattr(grid(**{kind: {**shared, **named}}), kind)
    (field, value), *_ = ((name, value) for name, value in shared.items() if name != "radius")
    assert [getattr(section, field) for section in sections.values()] == [value, value]


def test_a_section_without_a_further_name_is_a_single_one() -> None:
    found = grid(
        data={"data": "digits"},
        model={"model": "arch:logistic"},
        train={"method": "ramp", "epochs": 2},
        audit={},
        attack={"radius": 0.1},
    )
    assert [[*sections] for sections in (found.data, found.model, found.train, found.audit, found.attack)] == [
        ["digits"],
        ["logistic"],
        ["ramp"],
        ["audit"],
        ["attack"],
    ]


def test_one_value_stands_for_a_list_of_one() -> None:
    asked = grid(data={"digits": {"group": "ink", "cross": "class,ink"}}, audit={"ddn": {"audit_epochs": 1}})
    assert asked.data["digits"].group == ("ink",)
    assert asked.data["digits"].cross == (("class", "ink"),)
    assert asked.audit["ddn"].audit_epochs == ("1",)


def test_every_combination_is_a_member_in_the_order_of_the_file() -> None:
    asked = study(
        seeds=[0, 3],
        data={"digits": {"group": "ink"}, "more": {"data": "digits", "audit_per_group": 6}},
        model={"logistic": {}, "small_cnn": {"data": "more"}, "given": {"model": "arch:logistic", "fixed": True}},
        train={"epochs": 1, "erm": {}, "ramp": {"models": "small_cnn"}},
        audit={"exact_linear": {"models": "logistic"}, "ddn": {"methods": ["ramp", "as given"], "data": "more"}},
        attack={"pgd": {"radius": 0.1, "audit_epochs": ["first", "last"], "methods": "erm", "models": "logistic"}},
    )
    assert [(member.title, [each.name for each in member.measurements]) for member in asked.members] == [
        ("digits, logistic, erm, seed 0", ["exact_linear", "pgd"]),
        ("digits, logistic, erm, seed 3", ["exact_linear", "pgd"]),
        ("digits, given, as given", []),
        ("more, logistic, erm, seed 0", ["exact_linear", "pgd"]),
        ("more, logistic, erm, seed 3", ["exact_linear", "pgd"]),
        ("more, small_cnn, erm, seed 0", []),
        ("more, small_cnn, erm, seed 3", []),
        ("more, small_cnn, ramp, seed 0", ["ddn"]),
        ("more, small_cnn, ramp, seed 3", ["ddn"]),
        ("more, given, as given", ["ddn"]),
    ]
    member = asked.members[0]
    assert member.groups.group == ("ink",)
    assert [each.epochs for each in member.measurements] == [("last",), ("first", "last")]
    assert [type(each.options) for each in member.measurements] == [AuditOptions, AttackOptions]


def test_without_training_methods_every_model_is_measured_as_it_is() -> None:
    asked = make_study({"seeds": [0, 1], "data": {"digits": {}}, "model": {"logistic": {}}, "audit": {"ddn": {}}})
    assert [(member.method, member.train) for member in asked.members] == [("as given", None)]


def test_a_study_may_name_its_engine_which_is_no_part_of_it(tmp_path: Path) -> None:
    text = "[data.digits]\n[model.logistic]\n[train.erm]\nepochs = 1\n[audit.exact_linear]\n"
    plain = read_study(written(tmp_path, text))
    assert engine_of(tmp_path / "study.toml") == ""
    assert read_study(written(tmp_path, 'engine = "ray:address=auto"\n' + text)) == plain
    assert engine_of(tmp_path / "study.toml") == "ray:address=auto"
    with pytest.raises(InputError, match="`engine` must be a text"):
        engine_of(written(tmp_path, "engine = 2\n" + text))


def test_a_study_in_a_record_is_read_again_as_it_was() -> None:
    asked = study(
        title='A "quoted" title, with \\ and ü\x7f\n{sex}',
        seeds=[0, 5],
        train={"settings_of": "ma", "watch_radius": "4/255", "schedule": "steps:0.5,0.75", "erm": {"rate": 0.3}},
        data={"by ink": {"data": "digits", "cross": "class,ink"}},
        model={"small_cnn": {"mean": 0.3, "std": [0.4]}, "../x": {"model": "arch:logistic", "fixed": True}},
        audit={"ddn": {"up_to": 3.0, "resamples": 300}},
        attack={"pgd": {"radius": ["1/3", 0.1], "audit_epochs": ["first", 5]}},
    )
    text = RunRecord(study=asked).model_dump_json(exclude_defaults=True)
    again = RunRecord.model_validate(json.loads(text)).study
    assert again == asked
    assert again.key == asked.key
    assert list(again.members) == list(asked.members)


def test_paths_in_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    for name in ("weights.safetensors", "a.csv", "b.csv", "v.csv", "net.py"):
        (tmp_path / name).touch()
    text = """
        [data.cifar10]
        root = "../files"
        [data.mine]
        data = "a.csv"
        audit_on = "b.csv"
        [model.net]
        model = "net.py:make"
        weights = "weights.safetensors"
        [model.logistic]
        [train.erm]
        epochs = 1
        validation = "v.csv"
        [audit.ddn]
    """
    found = read_study(written(tmp_path, text)).grid
    assert found is not None
    assert found.data["cifar10"].root == str(tmp_path / "../files")
    assert found.data["cifar10"].data == "cifar10"
    assert (found.data["mine"].data, found.data["mine"].audit_on) == (str(tmp_path / "a.csv"), str(tmp_path / "b.csv"))
    assert found.model["net"].model == f"{tmp_path / 'net.py'}:make"
    assert found.model["net"].weights == str(tmp_path / "weights.safetensors")
    assert found.model["logistic"].model == "arch:logistic"
    assert found.train["erm"].validation == str(tmp_path / "v.csv")


def test_a_folder_that_is_called_as_a_dataset_or_a_split_is_not_taken_for_it(tmp_path: Path) -> None:
    for name in ("digits", "test", "faces"):
        (tmp_path / name).mkdir()
    text = """
        [data.digits]
        audit_on = "test"
        [data.mine]
        data = "./faces"
        [model.logistic]
        [train.erm]
        epochs = 1
        validation = "test"
        [audit.ddn]
    """
    found = read_study(written(tmp_path, text)).grid
    assert found is not None
    assert (found.data["digits"].data, found.data["digits"].audit_on) == ("digits", "test")
    assert found.train["erm"].validation == "test"
    assert found.data["mine"].data == str(tmp_path / "faces")


@pytest.mark.parametrize("name", ["../x", "a\nb", "{sex}", "x" * 300, "ü" * 90, "a, b"])
def test_a_section_may_have_any_name(name: str) -> None:
    asked = study(
        data={name: {"data": "digits"}},
        model={name: {"model": "arch:logistic"}},
        train={name: {"method": "erm", "epochs": 1}},
        audit={name: {"estimator": "ddn"}},
    )
    (member,) = asked.members
    assert (member.data_name, member.model_name, member.method) == (name, name, name)
