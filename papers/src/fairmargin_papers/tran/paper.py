"""Tran et al. 2024: the claims as printed, and the parts that test them."""

from fairmargin_papers.shared.claims import numbered
from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.tran.networks import PART as NETWORKS
from fairmargin_papers.tran.theory import PART as THEORY

CLAIMS = numbered(
    "tran",
    ("closely", "The thresholds are ordered: fair, natural, robust.", "Theorem 1"),
    ("closely", "The robust threshold grows with the radius.", "Theorem 1"),
    ("closely", "Robust errors: fair ≥ natural ≥ robust.", "Corollary 1"),
    ("closely", "Boundary errors: fair ≥ natural ≥ robust.", "Corollary 2"),
    ("closely", "Mean distances to the boundary: robust ≥ natural ≥ fair.", "Theorem 2"),
    ("closely", "The fair threshold has the least mean distance of all.", "Theorem 2"),
    (
        "closely",
        "The threshold under a fairness penalty λ has ln(K(1−λ)/(1+λ)) for ln K, and arrives at the fair one at "
        "λ = (K−1)/(K+1).",
        "Theorem 3",
    ),
    ("closely", "The threshold and its mean distance fall with λ, and never grow.", "Theorem 3"),
    ("direction", "The natural error rises with λ.", "Figure 4"),
    ("direction", "The violation of accuracy parity falls with λ.", "Figure 4"),
    ("direction", "The distance to the boundary (as softmax margin) falls with λ.", "Figure 4"),
    ("direction", "Boundary errors of fair models are larger.", "by up to 9 % (Figure 5)"),
    ("direction", "A larger training radius gives a lower robust error for every λ, and a higher natural error.", ""),
    ("direction", "The ramp loss lowers natural and boundary errors at λ > 0.", "Figure 5"),
    (
        "closely",
        "Of the differentiable losses, ramp has the threshold nearest to that of the 0/1 loss and the least robust "
        "error.",
        "Figure 8 (μ = ∓1, K = 5 and 10)",
    ),
    (
        "direction",
        "The same RFGSM noise leaves the regular model's answer on a face and flips the fair one's.",
        "one pair of images",
    ),
)

PAPER = Paper(
    "tran",
    "Fairness increases adversarial vulnerability",
    "C. Tran, K. Zhu, P. Van Hentenryck, F. Fioretto, “On the Effects of Fairness to Adversarial Vulnerability”, 2024.",
    CLAIMS,
    (THEORY, NETWORKS),
    {},
)
