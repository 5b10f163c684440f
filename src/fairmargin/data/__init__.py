"""Samples with labels and attributes: from files, from a catalog, or as distances measured elsewhere."""
