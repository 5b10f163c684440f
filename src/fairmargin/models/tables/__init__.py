"""Classifiers of raw table rows: how rows are coded as numbers, and how models with preprocessing are read."""
