"""Two toys of Nanda et al. 2021, in which every distance is known."""
