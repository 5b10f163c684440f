"""Randomized smoothing: certified distances of the smoothed classifier, and an attack on it."""
