"""A study's file: what may be written in it, and what is said where something else is."""

from pathlib import Path
from typing import Any

import pytest

from fairmargin.errors import InputError
from fairmargin.studies.study_file import StudyFile, as_toml, make_study_file, read_study, write_study

SMALLEST = """
[data.digits]
[network.logistic]
[method.erm]
epochs = 4
[distance.ddn]
"""


def study(**changes: Any) -> StudyFile:
    fields = {
        "data": [{"name": "digits"}],
        "network": [{"architecture": "small_cnn"}],
        "method": [{"method": "erm", "epochs": 10}],
        "distance": [{"estimator": "ddn"}],
    }
    return make_study_file(fields | changes, "study.toml")


def refusal(**changes: Any) -> str:
    with pytest.raises(InputError) as refused:
        study(**changes)
    sentence = str(refused.value)
    assert sentence.startswith("study.toml")
    assert sentence.endswith((".", "?"))
    return sentence.removeprefix("study.toml").lstrip(",: ")


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


# What may be written. ------------------------------------------------------------------------------------------------


def test_a_section_with_its_name_in_the_head_is_the_same_as_one_in_a_list() -> None:
    tables = study(distance={"ddn": {"steps": 20}}, attack={"pgd": {"radius": "8/255"}})
    lists = study(
        distance=[{"name": "ddn", "estimator": "ddn:steps=20"}], attack=[{"attack": "pgd", "radius": [8 / 255]}]
    )
    assert tables == lists


def test_fields_of_a_method_may_stand_beside_those_of_its_training() -> None:
    (method,) = study(method=[{"method": "fat", "weight": 0.5, "steps": 3, "epochs": 7, "rate": 0.2}]).method
    assert method.method == "fat:weight=0.5,steps=3"
    assert (method.epochs, method.rate) == (7, 0.2)


def test_what_a_method_does_not_say_comes_from_what_all_share_then_from_the_paper_then_from_the_defaults() -> None:
    asked = study(
        training={"settings_of": "ma", "epochs": 12, "batch": 32},
        method=[{"method": "erm", "batch": 16}, {"name": "ramp"}],
    )
    first, second = (asked.settings(method) for method in asked.method)
    assert (first.epochs, first.plan.batch, first.plan.rate, first.plan.weight_decay) == (12, 16, 0.1, 2e-4)
    assert second.plan.batch == 32
    assert first.plan.average == 0


def test_one_value_stands_for_a_list_of_one() -> None:
    asked = study(data=[{"name": "digits", "partitions": "ink"}], distance=[{"estimator": "ddn", "epochs": 1}])
    assert asked.data[0].partitions == ("ink",)
    assert asked.distance[0].epochs == ("1",)


def test_a_study_written_down_is_read_again_as_it_was(tmp_path: Path) -> None:
    asked = study(
        title='A "quoted" title, with \\ and ü\x7f',
        seeds=[0, 5],
        training={"rate": 0.3, "watch_radius": "4/255"},
        data=[{"name": "by ink", "dataset": "digits", "groups": "ink", "partitions": ["class", "class & ink"]}],
        attack=[{"attack": "pgd", "radius": ["1/3", 0.1], "epochs": ["first", 5]}],
    )
    write_study(asked, tmp_path / "again.toml")
    assert read_study(tmp_path / "again.toml") == asked


def test_paths_in_a_file_are_relative_to_its_folder(tmp_path: Path) -> None:
    text = SMALLEST.replace("[data.digits]", '[data.cifar10]\nroot = "../files"').replace(
        "[network.logistic]", '[network.logistic]\nstart = "weights.safetensors"'
    )
    asked = read_study(written(tmp_path, text))
    assert asked.data[0].root == str(tmp_path / "../files")
    assert asked.network[0].start == str(tmp_path / "weights.safetensors")
    assert str(tmp_path) in as_toml(asked)


def test_a_study_cannot_be_changed_after_it_was_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        study().title = "another"  # type: ignore[misc]


# What is said where something else is. -------------------------------------------------------------------------------


