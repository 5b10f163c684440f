"""The papers that can be run again. A further experiment of one is a `Part` in a file of its own and one word here."""

from collections.abc import Mapping

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin.studies.papers import (
    adverm_networks,
    farmur_networks,
    indicator,
    linear_distances,
    ma_networks,
    ma_theory,
    nanda_networks,
    toy,
    tran_networks,
    tran_theory,
)
from fairmargin.studies.papers.paper import Paper
from fairmargin.studies.papers.printed_farmur import FARMUR
from fairmargin.studies.papers.printed_ma import MA
from fairmargin.studies.papers.printed_nanda import NANDA_2020, NANDA_2021
from fairmargin.studies.papers.printed_tran import TRAN

_NANDA_2021 = (
    "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating Robustness "
    "Disparity in Deep Learning”, FAccT 2021."
)
_ADIENCE = "not here: only a part of Adience is at hand"
_WIDE = "not here: WRN-32-10 is too large for these machines, and its printed columns repeat each other"

PAPERS: Mapping[str, Paper] = {
    paper.name: paper
    for paper in (
        Paper("toy", "Nanda’s toys", _NANDA_2021, NANDA_2021[:2], (toy.PART,), {}),
        Paper(
            "nanda",
            "Fairness through robustness (2021)",
            _NANDA_2021,
            NANDA_2021,
            (toy.PART, nanda_networks.PART),
            {},
        ),
        Paper(
            "nanda2020",
            "Fairness through robustness (2020, AdvERM)",
            "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating "
            "Robustness Disparity in Deep Learning”, arXiv, 2020.",
            NANDA_2020,
            (adverm_networks.PART, indicator.PART),
            {8: _ADIENCE},
        ),
        Paper(
            "tran",
            "Fairness increases adversarial vulnerability",
            "C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, “On the Effects of Fairness to Adversarial "
            "Vulnerability”, 2024.",
            TRAN,
            (tran_theory.PART, tran_networks.PART),
            {},
        ),
        Paper(
            "ma",
            "On the tradeoff between robustness and fairness",
            "X. Ma, Z. Wang, W. Liu, “On the Tradeoff Between Robustness and Fairness”, NeurIPS 2022.",
            MA,
            (ma_theory.PART, ma_networks.PART),
            {17: _WIDE},
        ),
        Paper(
            "farmur",
            "Fair adversarial retraining",
            "S. A. Mousavi, H. Mousavi, M. Daneshtalab, “FARMUR: Fair Adversarial Retraining to Mitigate Unfairness in "
            "Robustness”, 2023.",
            FARMUR,
            (farmur_networks.PART, linear_distances.PART),
            {},
        ),
    )
}


def paper_named(name: str) -> Paper:
    """A paper by its short name, or an error that says which there are.

    >>> paper_named("toy").title
    'Nanda’s toys'
    """
    if name not in PAPERS:
        raise InputError(f"There is no paper {name!r}. {suggest(name, PAPERS)}")
    return PAPERS[name]
