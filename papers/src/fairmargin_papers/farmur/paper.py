"""Mousavi et al. 2023, in parts."""

from fairmargin_papers.farmur.linear_distances import PART as LINEAR_DISTANCES
from fairmargin_papers.farmur.networks import PART as NETWORKS
from fairmargin_papers.farmur.printed import FARMUR
from fairmargin_papers.shared.paper import Paper

PAPER = Paper(
    "farmur",
    "Fair adversarial retraining",
    "S. A. Mousavi, H. Mousavi, M. Daneshtalab, “FARMUR: Fair Adversarial Retraining to Mitigate Unfairness in "
    "Robustness”, 2023.",
    FARMUR,
    (NETWORKS, LINEAR_DISTANCES),
    {},
)
