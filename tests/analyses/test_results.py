import json
import math
import re
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
from fairmargin.inference.estimate import VERDICTS, Estimate
from fairmargin.inference.settings import AuditSettings

law = settings(max_examples=30, deadline=None, derandomize=True)
HOSTILE = ('"quoted"', "</script>", "line\nbreak", "null", "東京 · العربية", "\u2028", "\\", "\x00", "")
numbers = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.just(Undefined("no rest")), st.floats(-1, 1).map(np.float64)
)
texts = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8))


def ordered(triple: tuple[float, float, float], bound: Bound, reason: str) -> Estimate:
    """An estimate inside its interval: the numbers in order, those that are none where they were."""
    known = iter(sorted(number for number in triple if not math.isnan(number)))
    low, value, high = (number if math.isnan(number) else next(known) for number in triple)
    return Estimate(value, low, high, bound, reason)


estimates = st.builds(ordered, st.tuples(numbers, numbers, numbers), st.sampled_from(Bound), texts)
curves = st.builds(RobustnessCurve, st.lists(st.floats(0, allow_infinity=True), min_size=1, max_size=5))
rows = st.builds(
    GroupResult,
    group=texts,
    size=st.integers(0, 10**12),
    accuracy=estimates,
    unreached=numbers,
    robustness=estimates,
    sigma=estimates,
    sigma_alone=estimates,
    gap_to_rest=estimates,
    p=numbers,
    p_adjusted=numbers,
    verdict=st.sampled_from(VERDICTS),
    reason=texts,
    curve=curves,
    band=numbers,
    dropped=numbers,
)
overalls = st.builds(
    OverallResult,
    size=st.integers(0, 10**12),
    accuracy=estimates,
    robustness=estimates,
    variance=estimates,
    relative_variance=estimates,
    largest_gap=estimates,
    worst_group=texts,
    worst_robustness=estimates,
    p_equal=numbers,
)
results = st.builds(
    AuditResult,
    partition=texts,
    groups=st.lists(rows, min_size=1, max_size=2).map(tuple),
    overall=overalls,
    bound=st.sampled_from(Bound),
    norm=st.sampled_from(Norm),
    subject=texts,
    confidence=st.floats(0.5, 0.99),
    up_to=st.floats(0.1, allow_infinity=True),
    cap_reason=texts,
    control=texts,
    clustered=st.booleans(),
    method=texts,
    warnings=st.lists(texts, max_size=2).map(tuple),
)


def audited() -> AuditResult:
    rng = np.random.default_rng(0)
    values = np.concatenate([rng.gamma(2, 1, 60), rng.gamma(2, 2, 60), [0.0, 0.0, np.inf]])
    distances = Distances(values, values > 0, Bound.UPPER, Norm.LINF)
    partition = Partition('hair "colour"', ["<b>", "b & c", "東京"], [0] * 60 + [1] * 60 + [2] * 3)
    return audit(distances, partition, AuditSettings(resamples=200))


AUDITED = audited()


def same(one: Any, other: Any) -> bool:
    """Equal in value, type and reason; NaN equals NaN."""
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
def test_json_round_trips_without_loss(result: AuditResult) -> None:
    assert same(AuditResult.from_json(result.to_json()), result)


def test_a_real_audit_round_trips_without_loss() -> None:
    again = AuditResult.from_json(AUDITED.to_json())
    assert same(again, AUDITED)
    assert again.to_json() == AUDITED.to_json()
    assert str(again) == str(AUDITED)
    assert again.to_frame().equals(AUDITED.to_frame())


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan, -0.0, 5e-324, 1 / 3, Undefined("no rest")])
def test_any_number_survives_as_it_is(number: float) -> None:
    estimate = Estimate(number, number, number, Bound.LOWER, "why")
    again = AuditResult.from_json(replace(AUDITED, overall=replace(AUDITED.overall, variance=estimate)).to_json())
    assert same(again.overall.variance, estimate)


