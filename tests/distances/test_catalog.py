import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

import pytest

from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS, build, describe, name_of, parse_estimator
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.errors import InputError


@dataclass(frozen=True)
class Sample:
    """An estimator with a field of every kind."""

    norm: Norm = Norm.L2
    steps: int = 100
    radius: float = 0.5
    restart: bool = False
    start: str = "key"
    rivals: int | None = None
    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1


def add_to_catalog(monkeypatch, name, kind):
    """As if the class were defined in a file of that name among the estimators."""
    home = f"fairmargin.distances.{name}"
    monkeypatch.setattr(kind, "__module__", home)
    monkeypatch.setitem(sys.modules, home, SimpleNamespace(**{kind.__name__: kind}))
    monkeypatch.setitem(ESTIMATORS.entries, name, f"{name}:{kind.__name__}")


@pytest.fixture(autouse=True)
def _with_sample(monkeypatch):
    add_to_catalog(monkeypatch, "sample", Sample)


def test_a_name_alone_gives_the_defaults():
    assert parse_estimator("exact_linear") == ExactLinear()


def test_fields_are_read_as_the_types_they_are_annotated_with():
    text = "sample: norm=linf, steps=10, radius=4/255, restart=true, start=noise, rivals=3"
    assert parse_estimator(text) == Sample(Norm.LINF, 10, 4 / 255, True, "noise", 3)


@pytest.mark.parametrize(("text", "steps"), [("1e3", 1000), ("20/2", 10), ("7", 7)])
def test_whole_numbers_may_be_spelled_in_several_ways(text, steps):
    assert parse_estimator(f"sample:steps={text}").steps == steps


def test_optional_fields_read_none():
    assert parse_estimator("sample:rivals=none").rivals is None








@pytest.mark.parametrize("estimator", [Sample(), Sample(Norm.L1, 3, 0.1, True, "x", 2), ExactLinear(Norm.LINF)])
def test_build_is_the_inverse_of_describe(estimator):
    plain = describe(estimator)
    assert all(value is None or type(value) in (str, int, float, bool) for value in plain.values())
    name = plain.pop("name")
    assert name == name_of(estimator)
    assert build(name, plain) == estimator


def test_says_which_field_has_no_default(monkeypatch):
    @dataclass(frozen=True)
    class Demanding:
        radius: float

    add_to_catalog(monkeypatch, "demanding", Demanding)
    with pytest.raises(InputError, match="`demanding` needs the field `radius`"):
        parse_estimator("demanding")


