"""Training methods and the loop that they share.

`train` is the entry point; a method in `methods/` names the `parts/` it is made of, and `loop/` runs it.
"""
