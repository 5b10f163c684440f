"""Ma et al. 2022: the claims as printed, and the parts that test them."""

from fairmargin_papers.ma.networks import PART as NETWORKS
from fairmargin_papers.ma.theory import PART as THEORY
from fairmargin_papers.shared.claims import Claim, Testable
from fairmargin_papers.shared.paper import Paper

_CLOSELY: Testable = "closely"
_DIRECTION: Testable = "direction"
_NOT_HERE: Testable = "not here"

MA = (
    Claim("ma", 1, "At equal variances class + errs less often than class −.", "Theorems 5.2 and 5.3", _CLOSELY),
    Claim(
        "ma",
        2,
        "The variance of class-wise robust accuracy (VCRA) grows with the training radius if σ₋ ≥ σ₊.",
        "Theorem 5.5",
        _CLOSELY,
    ),
    Claim("ma", 3, "VCRA at equal variances is exp(−ξ²)(Kσ/M)²/(πd³).", "Theorem 5.6", _CLOSELY),
    Claim(
        "ma",
        4,
        "Adversarial training has a larger VCRA than natural training.",
        "Theorem 5.7",
        _CLOSELY,
    ),
    Claim(
        "ma",
        5,
        "The VCRA of adversarial training is at least the natural variance (VCA) of natural training.",
        "Theorem B.6",
        _CLOSELY,
    ),
    Claim("ma", 6, "R ≤ R̂ + √(VCAR/(δn)) + C/n with probability 1 − δ.", "Theorem 6.1", _CLOSELY),
    Claim(
        "ma",
        7,
        "VCRA rises with the training radius 4 → 16/255.",
        "1.90 → 3.52 ·10⁻² (ResNet-18, FGSM 16/255)",
        _DIRECTION,
    ),
    Claim("ma", 8, "Robust accuracy rises with it.", "29.04 → 42.94 %", _DIRECTION),
    Claim("ma", 9, "So it does under PGD-20 and margin-PGD.", "", _DIRECTION),
    Claim("ma", 10, "So it does for TRADES.", "", _DIRECTION),
    Claim(
        "ma",
        11,
        "Change of robust accuracy by class.",
        "cat −4.2, deer −3.8, horse +11.5, ship +28.2 points",
        _DIRECTION,
    ),
    Claim("ma", 12, "FAT lowers VCRA.", "in 23 of 24 cells", _DIRECTION),
    Claim("ma", 13, "At comparable accuracy.", "higher in 20 of 24 cells", _DIRECTION),
    Claim("ma", 14, "FAT's VCRA is lower under C&W at 16/255.", "≈ 16 %", _DIRECTION),
    Claim("ma", 15, "FAT's sensitivity to λ.", "", _DIRECTION),
    Claim("ma", 16, "The same on CIFAR-100, and for FAT on TRADES.", "", _DIRECTION),
    Claim(
        "ma",
        17,
        "The rows of WRN-32-10.",
        "its FGSM 20/255 column repeats PGD-20 16/255 in three of four rows",
        _NOT_HERE,
    ),
)


_WIDE = "not here: WRN-32-10 is too large for these machines, and its printed columns repeat each other"

PAPER = Paper(
    "ma",
    "On the tradeoff between robustness and fairness",
    "X. Ma, Z. Wang, W. Liu, “On the Tradeoff Between Robustness and Fairness”, NeurIPS 2022.",
    MA,
    (THEORY, NETWORKS),
    {17: _WIDE},
)
