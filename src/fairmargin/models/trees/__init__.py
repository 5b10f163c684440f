"""Classifiers that are ensembles of decision trees: a common representation, and readers of the libraries' models."""
