"""Ma et al. 2022: the claims as printed, and the parts that test them."""

from fairmargin_papers.ma.networks import PART as NETWORKS
from fairmargin_papers.ma.theory import PART as THEORY
from fairmargin_papers.shared.claims import numbered
from fairmargin_papers.shared.paper import Paper

CLAIMS = numbered(
    "ma",
    ("closely", "At equal variances class + errs less often than class −.", "Theorems 5.2 and 5.3"),
    (
        "closely",
        "The variance of class-wise robust accuracy (VCRA) grows with the training radius if σ₋ ≥ σ₊.",
        "Theorem 5.5",
    ),
    ("closely", "VCRA at equal variances is exp(−ξ²)(Kσ/M)²/(πd³).", "Theorem 5.6"),
    ("closely", "Adversarial training has a larger VCRA than natural training.", "Theorem 5.7"),
    (
        "closely",
        "The VCRA of adversarial training is at least the natural variance (VCA) of natural training.",
        "Theorem B.6",
    ),
    ("closely", "R ≤ R̂ + √(VCAR/(δn)) + C/n with probability 1 − δ.", "Theorem 6.1"),
    ("direction", "VCRA rises with the training radius 4 → 16/255.", "1.90 → 3.52 ·10⁻² (ResNet-18, FGSM 16/255)"),
    ("direction", "Robust accuracy rises with it.", "29.04 → 42.94 %"),
    ("direction", "So it does under PGD-20 and margin-PGD.", ""),
    ("direction", "So it does for TRADES.", ""),
    ("direction", "Change of robust accuracy by class.", "cat −4.2, deer −3.8, horse +11.5, ship +28.2 points"),
    ("direction", "FAT lowers VCRA.", "in 23 of 24 cells"),
    ("direction", "At comparable accuracy.", "higher in 20 of 24 cells"),
    ("direction", "FAT's VCRA is lower under C&W at 16/255.", "≈ 16 %"),
    ("direction", "FAT's sensitivity to λ.", ""),
    ("direction", "The same on CIFAR-100, and for FAT on TRADES.", ""),
    ("not here", "The rows of WRN-32-10.", "its FGSM 20/255 column repeats PGD-20 16/255 in three of four rows"),
)

_WIDE = "not here: WRN-32-10 is too large for these machines, and its printed columns repeat each other"

PAPER = Paper(
    "ma",
    "On the tradeoff between robustness and fairness",
    "X. Ma, Z. Wang, W. Liu, “On the Tradeoff Between Robustness and Fairness”, NeurIPS 2022.",
    CLAIMS,
    (THEORY, NETWORKS),
    {17: _WIDE},
)