def test_an_unknown_field_is_said_with_its_section_and_what_was_meant() -> None:
    assert refusal(distance={"ddn": {"step": 3}}) == "[distance.ddn]: unknown field `step`. Did you mean `steps`?"
    assert refusal(seed=3) == "unknown field `seed`. Did you mean `seeds`?"
    assert refusal(training={"epoch": 3}) == "[training]: unknown field `epoch`. Did you mean `epochs`?"
    two = [{"name": "digits"}, {"name": "mnist", "rot": "x"}]
    assert refusal(data=two) == "[[data]] 2: unknown field `rot`. Did you mean `root`?"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": [{"name": "digit"}]}, "[[data]]: unknown dataset 'digit'. Did you mean 'digits'?"),
        ({"network": [{"architecture": "lenet"}]}, "unknown architecture 'lenet'. Did you mean 'lenet5'?"),
        ({"method": [{"method": "erms", "epochs": 1}]}, "Unknown method `erms`. Did you mean 'erm'?"),
        ({"distance": [{"estimator": "deepfoal"}]}, "Unknown estimator `deepfoal`. Did you mean 'deepfool'?"),
        ({"method": {"madri": {"radius": 1, "epochs": 1}}}, "[method.madri]: Unknown method `madri`. Did you mean"),
        ({"attack": {"pdg": {"radius": 1, "steps": 3}}}, "[attack.pdg]: Unknown attack `pdg`. Did you mean 'pgd'?"),
        ({"attack": [{"attack": "pgf", "radius": 1}]}, "Unknown attack `pgf`. Did you mean 'pgd'?"),
        ({"data": [{"name": "digits", "partitions": ["inc"]}]}, "digits has no partition 'inc'. Did you mean 'ink'?"),
        ({"data": [{"name": "digits", "partitions": ["class & inc"]}]}, "has no partition 'inc'. Did you mean 'ink'?"),
        ({"data": [{"name": "utkface", "task": "rase"}]}, "unknown task 'rase' of utkface. Did you mean 'race'?"),
        ({"distance": [{"estimator": "ddn", "methods": "erms"}]}, "`methods` names 'erms'. Did you mean 'erm'?"),
        ({"training": {"settings_of": "mah"}}, "no settings of 'mah'. Did you mean 'ma'?"),
        ({"distance": [{"estimator": "ddn", "epochs": "frist"}]}, "what is 'frist'? Did you mean 'first'?"),
    ],
)
def test_a_name_that_there_is_not_comes_with_what_was_meant(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(**changes)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"data": []}, "there is no section [data.…]: add one, for instance [data.digits]"),
        ({"network": []}, "there is no section [network.…]: add one, for instance [network.small_cnn]"),
        ({"method": []}, "there is no [[method]]"),
        ({"distance": []}, "nothing is measured"),
        ({"data": [{}]}, "[[data]]: a dataset's name is missing"),
        ({"distance": [{"steps": 3}]}, "unknown field `steps`"),
        ({"data": 3}, "[[data]] is a section with fields; given data = 3"),
        ({"distance": ["ddn"]}, "given 'ddn'"),
        ({"seeds": []}, "`seeds` are different numbers"),
        ({"seeds": [1, 1]}, "`seeds` are different numbers"),
        ({"seeds": [-1]}, "`seeds` are different numbers"),
        ({"seeds": 3}, "`seeds` is a list of them, such as [0, 1, 2]; given 3."),  # three seeds, or the one called 3?
        ({"seeds": [True]}, "`seeds` is no question of true or false"),
        ({"threads": True}, "`threads` is no question of true or false; given true."),
        ({"training": {"epochs": 2, "rate": True}}, "[training]: `rate` is no question of true or false; given true."),
        ({"method": [{"method": "erm", "epochs": True}]}, "[[method]]: `epochs` is no question of true or false"),
        ({"method": [{"method": "erm", "epochs": 1, "networks": []}]}, "[[method]]: `networks` is empty"),
        ({"training": {"epochs": 1, "batch": 1e99}}, "[training]: `batch`: expected a whole number of fewer digits"),
        ({"confidence": 2}, "`confidence` must lie in"),
        ({"data": [{"name": "digits", "mean": 0.5}]}, "`mean` is given without `std`"),
        ({"data": [{"name": "digits", "partitions": []}]}, "`partitions` is empty"),
        ({"data": [{"name": "digits"}, {"name": "digits"}]}, "two [[data]] are called 'digits'"),
        ({"distance": [{"estimator": "ddn"}] * 2}, "two [[distance]] are called 'ddn'"),
        ({"data": [{"train": "a.csv"}]}, "give `train` and `test`"),
        ({"network": [{"architecture": "logistic", "weights": "a", "start": "b"}]}, "give one"),
        ({"attack": [{"attack": "pgd"}]}, "`radius` is missing"),
        ({"attack": [{"attack": "pgd", "radius": 0}]}, "`radius` must be above 0"),
        ({"attack": [{"attack": "pgd", "radius": "8 pixels"}]}, "given '8 pixels'"),
        ({"method": [{"method": "erm", "epochs": "ten"}]}, "`epochs`: expected a whole number; given 'ten'."),
        ({"method": [{"method": "erm"}]}, "how long is to be trained?"),
        ({"method": [{"method": "erm", "epochs": 2, "rate": -1}]}, "[[method]] erm: `rate` must"),
        ({"training": {"epochs": 2, "rate": -1}}, "[training]: `rate` must"),
        ({"method": [{"method": "madry:radius=0.1", "radius": 1, "epochs": 2}]}, "`radius` is given twice"),
        ({"distance": [{"estimator": "ddn:steps=many"}]}, "expected a whole number, given 'many'"),
    ],
)
def test_what_is_missing_twice_or_out_of_range_is_said(changes: dict[str, Any], said: str) -> None:
    assert said in refusal(**changes)


def test_epochs_whose_weights_a_method_does_not_keep_are_refused_before_it_is_trained() -> None:
    said = refusal(distance=[{"estimator": "ddn", "epochs": [3]}])
    assert "of the method erm: the weights of epoch 3 are not kept, only those of 1, 5, 10" in said
    assert study(training={"keep_every": 3}, distance=[{"estimator": "ddn", "epochs": [3]}])
    assert "there is no epoch 30 among 10" in refusal(attack=[{"attack": "pgd", "radius": 0.1, "epochs": [30]}])
    without = [{"name": "digits", "validation": 0}]
    assert "'best' is the best on validation data" in refusal(
        data=without, distance=[{"estimator": "ddn", "epochs": "best"}]
    )
    assert "`patience` watches validation data" in refusal(data=without, training={"patience": 2})


def test_a_file_that_is_no_toml_is_said_with_the_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"study\.toml is no TOML: .*line 4"):
        read_study(written(tmp_path, "title = 'x'\n\nseeds = [0, \n= 3"))


def test_a_file_that_is_not_there_or_no_text_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no study"):
        read_study(tmp_path / "none.toml")
    with pytest.raises(InputError, match="Cannot read the study"):
        read_study(tmp_path)
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="Cannot read the study"):
        read_study(tmp_path / "bytes.toml")
