"""Minimum-norm attacks from the literature, one file each: they minimise the distance to a misclassified input."""
