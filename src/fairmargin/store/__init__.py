"""Keeps measured distances in a run folder: atomic, content-addressed Parquet shards, so that a run can be resumed."""
