"""Basic types shared by all packages, such as distances, partitions, norms and bounds. Does not import torch."""
