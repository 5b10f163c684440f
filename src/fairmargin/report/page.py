"""One self-contained HTML page: sentences, tables, figures, and how it all was measured."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import resources
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairmargin.core.bound import Bound
from fairmargin.errors import InputError
from fairmargin.metrics.adequacy import Adequacy
from fairmargin.metrics.bracketed import Bracket
from fairmargin.metrics.results import VERDICTS, AuditResult, Estimate, GroupResult
from fairmargin.metrics.undefined import reason_of
from fairmargin.report import explanations, figures, spelling, words
from fairmargin.report.adequacy import blocks
from fairmargin.report.brackets import blocks as brackets_shown
from fairmargin.report.brackets import certainty
from fairmargin.report.matching import as_list, matched
from fairmargin.report.strength import strength
from fairmargin.store.atomic import atomic_write_text
from fairmargin.version import __version__


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where a page's numbers come from, so that someone else can make them again.

    Parameters
    ----------
    title
        The page's title.
    command
        What was run.
    created
        When, as an ISO timestamp.
    model, data, estimator
        What was measured, on what, and how, in a few words each.
    seed
        The seed of everything random.
    versions
        Package names and their versions.
    notes
        Whatever else a reader should know.
    """

    title: str = "Robustness audit"
    command: str = ""
    created: str = ""
    model: str = ""
    data: str = ""
    estimator: str = ""
    seed: int | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """One audit on a page: one partition, measured by one estimator, and whether that was strong enough if known."""

    result: AuditResult
    estimator: str = ""
    adequacy: Adequacy | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """A value as a table shows it: text, interval, and why something is missing."""

    text: str
    interval: str = ""
    reason: str = ""


def write_report(
    path: Path | str,
    results: AuditResult | Sequence[AuditResult],
    provenance: Provenance | None = None,
    adequacy: Adequacy | Sequence[Adequacy] = (),
    brackets: Bracket | Sequence[Bracket] = (),
) -> Path:
    """Writes the page of one or several audits to a file, whole or not at all.

    Parameters
    ----------
    path
        Where to write, for instance "report.html".
    results
        What `audit` returned.
    provenance
        Where the numbers come from; what you leave out the page leaves out.
    adequacy
        What `adequacy` returned for these audits; each goes to the audit of the same groups and distances.
    brackets
        What `bracket` returned for these groups.
    """
    audits = as_list(results, AuditResult, "results", "audit")
    checked = matched(audits, as_list(adequacy, Adequacy, "adequacy", "adequacy"))
    sections = [Section(result, adequacy=own) for result, own in zip(audits, checked, strict=True)]
    enclosed = [(each, "a lower and an upper bound") for each in as_list(brackets, Bracket, "brackets", "bracket")]
    atomic_write_text(path, render(sections, provenance or Provenance(), enclosed))
    return Path(path)