@pytest.mark.parametrize(
    "triple", [(1.0, 2.0, 3.0), (4.0, 2.0, 3.0), (1.0, 2.0, math.nan), (1.0, math.nan, 0.0), (math.nan, 3.0, 2.0)]
)
def test_a_value_outside_of_its_interval_is_refused(triple: tuple[float, float, float]) -> None:
    estimate = Estimate(*triple, Bound.LOWER, "why")
    text = replace(AUDITED, overall=replace(AUDITED.overall, variance=estimate)).to_json()
    with pytest.raises(InputError, match="contradict each other"):
        AuditResult.from_json(text)


@pytest.mark.parametrize("value", ["0.5", "nan", True, "1e999", [0.5], 10**400])
def test_what_is_not_a_number_is_refused(value: object) -> None:
    content = json.loads(AUDITED.to_json())
    content["groups"][0]["p"] = value
    with pytest.raises(InputError, match="damaged"):
        AuditResult.from_json(json.dumps(content))


@pytest.mark.parametrize("value", ["12", 12.5, True, -1, None])
def test_what_is_not_a_number_of_samples_is_refused(value: object) -> None:
    content = json.loads(AUDITED.to_json())
    content["groups"][0]["size"] = value
    with pytest.raises(InputError, match="not a number of samples"):
        AuditResult.from_json(json.dumps(content))


def test_the_comparison_of_these_tests_sees_a_difference() -> None:
    assert not same(replace(AUDITED, confidence=0.9), AUDITED)
    assert not same(Undefined("one"), Undefined("other"))
    assert not same(math.nan, Undefined("why"))


@law
@given(results)
def test_json_is_strict_so_that_any_reader_can_read_it(result: AuditResult) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    json.loads(result.to_json(), parse_constant=refuse)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "3", "null", "{}", '"text"', '{"partition": "g"}', "{"])
def test_what_is_no_audit_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"This is not a text written by `AuditResult.to_json`"):
        AuditResult.from_json(text)


@pytest.mark.parametrize("version", [0, 2, 4, "3", None])
def test_another_format_is_refused_with_both_versions(version: object) -> None:
    content = {**json.loads(AUDITED.to_json()), "format": version}
    with pytest.raises(InputError, match=re.escape(f"has format {version}; this version of Fairmargin reads format 3")):
        AuditResult.from_json(json.dumps(content))


@pytest.mark.parametrize("cut", [10, 100, 1000, -1, -50])
def test_a_truncated_file_is_refused(cut: int) -> None:
    with pytest.raises(InputError):
        AuditResult.from_json(AUDITED.to_json()[:cut])


def paths(content: Any, here: tuple = ()) -> list[tuple]:
    """Every place in a JSON document, as keys and positions."""
    inside = content.items() if isinstance(content, dict) else enumerate(content) if isinstance(content, list) else ()
    return (
        [here, *(p for key, value in inside for p in paths(value, (*here, key)))]
        if here
        else [p for key, value in inside for p in paths(value, (key,))]
    )


PLACES = [p for p in paths(json.loads(AUDITED.to_json())) if p[0] != "format" and "curve" not in p[:-1]]


