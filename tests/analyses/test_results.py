import json
import math
from contextlib import suppress
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.analyses.audit import AuditResult, GroupResult, OverallResult, audit
from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError
from fairmargin.inference.estimate import Estimate
from fairmargin.inference.settings import AuditSettings

law = settings(max_examples=30, deadline=None, derandomize=True)
HOSTILE = ('"quoted"', "</script>", "line\nbreak", "null", "東京 · العربية", "\u2028", "\\", "\x00", "")
numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.just(Undefined("no rest")), st.floats(-1, 1).map(np.float64)
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))


def ordered(triple: tuple[float, float, float], bound: Bound, reason: str) -> Estimate:
    """Return an estimate inside its interval: its numbers in ascending order, NaN left in place."""
    known = iter(sorted(number for number in triple if not math.isnan(number)))
    low, value, high = (number if math.isnan(number) else next(known) for number in triple)
    return Estimate(value, low, high, bound, reason)


st.register_type_strategy(
    Estimate, st.builds(ordered, st.tuples(numbers, numbers, numbers), st.sampled_from(Bound), texts)
)
st.register_type_strategy(
    RobustnessCurve,
    st.builds(RobustnessCurve, st.lists(st.floats(0, allow_infinity=True), min_size=1, max_size=5)),
)
sizes = st.integers(0, 10**12)
rows = st.builds(GroupResult, group=texts, size=sizes, p=numbers, p_adjusted=numbers, reason=texts, dropped=numbers)
results = st.builds(  # all other fields by their types
    AuditResult,
    partition=texts,
    groups=st.lists(rows, min_size=1, max_size=2).map(tuple),
    overall=st.builds(OverallResult, size=sizes, worst_group=texts),
    cap_reason=texts,
    control=texts,
    clustered=...,
    method=texts,
    warnings=...,
)


def audited() -> AuditResult:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.gamma(2, 1, 60), rng.gamma(2, 2, 60), [0.0, 0.0, np.inf]])
    distances = Distances(values, values > 0, Bound.UPPER, Norm.LINF)
    partition = Partition('hair "colour"', ["<b>", "b & c", "東京"], [0] * 60 + [1] * 60 + [2] * 3)
    return audit(distances, partition, AuditSettings(resamples=200))


AUDITED = audited()


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal in value, type and reason; NaN equals NaN."""
    if isinstance(one, RobustnessCurve):
        return isinstance(other, RobustnessCurve) and one.values.tolist() == other.values.tolist()
    if isinstance(one, tuple):
        return isinstance(other, tuple) and len(one) == len(other) and all(map(same, one, other))
    if hasattr(one, "__dataclass_fields__"):
        return type(one) is type(other) and all(same(getattr(one, n), getattr(other, n)) for n in type(one).__slots__)
    if isinstance(one, float):
        numbers_agree = one == other or (math.isnan(one) and math.isnan(other))
        return numbers_agree and isinstance(other, float) and reason_of(one) == reason_of(other)
    return type(one) is type(other) and one == other


# To JSON and back. ---------------------------------------------------------------------------------------------------


@law
@given(results)
def test_json_round_trips_without_loss_and_holds_no_constants_that_other_readers_refuse(result: AuditResult) -> None:
    assert same(AuditResult.from_json(result.to_json()), result)
    json.loads(result.to_json(), parse_constant=lambda constant: pytest.fail(f"{constant} is no JSON"))


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1 / 3, Undefined("no rest")])
def test_any_number_survives_as_it_is(number: float) -> None:
    estimate = Estimate(number, number, number, Bound.LOWER, "why")
    again = AuditResult.from_json(replace(AUDITED, overall=replace(AUDITED.overall, variance=estimate)).to_json())
    assert same(again.overall.variance, estimate)


def test_the_comparison_of_these_tests_sees_a_difference() -> None:
    assert not same(replace(AUDITED, confidence=0.9), AUDITED)
    assert not same(Undefined("one"), Undefined("other"))
    assert not same(math.nan, Undefined("why"))


def paths(content: Any, here: tuple = ()) -> list[tuple]:
    """Return every place in a JSON document, as keys and positions."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return [place for key, value in inside for place in ((*here, key), *paths(value, (*here, key)))]


PLACES = [p for p in paths(json.loads(AUDITED.to_json())) if p[0] != "format" and "curve" not in p[:-1]]


