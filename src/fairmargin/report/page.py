"""One self-contained HTML page: sentences, tables, figures, and how it all was measured."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairmargin.analyses.adequacy import Adequacy
from fairmargin.analyses.audit import AuditResult, GroupResult
from fairmargin.analyses.bracket import Bracket
from fairmargin.analyses.certified import Certified
from fairmargin.analyses.precision import PrecisionResult
from fairmargin.analyses.summary import by_sigma
from fairmargin.core.bound import Bound
from fairmargin.core.undefined import reason_of
from fairmargin.errors import InputError
from fairmargin.presentation import formatting
from fairmargin.report import explanations, figures, words
from fairmargin.report.adequacy import blocks
from fairmargin.report.brackets import blocks as brackets_shown
from fairmargin.report.brackets import certainty
from fairmargin.report.cells import Cell, decimals_of, length, p_cell, share
from fairmargin.report.document import Provenance as Provenance  # noqa: PLC0414 - known by this place
from fairmargin.report.document import document, embed
from fairmargin.report.document import json_in_html as json_in_html  # noqa: PLC0414
from fairmargin.report.guarantees import blocks as guarantees_shown
from fairmargin.report.matching import as_list, matched
from fairmargin.report.precise_page import render_precise
from fairmargin.report.strength import strength
from fairmargin.store.atomic import atomic_write_text


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One audit on a page: one partition, measured by one estimator, and whether that was strong enough if known."""

    result: AuditResult
    estimator: str = ""
    adequacy: Adequacy | None = None


def write_report(
    path: Path | str,
    results: AuditResult | Sequence[AuditResult] | PrecisionResult | Sequence[PrecisionResult],
    provenance: Provenance | None = None,
    adequacy: Adequacy | Sequence[Adequacy] = (),
    brackets: Bracket | Sequence[Bracket] = (),
    certified: Certified | Sequence[Certified] = (),
) -> Path:
    """Writes the page of one or several audits to a file, whole or not at all.

    Parameters
    ----------
    path
        Where to write, for instance "report.html".
    results
        What `audit` returned, or `audit_to_precision`: not both on one page.
    provenance
        Where the numbers come from; what you leave out the page leaves out.
    adequacy
        What `adequacy` returned for these audits; each goes to the audit of the same groups and distances.
    brackets
        What `bracket` returned for these groups.
    certified
        What `certify_groups` returned for these groups.
    """
    if _are_precise(results):
        for name, given in (("adequacy", adequacy), ("brackets", brackets), ("certified", certified)):
            if not isinstance(given, Sequence) or given:
                raise InputError(f"`{name}` goes with what `audit` returned; an audit to a precision has none.")
        precise = as_list(results, PrecisionResult, "results", "audit_to_precision")
        atomic_write_text(path, render_precise(precise, provenance or Provenance()))
        return Path(path)
    audits = as_list(results, AuditResult, "results", "audit")
    checked = matched(audits, as_list(adequacy, Adequacy, "adequacy", "adequacy"))
    sections = [Section(result, adequacy=own) for result, own in zip(audits, checked, strict=True)]
    enclosed = [(each, "a lower and an upper bound") for each in as_list(brackets, Bracket, "brackets", "bracket")]
    counted = [(each, "") for each in as_list(certified, Certified, "certified", "certify_groups")]
    atomic_write_text(path, render(sections, provenance or Provenance(), enclosed, counted))
    return Path(path)


def _are_precise(results: object) -> bool:
    """Whether the page is of audits to a precision; what is neither is refused with a sentence later."""
    first = next(iter(results), None) if isinstance(results, Sequence) else results
    return isinstance(first, PrecisionResult)


def render(
    sections: Sequence[Section],
    provenance: Provenance,
    brackets: Sequence[tuple[Bracket, str]] = (),
    certified: Sequence[tuple[Certified, str]] = (),
) -> str:
    """The page of one or several audits, see `document`.

    Parameters
    ----------
    sections
        The audits, in the order of the page.
    provenance
        Where the numbers come from.
    brackets
        What lower and upper bounds enclose together, each with the estimators that it lies between.
    certified
        What certificates that may be false guarantee, each with its estimator.

    >>> render([], Provenance())
    Traceback (most recent call last):
    fairmargin.errors.InputError: A report needs at least one audit; given none.
    """
    if not sections:
        raise InputError("A report needs at least one audit; given none.")
    results = [section.result for section in sections]
    checked = [section.adequacy for section in sections if section.adequacy]
    said = [words.answer(results), certainty([bracket for bracket, _ in brackets]), strength(checked)]
    several_norms = len({result.norm for result in results}) > 1
    content = {
        "answer": " ".join(filter(None, said)),
        "certain": brackets_shown(brackets, embed),
        "guaranteed": guarantees_shown(certified),
        "strength": blocks([(s.result, s.estimator, s.adequacy) for s in sections], embed),
        "sections": [_section(section, i, several_norms) for i, section in enumerate(sections, start=1)],
        "bounds": [
            (bound.words, explanations.BOUND_MEANINGS[bound])
            for bound in Bound
            if any(r.bound is bound for r in results)
        ],
        "methods": list(dict.fromkeys(result.method for result in results if result.method)),
    }
    return document("audit.html", provenance, content)


