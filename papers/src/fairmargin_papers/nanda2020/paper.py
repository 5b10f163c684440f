"""Nanda et al. 2020: the claims as printed, and the parts that test them."""

from fairmargin_papers.nanda2020.indicator import PART as INDICATOR
from fairmargin_papers.nanda2020.networks import PART as NETWORKS
from fairmargin_papers.shared.claims import Claim, Testable
from fairmargin_papers.shared.paper import Paper

_CLOSELY: Testable = "closely"
_DIRECTION: Testable = "direction"
_NOT_HERE: Testable = "not here"

NANDA_2020 = (
    Claim("nanda2020", 1, "AdvERM narrows the gap of truck on CIFAR-10.", "Figure 6", _DIRECTION),
    Claim("nanda2020", 2, "AdvERM narrows the gap of Black on UTKFace.", "Figure 6", _DIRECTION),
    Claim("nanda2020", 3, "AdvERM costs no accuracy on CIFAR-10.", "86.97 → 87.82 %", _DIRECTION),
    Claim("nanda2020", 4, "AdvERM costs no accuracy on UTKFace.", "66.25 → 65.52 %", _DIRECTION),
    Claim("nanda2020", 5, "AdvERM makes cat less disparate with the Deep CNN.", "Figure 12g, 12h", _DIRECTION),
    Claim("nanda2020", 6, "The trend persists across models.", "Figures 12 to 17", _DIRECTION),
    Claim(
        "nanda2020",
        7,
        "(ours) With the printed indicator the regulariser has no gradient, so that training equals plain training.",
        "Eq. 1 has 1{d > τ}",
        _CLOSELY,
    ),
    Claim("nanda2020", 8, "Adience by gender shows barely any bias.", "", _NOT_HERE),
)


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
