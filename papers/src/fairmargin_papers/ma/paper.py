"""Ma et al. 2022, in parts."""

from fairmargin_papers.ma.networks import PART as NETWORKS
from fairmargin_papers.ma.printed import MA
from fairmargin_papers.ma.theory import PART as THEORY
from fairmargin_papers.shared.paper import Paper

_WIDE = "not here: WRN-32-10 is too large for these machines, and its printed columns repeat each other"

PAPER = Paper(
    "ma",
    "On the tradeoff between robustness and fairness",
    "X. Ma, Z. Wang, W. Liu, “On the Tradeoff Between Robustness and Fairness”, NeurIPS 2022.",
    MA,
    (THEORY, NETWORKS),
    {17: _WIDE},
)
