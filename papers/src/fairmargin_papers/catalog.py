"""The papers that can be reproduced. To add one, write a folder with a `paper.py`, and one line here."""

from collections.abc import Mapping

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin_papers.farmur.paper import PAPER as FARMUR
from fairmargin_papers.ma.paper import PAPER as MA
from fairmargin_papers.nanda.paper import PAPER as NANDA
from fairmargin_papers.nanda2020.paper import PAPER as NANDA2020
from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.toy.paper import PAPER as TOY
from fairmargin_papers.tran.paper import PAPER as TRAN

PAPERS: Mapping[str, Paper] = {paper.name: paper for paper in (TOY, NANDA, NANDA2020, TRAN, MA, FARMUR)}


def paper_named(name: str) -> Paper:
    """Return a paper by its short name, or raise an error that lists the names.

    >>> paper_named("toy").title
    'Nanda’s toys'
    """
    if name not in PAPERS:
        raise InputError(f"There is no paper {name!r}. {suggest(name, PAPERS)}")
    return PAPERS[name]