def render(sections: Sequence[Section], provenance: Provenance, brackets: Sequence[tuple[Bracket, str]] = ()) -> str:
    """A page that needs nothing but itself: no server, no network, no other file.

    Every text that comes from data is escaped, and the page's policy lets no script run but its own two, by hash.

    Parameters
    ----------
    sections
        The audits, in the order of the page.
    provenance
        Where the numbers come from.
    brackets
        What lower and upper bounds enclose together, each with the estimators that it lies between.

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
    plotly, script = _inline(get_plotlyjs()), _inline(_asset("page.js"))
    return _template().render(
        provenance=provenance,
        answer=" ".join(filter(None, said)),
        certain=brackets_shown(brackets, _embed),
        strength=blocks([(s.result, s.estimator, s.adequacy) for s in sections], _embed),
        sections=[_section(section, i, several_norms) for i, section in enumerate(sections, start=1)],
        bounds=[
            (bound.words, explanations.BOUND_MEANINGS[bound])
            for bound in Bound
            if any(r.bound is bound for r in results)
        ],
        verdicts=[(v, explanations.VERDICT_MEANINGS[v]) for v in VERDICTS],
        methods=list(dict.fromkeys(result.method for result in results if result.method)),
        words=words,
        spelling=spelling,
        explanations=explanations,
        version=__version__,
        policy=f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; "
        "img-src data: blob:; base-uri 'none'; form-action 'none'",
        style=Markup(_asset("page.css")),
        script=Markup(script),
        plotly=Markup(plotly),
    )


# Sections ------------------------------------------------------------------------------------------------------------


def _section(section: Section, position: int, several_norms: bool) -> dict[str, Any]:
    result = section.result
    headline, *more = words.findings(result)
    return {
        "anchor": f"audit-{position}",
        "partition": spelling.plain(result.partition),
        "estimator": section.estimator,
        "norm_matters": several_norms,
        "result": result,
        "headline": headline,
        "more": more,
        "notes": words.notes(result),
        "rows": _rows(result),
        "sentences": [row.finding for row in words.by_sigma(result)],
        "shows_unreached": any(row.unreached > 0 for row in result),
        "shows_dropped": any(row.dropped > 0 for row in result),
        "overall": _overall(result),
        "capped": math.isfinite(result.up_to),
        "curves": _embed(figures.curves(result)),
        "curves_alt": f"Curves: the share still classified correctly against the perturbation radius. {headline}",
        "bands": _bands(result),
        "intervals": _embed(figures.sigma_intervals(result)),
        "intervals_alt": f"Each group’s σ with its interval. {' '.join([headline, *more])}",
    }


def _rows(result: AuditResult) -> list[dict[str, Any]]:
    distance = _decimals([row.robustness for row in result] + [row.gap_to_rest for row in result])
    return [_row(row, distance) for row in words.by_sigma(result)]


def _row(row: GroupResult, decimals: int) -> dict[str, Any]:
    reason = reason_of(row.p_adjusted)
    p = (
        Cell("undefined", reason=reason)
        if math.isnan(row.p_adjusted)
        else Cell(_bare(spelling.p_value(row.p_adjusted)))
    )
    return {
        "group": spelling.plain(row.group),
        "size": f"{row.size:,}",
        "accuracy": _share(row.accuracy, signed=False),
        "robustness": _length(row.robustness, decimals),
        "sigma": _share(row.sigma, signed=True),
        "gap": _length(row.gap_to_rest, decimals, signed=True),
        "p": p,
        "one_reason": bool(reason) and reason == row.sigma.reason == row.gap_to_rest.reason,
        "unreached": spelling.percent(row.unreached),
        "dropped": spelling.percent(row.dropped),
        "verdict": row.verdict,
        "symbol": explanations.VERDICT_SYMBOLS.get(row.verdict, ""),
        "kind": row.verdict.replace(" ", "-"),
    }


def _overall(result: AuditResult) -> list[tuple[str, str, Cell, str]]:
    """Name, symbol, value and meaning of the numbers that speak of the partition as a whole."""
    overall = result.overall
    decimals = _decimals([overall.robustness, overall.largest_gap, overall.worst_robustness])
    worst = f"The smallest mean distance of a group: {spelling.quoted(overall.worst_group)}."
    return [
        (
            "Mean distance",
            "Rob(f)",
            _length(overall.robustness, decimals),
            "Over the groups, each counting the same.",
        ),
        ("Worst group", "min Rob(P)", _length(overall.worst_robustness, decimals), worst),
        (
            "Largest gap",
            "max − min",
            _length(overall.largest_gap, decimals),
            f"From the most to the least robust group, less what chance adds (observed: {_observed_gap(result)}).",
        ),
        ("Variance", "V_f", _length(overall.variance, _decimals([overall.variance])), explanations.VARIANCE_READING),
        (
            "Relative variance",
            "V_f / Rob(f)²",
            _length(overall.relative_variance, _decimals([overall.relative_variance])),
            "Comparable between models. Less what chance alone adds, as V_f.",
        ),
        ("Accuracy", "", _share(overall.accuracy, signed=False), f"Over all {overall.size:,} samples."),
    ]


# Numbers of a table: one column, one number of decimals, so that they align ------------------------------------------


def _observed_gap(result: AuditResult) -> str:
    means = [row.robustness.value for row in result]
    return spelling.number(max(means) - min(means))


def _decimals(estimates: Sequence[Estimate]) -> int:
    sizes = [abs(v) for e in estimates for v in (e.value, e.high) if math.isfinite(v) and v != 0]
    return min(max(2 - math.floor(math.log10(max(sizes) / 3)), 0), 8) if sizes else 2  # three or four digits


def _length(estimate: Estimate, decimals: int, *, signed: bool = False) -> Cell:
    return _cell(estimate, lambda value: _fixed(value, decimals, signed=signed))


def _share(estimate: Estimate, *, signed: bool) -> Cell:
    cell = _cell(estimate, lambda value: _fixed(100 * value, 1, signed=signed))
    return Cell(f"{cell.text} %" if estimate.is_defined else cell.text, cell.interval, cell.reason)


def _cell(estimate: Estimate, show: Any) -> Cell:
    if not estimate.is_defined:
        return Cell("undefined", reason=estimate.reason or reason_of(estimate.value))
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return Cell(show(estimate.value), reason=estimate.reason or "no interval")
    return Cell(show(estimate.value), f"[{show(estimate.low)}, {show(estimate.high)}]", estimate.reason)


def _fixed(value: float, decimals: int, *, signed: bool) -> str:
    if math.isinf(value):
        return "−∞" if value < 0 else "∞"
    text = f"{abs(value):,.{decimals}f}"
    if not any(digit in text for digit in "123456789"):
        return text
    return f"−{text}" if value < 0 else f"+{text}" if signed else text


def _bare(p: str) -> str:
    return p.removeprefix("p ").removeprefix("= ")


# Embedding -----------------------------------------------------------------------------------------------------------


def _embed(figure: go.Figure) -> Markup:
    return Markup(json_in_html(figure.to_json()))


def _bands(result: AuditResult) -> str:
    """What the caption says of the shaded bands."""
    shown = figures.banded(result)
    if len(shown) == len(result.groups):
        return "Shaded: confidence bands."
    if not shown:
        return "Confidence bands are too wide to be drawn."
    return f"Shaded: confidence bands of {spelling.listed(sorted(map(spelling.quoted, shown)))}."


def json_in_html(text: str) -> str:
    """JSON that cannot leave its script element, whatever its strings say.

    >>> json_in_html('"</script>"')
    '"\\\\u003c/script\\\\u003e"'
    """
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _inline(script: str) -> str:
    """A script that an HTML parser reads to its end; both escapes mean the same to JavaScript inside a string."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return resources.files("fairmargin.report").joinpath(name).read_text(encoding="utf-8")


def _typeset(text: str) -> str:
    """Numbers do not part from their units at the end of a line."""
    return text.replace(" %", "\u00a0%").replace("p < ", "p\u00a0<\u00a0").replace("p = ", "p\u00a0=\u00a0")


@cache
def _template() -> Template:
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["typeset"] = _typeset
    return environment.from_string(_asset("template.html"))
