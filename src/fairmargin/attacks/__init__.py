"""Attacks at a fixed radius: for each sample an input within it that the model misclassifies, if one is found."""
