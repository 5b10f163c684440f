"""Runs tasks and yields their results as they finish; knows nothing of robustness."""
