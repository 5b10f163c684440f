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
    """Estimator with a field of every type."""

    demanded: float
    norm: Norm = Norm.L2
    steps: int = 100
    radius: float = 0.5
    restart: bool = False
    start: str = "key"
    rivals: int | None = None
    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1


@pytest.fixture(autouse=True)
def _with_sample(monkeypatch):
    """Make the catalog find the class in a module of that name among the estimators."""
    place = "fairmargin.distances.sample"
    monkeypatch.setattr(Sample, "__module__", place)
    monkeypatch.setitem(sys.modules, place, SimpleNamespace(Sample=Sample))
    monkeypatch.setitem(ESTIMATORS.entries, "sample", "sample:Sample")


def test_a_name_alone_gives_the_defaults_and_a_field_without_one_must_be_given():
    assert parse_estimator("exact_linear") == ExactLinear()
    with pytest.raises(InputError, match="`sample` needs the field `demanded`"):
        parse_estimator("sample")


def test_fields_are_read_as_the_types_they_are_annotated_with():
    text = "sample: demanded=1, norm=linf, steps=10, radius=4/255, restart=true, start=noise, rivals=3"
    assert parse_estimator(text) == Sample(1.0, Norm.LINF, 10, 4 / 255, True, "noise", 3)
    assert parse_estimator("sample:demanded=1,rivals=none").rivals is None
    for number, steps in (("1e3", 1000), ("20/2", 10), ("7", 7)):
        assert parse_estimator(f"sample:demanded=1,steps={number}").steps == steps


@pytest.mark.parametrize("estimator", [Sample(2.0), Sample(1.0, Norm.L1, 3, 0.1, True, "x", 2), ExactLinear(Norm.LINF)])
def test_build_is_the_inverse_of_describe(estimator):
    plain = describe(estimator)
    assert all(value is None or type(value) in (str, int, float, bool) for value in plain.values())
    name = plain.pop("name")
    assert name == name_of(estimator)
    assert build(name, plain) == estimator
