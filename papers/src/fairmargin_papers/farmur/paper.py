"""Mousavi et al. 2023: the claims as printed, and the parts that test them."""

from fairmargin_papers.farmur.linear_distances import PART as LINEAR_DISTANCES
from fairmargin_papers.farmur.networks import PART as NETWORKS
from fairmargin_papers.shared.claims import Claim, Testable
from fairmargin_papers.shared.paper import Paper

_CLOSELY: Testable = "closely"
_DIRECTION: Testable = "direction"

FARMUR = (
    Claim(
        "farmur",
        1,
        "Adversarial training raises Rob(f).",
        ".79 → 1.26 LeNet, 1.47 → 1.96 AlexNet, .18 → .48 CIFAR-10, .33 → 1.34 UTKFace",
        _DIRECTION,
    ),
    Claim("farmur", 2, "And it raises V_f.", "1.36×, 1.46×, 6.67×, 10.43×", _DIRECTION),
    Claim("farmur", 3, "(ours) And it lowers V_f / Rob(f)².", "not printed; follows from its table", _CLOSELY),
    Claim(
        "farmur",
        4,
        "FARMUR lowers V_f against adversarial training.",
        "29.17, 15.39, 19.18 %; from its own table 52.6, 51.4, 45, 19.18 %",
        _DIRECTION,
    ),
    Claim("farmur", 5, "FARMUR lowers Rob(f) little.", "by 1.6, .5, 6.3, 2.2 %", _DIRECTION),
    Claim("farmur", 6, "Accuracy on MNIST stays.", "within ±.4 points", _CLOSELY),
    Claim("farmur", 7, "Accuracy on CIFAR-10 changes as printed.", "93.77 / 93.58 / 90.98 %", _DIRECTION),
    Claim("farmur", 8, "Accuracy on UTKFace changes as printed.", "66.70 / 65.60 / 65.66 %", _DIRECTION),
    Claim(
        "farmur", 9, "V_f is independent of the attack.", "“independent of the type of adversarial attacks”", _CLOSELY
    ),
    Claim("farmur", 10, "Eq. 7 is the exact distance of a linear classifier.", "Eq. 7, with ‖w_l − w_k‖²", _CLOSELY),
    Claim(
        "farmur",
        11,
        "The mean of the last two radii approximates the distance.",
        "Eq. 8",
        _CLOSELY,
    ),
    Claim(
        "farmur",
        12,
        "Finding the vulnerable groups costs more than retraining.",
        "6 against 4 GPU hours",
        _DIRECTION,
    ),
)


PAPER = Paper(
    "farmur",
    "Fair adversarial retraining",
    "S. A. Mousavi, H. Mousavi, M. Daneshtalab, “FARMUR: Fair Adversarial Retraining to Mitigate Unfairness in "
    "Robustness”, 2023.",
    FARMUR,
    (NETWORKS, LINEAR_DISTANCES),
    {},
)
