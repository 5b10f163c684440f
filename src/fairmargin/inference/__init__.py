"""Statistics of groups: estimates with intervals, tests and corrections. Loads no torch."""
