"""The sections of a record, in the order in which console and report show them."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from fairmargin.presentation.section import Section
from fairmargin.study.record import About, RunRecord


def sections_of(record: RunRecord) -> Iterator[Section]:
    """Yield the section of every result of a run."""
    for stored in record.results:
        yield titled(record.result(stored), stored.about)


def titled(result: Any, about: About) -> Section:
    """Return the section of a result, whose title also names what was measured."""
    section: Section = result.section()
    what = ", ".join(filter(None, (about.estimator, about.model, about.data)))
    what += f", seed {about.seed}" if about.seed is not None else ""
    what += f", epoch {about.epoch}" if about.epoch else ""
    return replace(section, title=f"{section.title}, {what}".strip(", ")) if what else section
