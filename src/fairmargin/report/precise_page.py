"""The page of audits to a precision: what is known, how little was measured for it, and why that can be trusted."""

import math
from collections.abc import Sequence
from typing import Any

from fairmargin.analyses.precision import PreciseGroup, PrecisionResult
from fairmargin.analyses.summary import by_sigma
from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.presentation import formatting
from fairmargin.report import explanations, figures, precise_words, words
from fairmargin.report.cells import decimals_of, length, p_cell, share
from fairmargin.report.document import Provenance, document, embed


def render_precise(results: Sequence[PrecisionResult], provenance: Provenance) -> str:
    """The page of one or several audits to a precision, see `document`.

    Parameters
    ----------
    results
        In the order of the page.
    provenance
        Where the numbers come from.

    >>> render_precise([], Provenance())
    Traceback (most recent call last):
    fairmargin.errors.InputError: A report needs at least one audit; given none.
    """
    if not results:
        raise InputError("A report needs at least one audit; given none.")
    content = {
        "answer": f"{words.answer(results)} {precise_words.extent(results)}",
        "sections": [_section(result, i) for i, result in enumerate(results, start=1)],
        "bounds": [
            (bound.words, explanations.BOUND_MEANINGS[bound])
            for bound in Bound
            if any(r.bound is bound for r in results)
        ],
        "trust": precise_words.trust(results),
        "methods": [precise_words.METHOD],
    }
    return document("precise.html", provenance, content)


def _section(result: PrecisionResult, position: int) -> dict[str, Any]:
    headline, *more = result.summary()
    decimals = decimals_of([row.robustness for row in result])
    rows = by_sigma(result.groups)
    return {
        "anchor": f"audit-{position}",
        "partition": formatting.plain(result.partition),
        "result": result,
        "asked": f"± {precise_words.points(result.precision)}",
        "about": result.about,
        "headline": headline,
        "more": more,
        "warnings": result.warnings(),
        "notes": result.remarks(),
        "work": precise_words.work(result),
        "rows": [_row(row, result, decimals) for row in rows],
        "sentences": [result.finding(row) for row in rows],
        "capped": math.isfinite(result.up_to),
        "intervals": embed(figures.precise_intervals(result)),
        "intervals_alt": f"Each group’s σ with its interval. {' '.join([headline, *more])}",
    }


def _row(row: PreciseGroup, result: PrecisionResult, decimals: int) -> dict[str, Any]:
    return {
        "group": formatting.plain(row.group),
        "verdict": row.verdict,
        "symbol": explanations.VERDICT_SYMBOLS.get(row.verdict, ""),
        "sigma": share(row.sigma, signed=True),
        "p": p_cell(row.p_adjusted),
        "robustness": length(row.robustness, decimals),
        "size": f"{row.size:,}",
        "cheap": f"{row.cheap_samples:,}",
        "dear": f"{row.reference_samples:,}",
        "plain": f"{row.plain_samples:,.0f}" if math.isfinite(row.plain_samples) else "–",
        "correlation": f"{row.correlation:.2f}" if math.isfinite(row.correlation) else "–",
        "met": row.met,
        "reached": precise_words.reached(row, result),
        "alone": share(row.sigma_alone, signed=True).interval,
    }
