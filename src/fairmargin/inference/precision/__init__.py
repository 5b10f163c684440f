"""Group means and σ to a requested precision, from few samples of an expensive estimator and many of a cheap one."""