def damaged(place: tuple, value: Any) -> str:
    content = json.loads(AUDITED.to_json())
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    ("place", "junk", "said"),
    [
        *((("groups", 0, "p"), junk, "is not a number") for junk in ("0.5", "nan", True, [0.5])),
        (("groups", 0, "p"), 10**400, "too large"),
        *((("groups", 0, "size"), junk, "not a number of samples") for junk in ("12", 12.5, True, -1, None)),
        (("groups", 0, "curve"), [-1.0], "distances that are not negative"),
        (("groups", 0, "curve"), [], "at least one sample"),
        (("groups", 0, "verdict"), "perfectly fair", "is not one of"),
        (("groups", 0, "reason"), None, "is not a text"),
        (("groups", 0, "sigma", "bound"), "sideways", "sideways"),
        (("groups",), [], "there are no groups"),
        (("overall", "size"), math.inf, "not a number of samples"),
        (("warnings",), "word", "is not a list"),
        (("norm",), "l9", "l9"),
    ],
)  # fmt: skip
def test_a_damaged_audit_is_refused_in_a_sentence_that_names_the_damage(place: tuple, junk: object, said: str) -> None:
    with pytest.raises(InputError, match=f"This audit is damaged: .*{said}"):
        AuditResult.from_json(damaged(place, junk))


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "3", "null", '"text"', AUDITED.to_json()[:-1]])
def test_what_is_no_audit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"This is not a text written by `AuditResult.to_json`"):
        AuditResult.from_json(text)


@pytest.mark.parametrize("triple", [(4.0, 2.0, 3.0), (1.0, math.nan, 0.0), (math.nan, 3.0, 2.0)])
def test_a_value_outside_of_its_interval_is_refused(triple: tuple[float, float, float]) -> None:
    estimate = Estimate(*triple, Bound.LOWER, "why")
    text = replace(AUDITED, overall=replace(AUDITED.overall, variance=estimate)).to_json()
    with pytest.raises(InputError, match="contradict each other"):
        AuditResult.from_json(text)


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(PLACES), st.sampled_from([None, [], {}, "word", -3, [None], {"undefined": 3}, True, [[1]]]))
def test_damage_anywhere_is_an_input_error_and_never_a_crash(place: tuple, junk: object) -> None:
    with suppress(InputError):  # anything else escapes and fails the test
        assert AuditResult.from_json(damaged(place, junk)).norm is Norm.LINF


# The table, the rows and the words. ----------------------------------------------------------------------------------


def test_the_table_has_a_row_a_group_and_a_column_a_number() -> None:
    frame = AUDITED.to_frame()
    limits = [f"{n}{end}" for n in ("accuracy", "robustness", "sigma", "gap_to_rest") for end in ("", "_low", "_high")]
    limits += ["sigma_alone_low", "sigma_alone_high", "sigma_bounds_low", "sigma_bounds_high"]
    others = ("sigma_unrestricted", "sigma_median", "sigma_accuracy", "sigma_margin")
    limits += [f"{n}{end}" for n in others for end in ("", "_low", "_high")]
    rest = ["unreached", "unreachable", "p", "p_adjusted", "dropped", "effective", "p_curves", "p_curves_adjusted"]
    rest += [f"robustness_bias_{end}" for end in ("max", "max_low", "max_high", "radius", "band")]
    rest += ["bound", "verdict", "finding", "up_to"]
    assert frame.columns.tolist() == ["partition", "group", "size", *limits, *rest]
    assert frame["group"].tolist() == ["<b>", "b & c", "東京"]
    assert set(frame["partition"]) == {'hair "colour"'}
    assert set(frame["bound"]) == {"upper"}


def test_text_of_a_result_names_the_cap_and_has_a_line_for_every_sentence() -> None:
    header, *lines = str(AUDITED).splitlines()
    radius = "up to a radius of 17.02 (distances beyond it count as 17.02)"
    assert header == f'hair "colour": upper bounds (attacks), L∞, 123 samples, {radius}'
    assert [line.strip() for line in lines] == AUDITED.sentences()
    # What the summary says of a group is not repeated after its verdict.
    assert all(AUDITED.finding(row).startswith(tuple(AUDITED.sentences())) for row in AUDITED)
    assert any(AUDITED.cap_reason in sentence for sentence in AUDITED.sentences())
    uncapped = replace(AUDITED, up_to=math.inf, cap_reason="")
    assert str(uncapped).splitlines()[0] == 'hair "colour": upper bounds (attacks), L∞, 123 samples'
    assert "radius" not in " ".join(uncapped.finding(row) for row in uncapped)


def test_an_estimate_reads_as_value_and_interval_or_says_why_not() -> None:
    assert str(Estimate(0.5, 0.25, 0.75, Bound.EXACT)) == "0.5 [0.25, 0.75]"
    undefined = Estimate.undefined("the rest has robustness 0", Bound.UPPER)
    assert str(undefined) == "undefined (the rest has robustness 0)"
    assert not undefined.is_defined
    assert asdict(undefined)["bound"] is Bound.UPPER
