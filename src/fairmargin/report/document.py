"""A self-contained HTML page: template, styles, scripts and the policy that lets no other script run."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from importlib import resources
from typing import Any

import plotly.graph_objects as go
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from fairmargin.errors import harmless_json, visible
from fairmargin.presentation.section import BAD, GOOD, LESS, MISSING, MORE, SAME, UNSURE, Mark
from fairmargin.version import __version__

SYMBOLS: dict[Mark, str] = {
    LESS: "▼",
    MORE: "▲",
    SAME: "≈",
    UNSURE: "?",
    MISSING: "✕",
    GOOD: "✓",
    BAD: "✗",
    "": "",
}
"""Symbols of marks, so that a verdict does not depend on its colour alone."""

ETHICS = (
    "This page shows whom an attacker would reach first. That helps whoever protects people, and whoever harms them: "
    "share it with that in mind.",
    "Groups are the dataset’s coding, not people’s own words. To predict age, race or gender from a face is itself a "
    "flawed task; such datasets serve here to test the method.",
    "What to do about a difference belongs with the people whom it affects. A tension between fairness and robustness "
    "is no reason to build a less fair or a less safe model.",
)


@dataclass(frozen=True, slots=True)
class PageDetails:
    """What a page says of its origin: title, command, model, data and versions, so that others can repeat the run.

    Parameters
    ----------
    title
        The page's title.
    command
        Command line of the run.
    created
        Date and time as an ISO timestamp.
    model, data, estimator
        Short descriptions of the model, the samples and the estimator.
    seed
        The seed of everything random.
    versions
        Package names and their versions.
    notes
        Other sentences for the reader.
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


def document(provenance: PageDetails, content: Mapping[str, Any]) -> str:
    """Return a self-contained page, which needs no server, no network access and no other file.

    Every text that comes from data is escaped. The content security policy of the page allows only its own two scripts,
    which are identified by their hashes.

    Parameters
    ----------
    provenance
        Where the numbers come from.
    content
        Other variables of the template.
    """
    plotly, script = _inline(get_plotlyjs()), _inline(_asset("page.js"))
    return (
        _environment()
        .get_template("page.html")
        .render(
            content,
            provenance=provenance,
            symbols=SYMBOLS,
            ethics=ETHICS,
            version=__version__,
            policy=f"default-src 'none'; script-src {_hash(plotly)} {_hash(script)}; style-src 'unsafe-inline'; "
            "img-src data: blob:; base-uri 'none'; form-action 'none'",
            style=Markup(_asset("page.css")),
            script=Markup(script),
            plotly=Markup(plotly),
        )
    )


def embed(figure: go.Figure) -> Markup:
    """Return a figure as JSON that can be placed inside a script element."""
    return Markup(json_in_html(figure.to_json()))


def json_in_html(text: str) -> str:
    """Escape JSON so that none of its strings can end the script element that holds it, or control a terminal.

    >>> json_in_html('"</script>"')
    '"\\\\u003c/script\\\\u003e"'
    """
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return harmless_json(text)


def _inline(script: str) -> str:
    """Escape what would end a script element early in HTML; the escapes do not change strings in JavaScript."""
    return script.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def _hash(script: str) -> str:
    return f"'sha256-{base64.b64encode(sha256(script.encode()).digest()).decode()}'"


def _asset(name: str) -> str:
    return resources.files("fairmargin.report").joinpath(name).read_text(encoding="utf-8")


def _typeset(text: str) -> str:
    """Keep numbers and their units and signs on one line."""
    text = text.replace(" %", "\u00a0%").replace("−$", "−\u2060$")
    return text.replace("p < ", "p\u00a0<\u00a0").replace("p = ", "p\u00a0=\u00a0")


def _safe(value: Any) -> Any:
    """Show control characters and direction overrides in a text that comes from data as escapes."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(visible, value.split("\n")))


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_asset),
        finalize=_safe,
    )
    environment.filters["typeset"] = _typeset
    return environment
