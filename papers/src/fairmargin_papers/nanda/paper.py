"""Nanda et al. 2021, in parts."""

from fairmargin_papers.nanda.networks import PART as NETWORKS
from fairmargin_papers.nanda.printed import NANDA_2021
from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.toy.experiments import PART as TOYS
from fairmargin_papers.toy.paper import REFERENCE

PAPER = Paper("nanda", "Fairness through robustness (2021)", REFERENCE, NANDA_2021, (TOYS, NETWORKS), {})
