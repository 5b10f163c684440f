"""Turns audit results into figures, sentences and one self-contained page. Reads results, never models."""