# Sections ------------------------------------------------------------------------------------------------------------


def _section(section: Section, position: int, several_norms: bool) -> dict[str, Any]:
    result = section.result
    headline, *more = result.summary()
    return {
        "anchor": f"audit-{position}",
        "partition": formatting.plain(result.partition),
        "estimator": section.estimator,
        "norm_matters": several_norms,
        "result": result,
        "headline": headline,
        "more": more,
        "notes": result.notes(),
        "rows": _rows(result),
        "sentences": [result.finding(row) for row in by_sigma(result.groups)],
        "shows_unreached": any(row.unreached > 0 for row in result),
        "shows_dropped": any(row.dropped > 0 for row in result),
        "overall": _overall(result),
        "capped": math.isfinite(result.up_to),
        "curves": embed(figures.curves(result)),
        "curves_alt": f"Curves: the share still classified correctly against the perturbation radius. {headline}",
        "bands": _bands(result),
        "intervals": embed(figures.sigma_intervals(result)),
        "intervals_alt": f"Each group’s σ with its interval. {' '.join([headline, *more])}",
    }


def _rows(result: AuditResult) -> list[dict[str, Any]]:
    distance = decimals_of([row.robustness for row in result] + [row.gap_to_rest for row in result])
    return [_row(row, distance, among_several=len(result.groups) > 2) for row in by_sigma(result.groups)]


def _row(row: GroupResult, decimals: int, *, among_several: bool) -> dict[str, Any]:
    reason = reason_of(row.p_adjusted)
    return {
        "group": formatting.plain(row.group),
        "size": f"{row.size:,}",
        "accuracy": share(row.accuracy, signed=False),
        "robustness": length(row.robustness, decimals),
        "sigma": share(row.sigma, signed=True, alone=row.sigma_alone if among_several else None),
        "gap": length(row.gap_to_rest, decimals, signed=True),
        "p": p_cell(row.p_adjusted),
        "one_reason": bool(reason) and reason == row.sigma.reason == row.gap_to_rest.reason,
        "unreached": formatting.percent(row.unreached),
        "dropped": formatting.percent(row.dropped),
        "verdict": row.verdict,
        "symbol": explanations.VERDICT_SYMBOLS.get(row.verdict, ""),
        "kind": row.verdict.replace(" ", "-"),
    }


def _overall(result: AuditResult) -> list[tuple[str, str, Cell, str]]:
    """Name, symbol, value and meaning of the numbers that speak of the partition as a whole."""
    overall = result.overall
    decimals = decimals_of([overall.robustness, overall.largest_gap, overall.worst_robustness])
    worst, gap = "The smallest mean distance of a group.", "From the most to the least robust group."
    if overall.largest_gap.is_defined:
        worst = f"The smallest mean distance of a group: {formatting.quoted(overall.worst_group)}."
        gap = f"From the most to the least robust group, less what chance adds (observed: {_observed_gap(result)})."
    return [
        (
            "Mean distance",
            "Rob(f)",
            length(overall.robustness, decimals),
            "Over the groups, each counting the same.",
        ),
        ("Worst group", "min Rob(P)", length(overall.worst_robustness, decimals), worst),
        (
            "Largest gap",
            "max − min",
            length(overall.largest_gap, decimals),
            gap,
        ),
        ("Variance", "V_f", length(overall.variance, decimals_of([overall.variance])), explanations.VARIANCE_READING),
        (
            "Relative variance",
            "V_f / Rob(f)²",
            length(overall.relative_variance, decimals_of([overall.relative_variance])),
            "Comparable between models. Less what chance alone adds, as V_f.",
        ),
        ("Accuracy", "", share(overall.accuracy, signed=False), f"Over all {overall.size:,} samples."),
    ]


def _observed_gap(result: AuditResult) -> str:
    means = [row.robustness.value for row in result]
    return formatting.number(max(means) - min(means))


def _bands(result: AuditResult) -> str:
    """What the caption says of the shaded bands."""
    shown = figures.banded(result)
    if len(shown) == len(result.groups):
        return "Shaded: confidence bands."
    if not shown:
        return "Confidence bands are too wide to be drawn."
    return f"Shaded: confidence bands of {formatting.listed(sorted(map(formatting.quoted, shown)))}."
