"""Audit results made by hand, so that the report can be tested without measuring anything."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fairmargin.analyses.audit import AuditResult, GroupResult, OverallResult
from fairmargin.core.bound import Bound
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.norm import Norm
from fairmargin.core.undefined import Undefined
from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE, TOO_FEW, Estimate
from fairmargin.presentation.section import Section

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"quoted' & <b>bold</b>",
    "a very long name of a group, " * 6 + "end",
    "Łódź · 東京 · العربية",
    "%{x} ${y} <a href='javascript:alert(3)'>z</a>",
    "&lt;not a tag&gt;",
)
REASON = "no sample of the rest is classified correctly"


def example_group(
    group: str = "8",
    *,
    size: int = 200,
    scale: float = 1.0,
    rest: float = 1.0,
    verdict: str | None = None,
    bound: Bound = Bound.EXACT,
    seed: int = 0,
    unreached: float = 0.0,
) -> GroupResult:
    """Return a group with gamma distances of mean near `scale`, compared with a rest of mean `rest`."""
    random = np.random.default_rng(seed)
    values = random.gamma(4.0, scale / 4.0, size)
    values[random.random(size) < 0.05] = 0.0
    values[: int(size * unreached)] = math.inf
    mean = float(np.minimum(values, 3 * scale).mean())
    error = 1.96 * scale / 2 / math.sqrt(size)
    sigma, width = mean / rest - 1, error / rest
    if verdict is None:
        verdict = NO_DIFFERENCE if abs(sigma) < width else LESS_ROBUST if sigma < 0 else MORE_ROBUST
    p = 0.4 if verdict == NO_DIFFERENCE else 0.0002
    spread = bound.of_spread()
    accuracy = float((values > 0).mean())
    return GroupResult(
        group=group,
        size=size,
        accuracy=Estimate(accuracy, accuracy - 0.03, min(accuracy + 0.03, 1.0), Bound.EXACT),
        unreached=unreached,
        robustness=Estimate(mean, mean - error, mean + error, bound),
        sigma=Estimate(sigma, sigma - width, sigma + width, spread),
        sigma_alone=Estimate(sigma, sigma - width / 2, sigma + width / 2, spread),
        sigma_unrestricted=Estimate(sigma, sigma - width, sigma + width, spread),
        sigma_median=Estimate(sigma, sigma - 1.2 * width, sigma + 1.2 * width, spread),
        sigma_accuracy=Estimate(0.0, -0.05, 0.05, Bound.EXACT),
        sigma_margin=Estimate(sigma, sigma - width, sigma + width, spread),
        gap_to_rest=Estimate(mean - rest, mean - rest - error, mean - rest + error, spread),
        p=p / 2,
        p_adjusted=p,
        verdict=verdict,
        reason="" if verdict in (LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE) else "no reason",
        curve=RobustnessCurve(values),
        band=1.36 / math.sqrt(size),
    )


def undefined_group(group: str = "rare", *, reason: str = REASON, verdict: str = TOO_FEW) -> GroupResult:
    """Return a group whose comparison does not exist."""
    return replace(
        example_group(group, size=2),
        accuracy=Estimate(0.5, math.nan, math.nan, Bound.EXACT, "an interval needs at least 3 samples"),
        sigma=Estimate.undefined(reason, Bound.NEITHER),
        sigma_alone=Estimate.undefined(reason, Bound.NEITHER),
        sigma_unrestricted=Estimate.undefined(reason, Bound.NEITHER),
        sigma_median=Estimate.undefined(reason, Bound.NEITHER),
        sigma_accuracy=Estimate.undefined(reason, Bound.EXACT),
        sigma_margin=Estimate.undefined(reason, Bound.NEITHER),
        gap_to_rest=Estimate.undefined(reason, Bound.NEITHER),
        p=Undefined(reason),
        p_adjusted=Undefined(reason),
        verdict=verdict,
        band=1.0,
    )


def example_result(
    names: Sequence[str] = ("0", "1", "8"),
    *,
    scales: Sequence[float] = (1.0, 1.3, 0.65),
    groups: Sequence[GroupResult] | None = None,
    partition: str = "digit",
    bound: Bound = Bound.EXACT,
    norm: Norm = Norm.L2,
    up_to: float = math.inf,
    warnings: tuple[str, ...] = (),
    control: str = "",
) -> AuditResult:
    """Return an audit of groups with the given names; `scales` are repeated for more names."""
    if groups is None:
        groups = [
            example_group(name, scale=scales[i % len(scales)], size=200 + 37 * i, bound=bound, seed=i)
            for i, name in enumerate(names)
        ]
    means = [row.robustness.value for row in groups]
    worst = min(groups, key=lambda row: row.robustness.value)
    mean, variance = float(np.mean(means)), float(np.var(means))
    spread = bound.of_spread()
    return AuditResult(
        partition=partition,
        groups=tuple(groups),
        overall=OverallResult(
            size=sum(row.size for row in groups),
            accuracy=Estimate(0.95, 0.93, 0.97, Bound.EXACT),
            robustness=Estimate(mean, mean - 0.05, mean + 0.05, bound),
            variance=Estimate(variance, 0.0, variance * 2, spread),
            relative_variance=Estimate(variance / mean**2, 0.0, 2 * variance / mean**2, spread),
            largest_gap=Estimate(max(means) - min(means), 0.1, 1.0, spread),
            worst_group=worst.group,
            worst_robustness=worst.robustness,
            p_equal=0.0004,
        ),
        bound=bound,
        norm=norm,
        subject="model",
        confidence=0.95,
        up_to=up_to,
        cap_reason="2 of 200 samples have no finite distance" if math.isfinite(up_to) else "",
        control=control,
        method="2,000 bootstrap resamples; studentised permutation tests, corrected by Holm",
        warnings=warnings,
    )


def hostile_result() -> AuditResult:
    """Return a result in which every text was written by an attacker."""
    return replace(
        example_result(HOSTILE, partition="<script>alert(4)</script>", warnings=("<img src=x onerror=alert(5)>",)),
        method="</script><script>alert(6)</script>",
        cap_reason="<b>",
        up_to=3.0,
        control="<i>age</i>",
        subject="<u>smoothed</u>",
    )


def crowded_result() -> AuditResult:
    """Return an audit of thirty groups, one of which is undefined."""
    scales = [0.6 + 0.03 * i for i in range(29)]
    rows = [
        example_group(f"region {i + 1:02d}", scale=scales[i], size=120 + 11 * i, seed=i, rest=1.0) for i in range(29)
    ]
    return example_result(groups=[*rows, undefined_group("region 30")], partition="region")


def texts_of(section: Section) -> Iterator[str]:
    """Yield every text of a section that a person may see, including those of its folded parts."""
    yield from (section.title, section.about, section.answer, section.method)
    yield from (*section.sentences, *section.findings, *section.cautions, *section.notes)
    for table in section.tables:
        yield from (table.caption, table.label)
        yield from (text for column in table.columns for text in (column.name, column.detail, column.interval))
        yield from (text for row in table.rows for cell in row for text in (cell.text, cell.interval, cell.note))
    for figure in section.figures:
        yield from (figure.title, figure.caption, figure.alt, getattr(figure, "x_label", ""))
    for each in section.explanations:
        yield from (each.topic, each.term, each.text)
    for part in section.further:
        yield from texts_of(part)
