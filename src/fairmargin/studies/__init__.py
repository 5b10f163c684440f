"""Studies: what to measure, on what, and the stages that turn it into a report."""
