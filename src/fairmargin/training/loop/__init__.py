"""The training loop that all methods share.

`epochs` runs it, `state` and `checkpoints` hold and store the state, `data` makes the batches, `checks` refuses invalid
arguments, `validation` evaluates the network between epochs.
"""