def damaged(place: tuple, value: Any = None, *, drop: bool = False) -> str:
    content = json.loads(AUDITED.to_json())
    inside = content
    for key in place[:-1]:
        inside = inside[key]
    if drop:
        del inside[place[-1]]
    else:
        inside[place[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize("place", [p for p in PLACES if isinstance(p[-1], str)], ids=lambda p: "-".join(map(str, p)))
def test_an_audit_that_lacks_any_field_is_refused(place: tuple) -> None:
    with pytest.raises(InputError, match="This audit is damaged"):
        AuditResult.from_json(damaged(place, drop=True))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.sampled_from(PLACES), st.sampled_from([None, [], {}, "word", -3, [None], {"undefined": 3}, True, [[1]]]))
def test_damage_anywhere_is_an_input_error_and_never_a_crash(place: tuple, junk: object) -> None:
    with suppress(InputError):  # anything else escapes and fails the test
        assert AuditResult.from_json(damaged(place, junk)).norm is Norm.LINF


@pytest.mark.parametrize(
    ("place", "junk"),
    [
        (("groups",), None),
        (("groups", 0), 7),
        (("groups", 0, "curve"), []),
        (("groups", 0, "curve"), [-1.0]),
        (("groups", 0, "sigma"), "0.5"),
        (("groups", 0, "sigma", "bound"), "sideways"),
        (("groups", 0, "p"), "small"),
        (("overall",), []),
        (("overall", "size"), "many"),
        (("norm",), "l9"),
        (("bound",), None),
    ],
)
def test_damage_that_would_change_a_number_is_noticed(place: tuple, junk: object) -> None:
    with pytest.raises(InputError, match="This audit is damaged"):
        AuditResult.from_json(damaged(place, junk))


@pytest.mark.parametrize(
    ("place", "junk"),
    [
        (("groups", 0, "group"), 7),
        (("groups", 0, "verdict"), "perfectly fair"),
        (("groups", 0, "reason"), None),
        (("groups",), []),
        (("partition",), None),
        (("warnings",), "word"),
        (("overall", "worst_group"), ["a"]),
    ],
)
def test_damage_that_would_change_a_word_is_noticed(place: tuple, junk: object) -> None:
    with pytest.raises(InputError, match="This audit is damaged"):
        AuditResult.from_json(damaged(place, junk))


def test_an_infinite_size_is_an_input_error() -> None:
    with pytest.raises(InputError, match="This audit is damaged"):
        AuditResult.from_json(AUDITED.to_json().replace('"size": 60', '"size": 1e999'))


# The table, the rows and the words. ----------------------------------------------------------------------------------


def test_the_table_has_a_row_a_group_and_a_column_a_number() -> None:
    frame = AUDITED.to_frame()
    limits = [f"{n}{end}" for n in ("accuracy", "robustness", "sigma", "gap_to_rest") for end in ("", "_low", "_high")]
    limits += ["sigma_alone_low", "sigma_alone_high"]
    rest = ["unreached", "p", "p_adjusted", "dropped", "robustness_bias_max", "robustness_bias_radius"]
    rest += ["bound", "verdict", "finding", "up_to"]
    assert frame.columns.tolist() == ["partition", "group", "size", *limits, *rest]
    assert frame["group"].tolist() == ["<b>", "b & c", "東京"]
    assert set(frame["partition"]) == {'hair "colour"'}
    assert set(frame["bound"]) == {"upper"}


def test_the_numbers_of_the_table_are_those_of_the_rows() -> None:
    frame = AUDITED.to_frame().set_index("group")
    for row in AUDITED:
        for name in ("accuracy", "robustness", "sigma", "gap_to_rest"):
            estimate: Estimate = getattr(row, name)
            found = frame.loc[row.group, [name, f"{name}_low", f"{name}_high"]].astype(float)
            np.testing.assert_array_equal(found, [estimate.value, estimate.low, estimate.high])
        assert frame.loc[row.group, "size"] == row.size
        np.testing.assert_equal(float(frame.loc[row.group, "p_adjusted"]), row.p_adjusted)
        assert frame.loc[row.group, "verdict"] == row.verdict


def test_a_group_is_found_by_its_name() -> None:
    assert AUDITED["b & c"].size == 60


def test_an_unknown_group_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(
        InputError, match=r"Partition 'hair \"colour\"' has no group 'x'; it has '<b>', 'b & c', '東京'"
    ):
        AUDITED["x"]


def test_text_of_a_result_names_the_cap_and_has_a_line_for_every_sentence() -> None:
    header, *lines = str(AUDITED).splitlines()
    radius = "up to a radius of 17.02 (distances beyond it count as 17.02)"
    assert header == f'hair "colour": upper bounds (attacks), L∞, 123 samples, {radius}'
    assert [line.strip() for line in lines] == AUDITED.sentences()
    assert {AUDITED.finding(row) for row in AUDITED} < set(AUDITED.sentences())
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


def test_results_are_frozen() -> None:
    with pytest.raises(AttributeError):
        AUDITED.groups[0].verdict = "fair"  # type: ignore[misc]
