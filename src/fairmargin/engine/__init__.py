"""Engines, which run tasks here, in worker processes or on a cluster. Independent of other packages except core."""
