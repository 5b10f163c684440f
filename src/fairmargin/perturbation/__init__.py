"""Moving a sample inside its domain: lengths, margins, tiles, and the nearest input that is misclassified."""
