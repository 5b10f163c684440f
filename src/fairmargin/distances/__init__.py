"""From a model and samples to one distance per sample; one estimator a file, each states its bound."""
