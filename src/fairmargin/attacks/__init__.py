"""Attacks at a fixed radius, which search for misclassified inputs within the radius of each sample."""
