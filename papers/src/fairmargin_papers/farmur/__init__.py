"""Mousavi et al. 2023: fair adversarial retraining (FARMUR)."""
