"""Engines, which run tasks serially or in worker processes. Independent of all other packages except core."""
