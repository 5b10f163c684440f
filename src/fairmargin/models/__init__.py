"""Models: one protocol for classifiers, and converters from the models of other libraries."""
