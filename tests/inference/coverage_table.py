"""Write the coverage of every printed interval to docs/inference.md: `make test-slow`.

`python -m tests.inference.coverage_table [AUDITS]` simulates what is not kept (`kept`) and writes the tables.
"""

import json
import sys
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy import stats

from tests.inference import censored_scenarios, compare_scenarios, measure_scenarios, precision_scenarios
from tests.inference.coverage import ALARM, RAW_ALARM, Count, Counts, coverage, false_alarms
from tests.inference.kept import ROOT, file_of, kept
from tests.inference.real_distances import REAL, REAL_EQUAL, REAL_EQUAL_MEANS, WITHOUT, is_shared
from tests.inference.scenarios import EQUAL, EQUAL_MEANS, SCENARIOS, Scenario

AUDITS, BLOCK = 2_000, 100
LEAST, MOST_ALARMS, MOST_ALARMS_OTHER_SHAPE = 0.93, 0.06, 0.07
SURE = 0.99
QUANTITIES = (
    "σ, one group",
    "σ",
    "σ up to a radius",
    "gap",
    "Rob(P), one group",
    "Rob(f)",
    "worst group",
    "V_f",
    "V_f/Rob(f)²",
    "max − min",
    "change of the mean",
    "change of σ",
)
# Searches that failed have tables of their own.

PAGE = ROOT / "docs" / "inference.md"
PLACES = (
    "coverage",
    "medians and parts of σ",
    "notes on the largest distances",
    "searches that failed",
    "searches that failed, with a difference",
    "searches that failed, without a difference",
    "comparisons without a change",
    "comparisons",
    "precision with far samples",
    "precision",
)


@dataclass(frozen=True)
class Row:
    """A scenario that is simulated; with `most_alarms`, false alarms are counted instead of coverage."""

    title: str
    scenario: Scenario
    most_alarms: float | None = None

    def counts(self, audits: int) -> Counts:
        """Return the counts of the first audits, simulating the blocks that are missing."""
        found = [self._block(first) for first in range(0, audits, BLOCK)]
        return {name: sum((part[name] for part in found[1:]), found[0][name]) for name in found[0]}

    def done(self) -> int:
        """Return the number of audits that are kept."""
        first = 0
        while file_of(self._name(first), ".json").is_file():
            first += BLOCK
        return first

    def _block(self, first: int) -> Counts:
        def simulate() -> str:
            found = (coverage if self.most_alarms is None else false_alarms)(self.scenario, range(first, first + BLOCK))
            return json.dumps({name: [count.given.tolist(), count.held.tolist()] for name, count in found.items()})

        stored = json.loads(kept(self._name(first), simulate, ".json"))
        return {name: Count(np.array(given), np.array(held)) for name, (given, held) in stored.items()}

    def _name(self, first: int) -> str:
        return f"{'coverage' if self.most_alarms is None else 'alarms'}: {self.title} {first}"


@cache
def rows() -> tuple[Row, ...]:
    """Return all scenarios; those with real distances only with ../shared."""
    kinds: list[tuple[dict[str, Scenario], float | None]] = [
        (SCENARIOS, None),
        (EQUAL, MOST_ALARMS),
        (EQUAL_MEANS, MOST_ALARMS_OTHER_SHAPE),
    ]
    if is_shared():
        real = (REAL, REAL_EQUAL, REAL_EQUAL_MEANS)
        kinds = [(some | more, most) for (some, most), more in zip(kinds, real, strict=True)]
    return tuple(Row(title, scenario, most) for some, most in kinds for title, scenario in some.items())


def below(counts: Counts) -> dict[str, str]:
    """Return the quantities whose coverage is below 93 % even at its 99 % upper limit, with what was counted."""
    found = {}
    for name, count in counts.items():
        level = 1 - (1 - SURE) / len(count.held)  # for all groups at once
        highest = stats.beta.ppf(level, count.held + 1, np.maximum(count.given - count.held, 1e-9))
        lowest = int(count.shares.argmin())
        if (np.where(count.held < count.given, highest, 1.0) < LEAST).any():
            found[name] = f"{count.shares[lowest]:.1%} of {count.given[lowest]:,.0f}"
    return found


