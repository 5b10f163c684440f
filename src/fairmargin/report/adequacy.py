"""What a page shows of attack adequacy: was the attack strong enough for a gap to be the model's?"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from fairmargin.analyses.adequacy import (
    NOT_SETTLED,
    NOTHING,
    NOTHING_TO_SETTLE,
    SETTLED,
    UNDECIDED,
    Adequacy,
    GroupAdequacy,
)
from fairmargin.analyses.alarms import MEANINGS, REASONS, THRESHOLDS, Alarm, Kind, consequence
from fairmargin.analyses.audit import AuditResult
from fairmargin.core.bound import Bound
from fairmargin.inference.estimate import TOO_FEW, Estimate
from fairmargin.presentation import formatting
from fairmargin.presentation.formatting import points
from fairmargin.report import figures

SYMBOLS = {SETTLED: "✓", NOT_SETTLED: "✗", UNDECIDED: "?", TOO_FEW: "?"}

NOT_CHECKED = (
    "Whether the attack was strong enough was not checked. Run the same command with --adequacy: what was measured is "
    "kept, and some samples of each group are measured again at other budgets."
)
ELSEWHERE = "The distances were measured elsewhere: whether the attack was strong enough must be checked there."
PLAINLY = (
    "Here it was checked whether the search for mistakes of the model was thorough enough, by searching again, longer "
    "and shorter, for some samples of each group. It matters because a search that works less well on one "
    "group makes that group look harder to fool than it is, and then a difference on this page says more about the "
    "search than about the model."
)
READING = (
    "An attack finds an upper bound: with more steps it may find something nearer. If it gains more in one group than "
    "in another, the gap between them is partly the attack’s. Therefore some samples of each group, chosen by their "
    "content, as if by lot, were measured again at other budgets. σ as audited is compared with σ of the best that all "
    "budgets found, each sample with itself. Settled: the interval of the change lies within the tolerance; not "
    "settled: outside; undecided: neither. A larger budget alone may end farther away, in another place; the best "
    "found so far cannot."
)


def blocks(sections: Sequence[tuple[AuditResult, str, Adequacy | None]], embed: Callable[[Any], Any]) -> dict[str, Any]:
    """What the template needs: one block for each audit that was checked, and a line for each kind that was not."""
    shown, lines = [], []
    for result, estimator, found in sections:
        name = estimator or found.estimator if found is not None else estimator
        if found is not None and found.verdict != NOTHING:
            shown.append(_block(result, name, found, embed))
        elif result.bound is not Bound.UPPER:
            lines.append((name, NOTHING_TO_SETTLE[result.bound]))
        else:
            lines.append((name, ELSEWHERE if estimator == "measured elsewhere" else NOT_CHECKED))
    return {
        "blocks": shown,
        "lines": list(dict.fromkeys(lines)),
        "plainly": PLAINLY,
        "reading": READING,
        "alarms": [
            (kind, f"{MEANINGS[kind][0].upper()}{MEANINGS[kind][1:]}. {consequence(kind)}", _limit(kind))
            for kind in THRESHOLDS
        ],
    }


def _limit(kind: Kind) -> str:
    above = "Raised by any sample" if THRESHOLDS[kind] == 0 else f"Raised above {formatting.percent(THRESHOLDS[kind])}"
    return f"{above}: {REASONS[kind]}."


def _block(result: AuditResult, estimator: str, found: Adequacy, embed: Callable[[Any], Any]) -> dict[str, Any]:
    kinds = list(dict.fromkeys(alarm.kind for row in found for alarm in row.alarms))
    headline = found.headline
    return {
        "partition": formatting.plain(result.partition),
        "estimator": estimator,
        "headline": headline,
        "alarms": found.alarm_sentences(),
        "audited": found.budgets[found.audited],
        "last": found.budgets[-1],
        "tolerance": points(found.tolerance, signed=False),
        "confidence": formatting.level_text(found.confidence),
        "capped": formatting.number(found.up_to) if math.isfinite(found.up_to) else "",
        "rows": [_row(row, found) for row in found],
        "sentences": [found.finding(row) for row in found],
        "kinds": kinds,
        "figure": embed(figures.budgets(found)),
        "alt": f"Each group’s mean distance against the attack’s budget. {headline}",
    }


def _row(row: GroupAdequacy, found: Adequacy) -> dict[str, Any]:
    return {
        "group": formatting.plain(row.group),
        "size": f"{row.size:,}",
        "verdict": row.verdict,
        "symbol": SYMBOLS.get(row.verdict, ""),
        "before": _percent(row.sigmas_alone[found.audited]),
        "after": _percent(row.sigmas[-1]),
        "change": _change(row.sigma_change, points),
        "mean_change": _change(row.mean_change, _percent),
        "raised": [alarm.kind for alarm in row.raised],
        "alarms": [_seen(alarm) for alarm in row.alarms],
    }


def _change(estimate: Estimate, show: Callable[[float], str]) -> tuple[str, str]:
    if not estimate.is_defined:
        return "undefined", estimate.reason
    return show(estimate.value), f"[{show(estimate.low)}, {show(estimate.high)}]"


def _seen(alarm: Alarm) -> tuple[str, str, str, bool]:
    if not alarm.share.is_defined:
        return alarm.kind, "–", alarm.share.reason, False
    interval = f"[{formatting.percent(alarm.share.low)}, {formatting.percent(alarm.share.high)}]"
    return alarm.kind, f"{alarm.hits:,} of {alarm.of:,}", interval, alarm.raised


def _percent(share: float) -> str:
    return "undefined" if math.isnan(share) else formatting.table_percent(share)
