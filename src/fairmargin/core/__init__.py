"""The vocabulary: frozen values that everything else speaks of. Numpy only."""
