"""Carries out studies: loads cases, measures them as engine tasks, and calls the analyses."""
