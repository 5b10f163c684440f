"""Tran et al. 2024: fairness increases adversarial vulnerability."""
