"""Nanda et al. 2021: fairness through robustness."""
