"""Read models from files: weights, programs, ONNX and the user's own code."""
