"""The measurements in benchmarks/measured.json, which is committed. The page is rendered from them."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from distances.facts import Fact
from distances.models import ROOT

MEASURED = ROOT / "benchmarks" / "measured.json"


@dataclass(frozen=True, slots=True)
class Point:
    """The facts of a contestant, with its wall time where that was measured.

    Parameters
    ----------
    pace
        Wall time in plain passes: the time of one forward and one backward pass of the plain model at that moment is 1.
    overhead
        Wall time divided by the time of its own passes alone.
    timed
        The date of the timing, "" where there is none.
    """

    fact: Fact
    pace: float | None = None
    overhead: float | None = None
    timed: str = ""


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything that was measured.

    Parameters
    ----------
    runs
        By date, the machine and the versions.
    copies
        By model, a sentence on the copy that our estimators searched with.
    points
        One per contestant and model, at most.
    """

    runs: Mapping[str, str]
    copies: Mapping[str, str]
    points: tuple[Point, ...]

    def on(self, model: str, norm: str = "l2") -> list[Point]:
        """The points of one model in one norm."""
        return [point for point in self.points if (point.fact.model, point.fact.norm) == (model, norm)]

    def with_fact(self, fact: Fact) -> "Measured":
        """Replace what was known of a contestant; its times stay only if its version is the same."""
        old = next((p for p in self.points if _same(p, fact.model, fact.key)), None)
        point = replace(old, fact=fact) if old and old.fact.version == fact.version else Point(fact)
        rest = tuple(p for p in self.points if p is not old)
        return replace(self, points=(*rest, point))

    def with_times(self, model: str, key: str, pace: float, overhead: float, day: str) -> "Measured":
        """Set the times of a contestant."""
        return replace(
            self,
            points=tuple(
                replace(p, pace=pace, overhead=overhead, timed=day) if _same(p, model, key) else p for p in self.points
            ),
        )


def _same(point: Point, model: str, key: str) -> bool:
    return (point.fact.model, point.fact.key) == (model, key)


def read(path: Path = MEASURED) -> Measured:
    """The stored measurements; nothing if there is no such file."""
    if not path.is_file():
        return Measured({}, {}, ())
    content = json.loads(path.read_text(encoding="utf-8"))
    return Measured(content["runs"], content["copies"], tuple(_point(row) for row in content["rows"]))


def write(measured: Measured, path: Path = MEASURED) -> None:
    """Store the measurements, one line per contestant so that a diff shows what was measured anew."""
    order = ("model", "norm", "library", "name", "steps")
    rows = sorted(map(_row, measured.points), key=lambda row: [row[name] for name in order])
    lines = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    parts = {"runs": measured.runs, "copies": measured.copies}
    head = json.dumps({name: dict(sorted(part.items())) for name, part in parts.items()}, indent=1, ensure_ascii=False)
    path.write_text(head[:-2] + ',\n "rows": [\n' + lines + "\n ]\n}\n", encoding="utf-8")


def _row(point: Point) -> dict[str, Any]:
    return asdict(point.fact) | {"pace": point.pace, "overhead": point.overhead, "timed": point.timed}


def _point(row: Mapping[str, Any]) -> Point:
    names = {field.name for field in fields(Fact)}
    fact = Fact(**{name: value for name, value in row.items() if name in names})
    return Point(fact, **{name: value for name, value in row.items() if name not in names})
