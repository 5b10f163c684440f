"""Nanda et al. 2020: AdvERM, a penalty on the gap between groups."""
