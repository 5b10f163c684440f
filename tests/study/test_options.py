"""A field of an options model is the one declaration of an option: its help, its key in files, its Python argument."""

import inspect
import json
import tomllib
from typing import Annotated, get_type_hints

import pytest
import typer
from pydantic import Field, field_validator
from typer.testing import CliRunner

from fairmargin.cli.attack import attack
from fairmargin.cli.audit import audit
from fairmargin.cli.console import option_name
from fairmargin.cli.options import command, shown_fields
from fairmargin.core.options import Bounds, Crosses, Listed, Names, Number, Options, Radii, Whole, validated
from fairmargin.errors import InputError
from fairmargin.inference.settings import AuditSettings, CompareOptions
from fairmargin.study.options import (
    AttackOptions,
    AuditOptions,
    DataOptions,
    GroupOptions,
    ImportOptions,
    ModelOptions,
)
from fairmargin.study.study import RunOptions, Study
from tests.stories.examples import fairmargin, refused, succeeded

MODELS = (
    DataOptions,
    ModelOptions,
    ImportOptions,
    GroupOptions,
    AuditOptions,
    AttackOptions,
    CompareOptions,
    RunOptions,
)


def app_of(function):
    made = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    made.command()(function)
    return made


def help_of(name: str) -> str:
    """Return the output of --help on one line, without frames."""
    text = succeeded(
        CliRunner(env={"COLUMNS": "200", "TERM": "dumb"}).invoke(app_of(COMMANDS[name]), ["--help"])
    ).stdout
    return " ".join(text.replace("│", " ").split())


COMMANDS = {"audit": audit, "attack": attack}
PARTS = {
    "audit": (DataOptions, ModelOptions, ImportOptions, GroupOptions, AuditOptions, RunOptions),
    "attack": (DataOptions, ModelOptions, GroupOptions, AttackOptions, RunOptions),
}


# Every field


@pytest.mark.parametrize("model", MODELS)
def test_every_field_has_a_docstring_and_a_default(model):
    for name, info in model.model_fields.items():
        assert len((info.description or "").split()) > 2, name
        assert not info.is_required(), name


@pytest.mark.parametrize("name", COMMANDS)
def test_every_field_is_an_option_whose_help_is_its_docstring(name):
    shown = help_of(name)
    for model in PARTS[name]:
        for field, info in shown_fields(model):
            assert f" {option_name(field)} " in f" {shown} "
            first, *_ = " ".join(info.description.split()).split(". ")
            assert first.split(" (")[0].rstrip(".") in shown, field


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_declares_no_option_that_a_model_declares(name):
    signature = inspect.signature(inspect.unwrap(COMMANDS[name]))
    kinds = get_type_hints(inspect.unwrap(COMMANDS[name]))
    own = {each for each in signature.parameters if kinds[each] not in PARTS[name]}
    assert not own & {field for model in PARTS[name] for field, _ in shown_fields(model)}
    assert len(signature.parameters) - len(own) == len(PARTS[name])
    assert len(own) <= 6


def test_settings_of_a_comparison_are_declared_once():
    assert set(CompareOptions.model_fields) <= set(AuditOptions.model_fields) & set(AuditSettings.model_fields)
    for model in (AuditOptions, AttackOptions, AuditSettings):
        own = set(inspect.get_annotations(model)) & set(CompareOptions.model_fields)
        assert own <= {"up_to"}, model


# A new field is everything at once


class Example(Options):
    """Options with one field of every kind."""

    panel = "Example"

    steps: Annotated[Whole, Field(ge=1)] = 5
    """Maximum number of steps."""
    rate: Number = 0.5
    """Length of a step."""
    names: Names = ()
    """Names of the parts."""
    limits: Bounds = None
    """Where values may lie."""
    crossed: Crosses = ()
    """Columns to intersect."""
    radii: Radii = ()
    """How far to go."""
    words: Listed = ()
    """Words that may be repeated."""
    is_fast: bool = False
    """Do it fast."""

    @field_validator("rate")
    @classmethod
    def _check_rate(cls, value: float) -> float:
        if value > 1:
            raise InputError("must be at most 1; lower {steps} instead", others=("steps",))
        return value


