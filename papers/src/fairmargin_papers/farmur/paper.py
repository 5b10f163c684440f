"""Mousavi et al. 2023: the claims as printed, and the parts that test them."""

from fairmargin_papers.farmur.linear_distances import PART as LINEAR_DISTANCES
from fairmargin_papers.farmur.networks import PART as NETWORKS
from fairmargin_papers.shared.claims import numbered
from fairmargin_papers.shared.paper import Paper

CLAIMS = numbered(
    "farmur",
    (
        "direction",
        "Adversarial training raises Rob(f).",
        ".79 → 1.26 LeNet, 1.47 → 1.96 AlexNet, .18 → .48 CIFAR-10, .33 → 1.34 UTKFace",
    ),
    ("direction", "And it raises V_f.", "1.36×, 1.46×, 6.67×, 10.43×"),
    ("closely", "(ours) And it lowers V_f / Rob(f)².", "not printed; follows from its table"),
    (
        "direction",
        "FARMUR lowers V_f against adversarial training.",
        "29.17, 15.39, 19.18 %; from its own table 52.6, 51.4, 45, 19.18 %",
    ),
    ("direction", "FARMUR lowers Rob(f) little.", "by 1.6, .5, 6.3, 2.2 %"),
    ("closely", "Accuracy on MNIST stays.", "within ±.4 points"),
    ("direction", "Accuracy on CIFAR-10 changes as printed.", "93.77 / 93.58 / 90.98 %"),
    ("direction", "Accuracy on UTKFace changes as printed.", "66.70 / 65.60 / 65.66 %"),
    ("closely", "V_f is independent of the attack.", "“independent of the type of adversarial attacks”"),
    ("closely", "Eq. 7 is the exact distance of a linear classifier.", "Eq. 7, with ‖w_l − w_k‖²"),
    ("closely", "The mean of the last two radii approximates the distance.", "Eq. 8"),
    ("direction", "Finding the vulnerable groups costs more than retraining.", "6 against 4 GPU hours"),
)

PAPER = Paper(
    "farmur",
    "Fair adversarial retraining",
    "S. A. Mousavi, H. Mousavi, M. Daneshtalab, “FARMUR: Fair Adversarial Retraining to Mitigate Unfairness in "
    "Robustness”, 2023.",
    CLAIMS,
    (NETWORKS, LINEAR_DISTANCES),
    {},
)
