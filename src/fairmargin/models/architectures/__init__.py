"""The networks of the papers, one family a file; `catalog` has their names."""
