"""The benchmark of upper bounds: the smallest distances for the fewest passes, ours and the peers'. `make bench`."""
