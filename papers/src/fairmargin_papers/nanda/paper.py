"""Nanda et al. 2021: the claims as printed, and the parts that test them."""

from fairmargin_papers.nanda.networks import PART as NETWORKS
from fairmargin_papers.shared.claims import numbered
from fairmargin_papers.shared.paper import Paper
from fairmargin_papers.toy.paper import CLAIMS as TOYS
from fairmargin_papers.toy.paper import PART, REFERENCE

CLAIMS = (
    *TOYS,
    *numbered(
        "nanda",
        (
            "direction",
            "Median distance to the boundary of a multinomial logistic regression.",
            ".40 CIFAR-10, .10 CIFAR-100, .06 superclasses, .12 UTKFace, .38 Adience",
        ),
        ("direction", "Logistic regression on UTKFace is biased for Black, not for Female.", ""),
        ("closely", "The sign of σ by DeepFool is that of the exact σ.", "125 of 151 partitions"),
        ("closely", "The sign of σ by C&W is that of the exact σ.", "125 of 151 partitions"),
        ("direction", "Mean difference of exact and estimated σ.", "σ−σ^DF .17 (variance .07), σ−σ^CW .19 (.06)"),
        ("direction", "DeepFool and C&W agree on the sign of σ.", "708 of 755 = 94 %"),
        ("direction", "The sign of σ after the first epoch is that after the last.", "637 and 621 of 755"),
        (
            "direction",
            "The sign of σ at the middle epoch is that after the last.",
            "671 (DeepFool) and 665 (C&W) of 755",
        ),
        (
            "direction",
            "The sign of σ by smoothing is that of the exact σ.",
            "101 of 151 = 66.9 %, mean difference .08, variance .19",
        ),
        (
            "direction",
            "Smoothing agrees on the sign of σ with DeepFool / with C&W (in %).",
            "CIFAR-10 75.00/76.67, UTKFace 74.24/72.73, CIFAR-100 53.83/54.00, superclasses 65.83/66.67, "
            "Adience 83.33/79.63",
        ),
        ("direction", "On UTKFace ages 40–60 and Black are less robust, ages 0–15 and Asian more, in all models.", ""),
        (
            "direction",
            "A network trained from scratch shows σ ≈ 0 after the first epoch, a pre-trained one does not, and the "
            "bias persists.",
            "",
        ),
        ("closely", "The smoothed classifier's accuracy at σ .125 is on par with the plain one's.", ""),
        (
            "direction",
            "Bias depends on data and on model: σ has the same sign across models for some groups, not for others.",
            "",
        ),
        first=3,
    ),
)

PAPER = Paper("nanda", "Fairness through robustness (2021)", REFERENCE, CLAIMS, (PART, NETWORKS), {})
