"""Nanda et al. 2020: the claims as printed, and the parts that test them."""

from fairmargin_papers.nanda2020.indicator import PART as INDICATOR
from fairmargin_papers.nanda2020.networks import PART as NETWORKS
from fairmargin_papers.shared.claims import numbered
from fairmargin_papers.shared.paper import Paper

CLAIMS = numbered(
    "nanda2020",
    ("direction", "AdvERM narrows the gap of truck on CIFAR-10.", "Figure 6"),
    ("direction", "AdvERM narrows the gap of Black on UTKFace.", "Figure 6"),
    ("direction", "AdvERM costs no accuracy on CIFAR-10.", "86.97 → 87.82 %"),
    ("direction", "AdvERM costs no accuracy on UTKFace.", "66.25 → 65.52 %"),
    ("direction", "AdvERM makes cat less disparate with the Deep CNN.", "Figure 12g, 12h"),
    ("direction", "The trend persists across models.", "Figures 12 to 17"),
    (
        "closely",
        "(ours) With the printed indicator the regulariser has no gradient, so that training equals plain training.",
        "Eq. 1 has 1{d > τ}",
    ),
    ("not here", "Adience by gender shows barely any bias.", ""),
)

_ADIENCE = "not here: only a part of Adience is available"

PAPER = Paper(
    "nanda2020",
    "Fairness through robustness (2020, AdvERM)",
    "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating "
    "Robustness Disparity in Deep Learning”, arXiv, 2020.",
    CLAIMS,
    (NETWORKS, INDICATOR),
    {8: _ADIENCE},
)
