"""Tran et al. 2024, in parts."""

from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.tran.networks import PART as NETWORKS
from fairmargin_papers.tran.printed import TRAN
from fairmargin_papers.tran.theory import PART as THEORY

PAPER = Paper(
    "tran",
    "Fairness increases adversarial vulnerability",
    "C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, “On the Effects of Fairness to Adversarial Vulnerability”, 2024.",
    TRAN,
    (THEORY, NETWORKS),
    {},
)
