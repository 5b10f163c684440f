"""Geometry of perturbations: lengths, balls, margins and linear bounds; calculations on batches of tensors."""
