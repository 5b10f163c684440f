"""The networks of the papers, one family per file; `catalog` has their names."""