def has_too_many_alarms(counts: Counts, most: float) -> bool:
    """Return whether the share of audits with a false alarm exceeds a limit even at its 99 % lower limit."""
    (given,), (held,) = counts[ALARM].given, counts[ALARM].held
    return bool(held > 0 and stats.beta.ppf(1 - SURE, held, given - held + 1) > most)


def tables(audits: int) -> str:
    """Return the tables of all audits that are kept, up to a number."""
    lines = [f"| scenario | audits | {' | '.join(QUANTITIES)} |", "|---" * (2 + len(QUANTITIES)) + "|"]
    found = [(row, min(row.done(), audits)) for row in rows()]
    too_low, alarms = [], []
    for row, done in found:
        if not done:
            continue
        counts = row.counts(done)
        if row.most_alarms is None:
            failed = below(counts)
            cells = [_cell(counts[name], name in failed) if name in counts else "" for name in QUANTITIES]
            lines.append(f"| {row.title} | {done:,} | {' | '.join(cells)} |")
            too_low += [f"{name} in “{row.title}”: {text}" for name, text in failed.items()]
        else:
            raw = counts[RAW_ALARM].shares.max()
            cells = [f"{counts[ALARM].shares[0]:.1%}", f"{row.most_alarms:.0%}", f"{raw:.1%}"]
            alarms.append(f"| {row.title} | {done:,} | {' | '.join(cells)} |")
    lines += ["", "Below 93 %, also at the 99 % upper limit of the figure: " + ("; ".join(too_low) or "nothing") + "."]
    lines += ["", "| no difference of means | audits | any corrected p < 0.05 | limit | worst single raw p < 0.05 |"]
    lines += ["|---|---|---|---|---|", *alarms]
    if not is_shared():
        lines += ["", f"Scenarios with the distances of Adult and of ResNet-20 were skipped: this {WITHOUT}."]
    return "\n".join(lines)


def _cell(count: Count, failed: bool) -> str:
    low, high = f"{count.shares.min():.1%}", f"{count.shares.max():.1%}"
    text = low if low == high else f"{low} to {high}"
    return f"**{text}**" if failed else text


def ends(place: str) -> tuple[str, str]:
    """Return the comments between which a table is written."""
    return f"<!-- table of {place}, written by `make test-slow` -->", f"<!-- end of the table of {place} -->"


def write(place: str, text: str) -> None:
    """Replace a table in docs/inference.md."""
    page, (begin, end) = PAGE.read_text(encoding="utf-8"), ends(place)
    before, rest = page.split(begin)
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.split(end)[1]}", encoding="utf-8")


def main() -> None:
    audits = int(sys.argv[1]) if len(sys.argv) > 1 else AUDITS
    for first in range(0, audits, BLOCK):  # all scenarios advance together, so that an early end leaves a whole table
        for row in rows():
            if row.done() <= first:
                row.counts(first + BLOCK)
        sys.stderr.write(f"{first + BLOCK:,} of {audits:,} audits per scenario\n")
        write("coverage", tables(audits))
    few = max(audits // 20, 1)
    others = (
        measure_scenarios.table_rows(audits, kept),
        measure_scenarios.note_rows(few, kept),
        censored_scenarios.coverage_rows(audits, kept),
        censored_scenarios.power_rows(audits, kept),
        censored_scenarios.alarm_rows(audits, kept),
        compare_scenarios.alarm_rows(audits, kept),
        compare_scenarios.power_rows(audits, kept),
        precision_scenarios.table_rows(precision_scenarios.FAR, audits, kept),
        precision_scenarios.table_rows(precision_scenarios.ORDINARY, audits, kept),
    )
    for place, lines in zip(PLACES[1:], others, strict=True):
        write(place, "\n".join([f"{few if 'notes' in place else audits:,} per row:", "", *lines]))
        sys.stderr.write(f"{place}\n")


if __name__ == "__main__":
    main()
