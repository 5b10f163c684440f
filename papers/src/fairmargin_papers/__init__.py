"""Experiments and closed-form results of papers on fairness and robustness, with a verdict on each claim."""