GOT: list[Example] = []


@command
def example(options: Example, title: str = "") -> None:
    """Run the command that the tests call."""
    GOT.append(options)


TYPED = (
    "--steps 7 --rate 1/4 --names a,b --limits=-inf,1 --crossed a,b --crossed b,c --radii 4/255 --radii 1 --words x \
--words y,z --is-fast"
)
SAME = Example(
    steps=7,
    rate=0.25,
    names=("a", "b"),
    limits=(float("-inf"), 1.0),
    crossed=(("a", "b"), ("b", "c")),
    radii=(4 / 255, 1.0),
    words=("x", "y,z"),
    is_fast=True,
)
TOML = """
steps = 7
rate = 0.25
names = ["a", "b"]
limits = [-inf, 1]
crossed = [["a", "b"], ["b", "c"]]
radii = ["4/255", 1]
words = ["x", "y,z"]
is_fast = true
"""


def run_example(*arguments: str):
    GOT.clear()
    return CliRunner().invoke(app_of(example), list(arguments))


def test_a_field_is_an_option_a_key_and_an_argument_with_one_meaning():
    succeeded(run_example(*TYPED.split()))
    assert GOT == [SAME]
    assert validated(Example, tomllib.loads(TOML)) == SAME
    assert Example(**json.loads(SAME.model_dump_json())) == SAME


def test_options_that_are_left_out_have_their_defaults():
    succeeded(run_example())
    assert [Example()] == GOT


# Errors carry their field


@pytest.mark.parametrize(
    ("given", "field", "on_command_line"),
    [
        ({"steps": "many"}, "steps", "--steps must be a whole number; given 'many'."),
        ({"steps": 0}, "steps", "--steps must be 1 or more; given 0."),
        ({"steps": True}, "steps", "--steps must be a whole number; given True."),
        ({"rate": 2}, "rate", "--rate must be at most 1; lower --steps instead; given 2."),
        ({"rate": "1/0"}, "rate", "--rate cannot be divided by 0; given '1/0'."),
        (
            {"limits": "0"},
            "limits",
            "--limits must be two numbers, low and high, separated by a comma, as in 0,1 or -inf,inf; given '0'.",
        ),
        ({"crossed": ["a"]}, "crossed", "--crossed must name two or more different columns"),
        ({"radii": "far"}, "radii", "--radii must be a number such as 0.1 or a fraction such as 4/255; given 'far'."),
        ({"radii": ["4/255", -1]}, "radii", "--radii must not be negative; given -1."),
        ({"is_fast": "perhaps"}, "is_fast", "--is-fast must be true or false; given 'perhaps'."),
        ({"is_slow": 1}, "is_slow", "--is-slow is unknown."),
    ],
)
def test_an_error_carries_its_field_and_is_spelled_by_the_outermost_layer(given, field, on_command_line):
    with pytest.raises(InputError) as raised:
        Example(**given)
    assert raised.value.field == field
    assert raised.value.spelled(option_name).startswith(on_command_line)
    assert str(raised.value).startswith(f"`{field}` ")


def test_an_error_inside_a_study_says_in_which_section():
    with pytest.raises(InputError) as raised:
        Study(model={"model": "m"}, data={"data": "d"}, audit={"confidence": 2})
    assert raised.value.field == "audit.confidence"
    assert raised.value.spelled(lambda field: "[{}] {}".format(*field.split("."))) == (
        "[audit] confidence must lie in [0.5, 1), for instance 0.95; given 2."
    )


def test_an_error_on_the_command_line_names_options(tmp_path):
    options = ("--model", "m.npz", "--data", "d.csv", "--out", tmp_path / "run")
    for more, said in (
        (("--merge-below", "x"), "--merge-below must be a whole number; given 'x'."),
        (("--id", "a"), "--id goes with --distances and has no effect here: leave it out."),
    ):
        assert refused(fairmargin("audit", *options, *more)).startswith(said)
