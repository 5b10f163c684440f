"""Ma et al. 2022: the tradeoff between robustness and fairness."""
