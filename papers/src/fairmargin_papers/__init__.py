"""The papers' experiments, and what became of each of their claims here."""
