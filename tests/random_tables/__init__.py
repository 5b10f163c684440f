"""Random tables, models and rules, and an independent judge of what is found for them."""
