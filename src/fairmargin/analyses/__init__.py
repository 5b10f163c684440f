"""Analyses: pure functions from distances to results that print, tabulate and save themselves. Loads no torch."""
