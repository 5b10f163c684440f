"""Networks as sequences of known layers, for estimators that compute guarantees."""
