"""Nanda et al. 2020, in parts."""

from fairmargin_papers.nanda2020.indicator import PART as INDICATOR
from fairmargin_papers.nanda2020.networks import PART as NETWORKS
from fairmargin_papers.nanda2020.printed import NANDA_2020
from fairmargin_papers.shared.paper import Paper

_ADIENCE = "not here: only a part of Adience is at hand"

PAPER = Paper(
    "nanda2020",
    "Fairness through robustness (2020, AdvERM)",
    "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating "
    "Robustness Disparity in Deep Learning”, arXiv, 2020.",
    NANDA_2020,
    (NETWORKS, INDICATOR),
    {8: _ADIENCE},
)
