"""Estimators of the distance to the decision boundary.

`measure` and `nearest` are the entry points, `catalog` names the estimators and `protocol` says what an estimator is.
"""
