"""The two toys as a paper of their own: they take seconds."""

from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.toy.experiments import PART
from fairmargin_papers.toy.printed import TOYS

REFERENCE = (
    "V. Nanda, S. Dooley, S. Singla, S. Feizi, J. P. Dickerson, “Fairness Through Robustness: Investigating Robustness "
    "Disparity in Deep Learning”, FAccT 2021."
)

PAPER = Paper("toy", "Nanda’s toys", REFERENCE, TOYS, (PART,), {})
