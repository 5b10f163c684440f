"""Anything that classifies: one protocol, and converters that turn foreign models into it."""
