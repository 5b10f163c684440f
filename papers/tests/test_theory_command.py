"""The closed forms on the command line: tables, figures, and which theorems hold."""

import re

import pytest

from tests.stories.examples import fairmargin, json_of, refused, succeeded


def test_two_classes_on_a_line_get_three_thresholds_and_two_figures(tmp_path):
    said = succeeded(fairmargin("theory", "tran", "--out", tmp_path / "theory")).stdout
    for threshold in ("1.6000", "1.7497", "1.8973"):
        assert threshold in said
    assert re.search(r"Theorem 1, order .* holds", said)
    assert "refuted" in said  # the printed penalty counts twice
    for name in ("tran-densities", "tran-losses"):
        text = (tmp_path / "theory" / f"{name}.svg").read_text(encoding="utf-8")
        assert "<svg" in text
        assert "threshold" in text  # letters, not outlines: a reader can search the picture


def test_the_same_numbers_give_the_same_figures(tmp_path):
    for folder in ("first", "second"):
        succeeded(fairmargin("theory", "ma", "--out", tmp_path / folder))
    first, second = ((tmp_path / folder / "ma-vcra.svg").read_bytes() for folder in ("first", "second"))
    assert first == second


def test_adversarial_training_is_told_with_its_counter_example(tmp_path):
    found = json_of(fairmargin("theory", "ma", "--train-radius", "2/10", "--out", tmp_path, "--json"))
    by_name = {statement["name"]: statement for statement in found["statements"]}
    assert by_name["Theorem 5.5"]["verdict"] == "refuted"
    assert by_name["Theorem 5.7"]["verdict"] == "premise fails"
    assert found["classifiers"]["trained with ε = 0.2"]["bias b"] == pytest.approx(-1.8328, abs=1e-4)


def test_a_class_that_always_wins_is_told_without_a_number(tmp_path):
    always = ["theory", "tran", "--low", "0", "--high", "1", "--spread", "2", "--prior", "0.8", "--out", tmp_path]
    assert "−∞" in succeeded(fairmargin(*always)).stdout
    assert json_of(fairmargin(*always, "--json"))["thresholds"]["natural"]["threshold"] == "-inf"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["tran", "--spread", "0"], "--spread is a standard deviation"),
        (["tran", "--prior", "1.5"], "prior"),
        (["tran", "--low", "3", "--high", "1"], "high"),
        (["tran", "--radius", "far"], "must be a number such as 0.1"),
        (["tran", "--radius", "-1"], "must not be negative"),
        (["ma", "--std-plus", "-1"], "--std-plus must be a standard deviation above 0; given -1."),
        (["ma", "--dim", "0"], "dim"),
        (["ma", "--test-radius", "1/0"], "divided by 0"),
    ],
)
def test_parameters_outside_of_the_model_are_refused_in_a_sentence(tmp_path, options, sentence):
    assert sentence in refused(fairmargin("theory", *options, "--out", tmp_path / "out"))
    assert not (tmp_path / "out").exists()


def test_a_file_in_the_way_is_named(tmp_path):
    (tmp_path / "out").write_text("here first")
    assert "out" in refused(fairmargin("theory", "tran", "--out", tmp_path / "out"))


def test_the_parameters_are_part_of_the_json(tmp_path):
    tran = json_of(fairmargin("theory", "tran", "--low", "-1", "--radius", "1/4", "--out", tmp_path, "--json"))
    assert tran["parameters"] == {"low": -1.0, "high": 4.0, "spread": 1.5, "prior": 0.5, "radius": 0.25}
    ma = json_of(fairmargin("theory", "ma", "--dim", "5", "--test-radius", "1/2", "--out", tmp_path, "--json"))
    expected = {"mean_plus": 1.0, "mean_minus": 1.0, "std_plus": 1.0, "std_minus": 2.0, "dim": 5, "prior": 0.5}
    assert ma["parameters"] == {**expected, "train_radius": 0.2, "test_radius": 0.5}


def test_negative_numbers_have_a_minus_sign_and_no_hyphen(tmp_path):
    said = succeeded(fairmargin("theory", "tran", "--low", "-1", "--high", "1", "--out", tmp_path)).stdout
    assert "μ = −1, 1;" in said
