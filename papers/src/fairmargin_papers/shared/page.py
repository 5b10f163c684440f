"""The page of a paper in Markdown and JSON: claims with results and verdicts, remarks, tables and figures."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fairmargin.store.atomic import atomic_write_text, cannot_write
from fairmargin_papers.shared.claims import Claim, Verdict
from fairmargin_papers.shared.paper import Paper, Picture, Scale, Table
from fairmargin_papers.shared.pictures import write_picture

_VERDICTS: tuple[Verdict, ...] = ("holds", "does not hold", "undecided", "not tested")
SMOKE = (
    "This scale shows that everything runs, on small or embedded data and with networks that train in seconds. "
    "Verdicts on networks are no evidence for or against the paper."
)
_TESTABLE = {"closely": "", "direction": "in direction only", "not here": "not here"}


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Content of a page, everything in the order in which it is shown."""

    paper: Paper
    scale: Scale
    claims: Sequence[Claim]
    pictures: Sequence[Picture]
    notes: Sequence[str]  # sentences on what was run
    versions: dict[str, str]  # versions of the software on which the numbers depend
    rooted: bool = False  # whether datasets were read from a folder that was given
    tables: Sequence[Table] = ()

    @property
    def command(self) -> str:
        """Command that writes the page, with DATA in place of the path of the folder of the datasets."""
        root = " --root DATA" if self.rooted else ""
        return f"fairmargin reproduce {self.paper.name} --scale {self.scale}{root}"


def write_page(shown: Shown, out: Path) -> Path:
    """Write `out/PAPER.md`, `out/PAPER/claims.json` and the figures beside it, and return the path of the page.

    The files contain no date and no path of this machine, so that equal numbers give equal bytes.
    """
    folder = out / shown.paper.name
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error
    for picture in shown.pictures:
        write_picture(folder / f"{picture.name}.svg", picture.figure)
    atomic_write_text(folder / "claims.json", json_text(shown))
    page = out / f"{shown.paper.name}.md"
    atomic_write_text(page, markdown(shown))
    return page


def read_page(paper: Paper, out: Path) -> dict[str, Any] | None:
    """Return what an earlier run wrote there, as `json_text` gave it; None if nothing can be read."""
    try:
        found = json.loads((out / paper.name / "claims.json").read_text(encoding="utf-8"))
        return found if {"scale", "claims"} <= found.keys() else None
    except (OSError, ValueError, AttributeError):
        return None


def markdown(shown: Shown) -> str:
    """Return the page as Markdown, with relative links to the pictures."""
    paper = shown.paper
    lines = [
        f"# {paper.title}",
        "",
        paper.reference,
        "",
        f"Written by `{shown.command}`. "
        + ", ".join(f"{name} {number}" for name, number in sorted(shown.versions.items()))
        + ".",
        "",
        _summary(shown.claims),
        *(["", SMOKE] if shown.scale == "smoke" else []),
        "",
        "| | claim | printed | ours | verdict |",
        "|---|---|---|---|---|",
    ]
    lines += [_row(claim) for claim in shown.claims]
    remarks = [claim for claim in shown.claims if claim.remark and claim.verdict != "not tested"]
    if remarks:
        lines += ["", "## Remarks", ""]
        lines += [f"- **{', '.join(names)}** {remark}" for remark, names in _by_remark(remarks).items()]
    if shown.notes:
        lines += ["", "## What was run", ""]
        lines += [f"- {note}" for note in shown.notes]
    if shown.tables:
        lines += ["", "## Tables"]
        for table in shown.tables:
            lines += ["", table.caption, "", _cells(table.columns), "|" + "---|" * len(table.columns)]
            lines += [_cells(row) for row in table.rows]
    if shown.pictures:
        lines += ["", "## Figures", ""]
        for picture in shown.pictures:
            lines += [f"![{_one_line(picture.caption)}]({paper.name}/{picture.name}.svg)", "", picture.caption, ""]
    return "\n".join(lines).rstrip() + "\n"


def json_text(shown: Shown) -> str:
    """Return the content of the page as JSON; infinite limits are written as text, because JSON has none."""
    content = {
        "paper": shown.paper.name,
        "scale": shown.scale,
        "command": shown.command,
        "versions": shown.versions,
        "claims": [claim_as_json(claim) for claim in shown.claims],
        "notes": list(shown.notes),
        "tables": [asdict(table) for table in shown.tables],
        "figures": [
            {"file": f"{shown.paper.name}/{picture.name}.svg", "caption": picture.caption} for picture in shown.pictures
        ],
    }
    return json.dumps(content, ensure_ascii=False, allow_nan=False, indent=2, sort_keys=True) + "\n"


def claim_as_json(claim: Claim) -> dict[str, Any]:
    """Return one row for JSON, with its name."""
    row = asdict(claim)
    if claim.interval is not None:
        row["interval"] = [limit if abs(limit) < float("inf") else str(limit) for limit in claim.interval]
    return row | {"name": claim.name}


def counts(claims: Sequence[Claim]) -> dict[Verdict, int]:
    """Return the number of rows with each verdict."""
    return {verdict: sum(claim.verdict == verdict for claim in claims) for verdict in _VERDICTS}


def _summary(claims: Sequence[Claim]) -> str:
    words = dict(zip(_VERDICTS, ("hold", "do not hold", "undecided", "not tested"), strict=True))
    said = ", ".join(f"{count} {words[verdict]}" for verdict, count in counts(claims).items() if count)
    return f"{len(claims)} rows: {said}."


def _by_remark(claims: Sequence[Claim]) -> dict[str, list[str]]:
    """Group the rows by remark, so that a remark on several rows is printed once."""
    found: dict[str, list[str]] = {}
    for claim in claims:
        found.setdefault(claim.remark, []).append(claim.name)
    return found


def _row(claim: Claim) -> str:
    ours = claim.ours
    if claim.interval is not None:
        # A result that is compared with chance is a share, which is shown in per cent.
        low, high = (number(limit) if claim.chance is None else f"{limit:.1%}" for limit in claim.interval)
        ours += f" [{low}, {high}]"
    if claim.chance is not None:
        ours += f" (by chance {claim.chance:.1%})"
    verdict = f"not tested ({claim.remark})" if claim.verdict == "not tested" else f"**{claim.verdict}**"
    testable = _TESTABLE[claim.testable]
    if testable and claim.verdict in ("holds", "does not hold"):
        verdict += f", {testable}"
    return _cells((claim.name, claim.text, claim.printed or "–", ours or "–", verdict))


def _cells(cells: Sequence[str]) -> str:
    """Return a line of a Markdown table."""
    return "| " + " | ".join(_one_line(cell).replace("|", "\\|") for cell in cells) + " |"


def number(value: float) -> str:
    """Return a number with three digits and a minus sign.

    >>> number(-0.12345), number(1234.5)
    ('−0.123', '1,234')
    """
    text = f"{value:,.0f}" if 1000 <= abs(value) < float("inf") else f"{value:.3g}"
    return text.replace("-", "−").replace("inf", "∞")


def _one_line(text: str) -> str:
    return " ".join(text.split())
