"""Stores of measured distances: content-addressed Parquet files in a run folder, so that a run can be resumed."""
