"""Sections as HTML for a notebook: sentences and tables, every text escaped."""

from html import escape

from fairmargin.errors import visible
from fairmargin.presentation.section import Cell, Section, Table


def section_html(section: Section) -> str:
    """Return the heading, sentences, notes and tables of a section, without the parts that the report collapses.

    >>> section_html(Section("By <sex>", answer="F & M differ."))
    '<h3>By &lt;sex&gt;</h3><p>F &amp; M differ.</p>'
    """
    texts = (section.about, section.answer, *section.sentences, *section.cautions, *section.notes)
    sentences = "".join(f"<p>{_text(sentence)}</p>" for sentence in texts if sentence)
    return f"<h3>{_text(section.title)}</h3>{sentences}{''.join(map(_table, section.tables))}"


def _table(table: Table) -> str:
    head = "".join(f"<th>{_lines(column.name, column.detail)}</th>" for column in table.columns)
    rows = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    caption = f"<p>{_text(table.caption)}</p>" if table.caption else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{caption}"


def _cell(cell: Cell) -> str:
    return f"<td>{_lines(cell.text, cell.interval, cell.note)}</td>"


def _lines(*texts: str) -> str:
    return "<br>".join(_text(text) for text in texts if text)


def _text(text: str) -> str:
    return escape(visible(text))
