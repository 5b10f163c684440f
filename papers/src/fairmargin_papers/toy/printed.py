"""The claims of Nanda et al. 2021 about their two toys, as printed."""

from fairmargin_papers.shared.claims import Claim, Testable

_CLOSELY: Testable = "closely"

TOYS = (
    Claim(
        "nanda",
        1,
        "Two classifiers are right about every point; within a budget τ one lets more round than cross points be "
        "attacked, the other as many of both.",
        "70% / 30% against 30% / 30%, accuracy 100%",
        _CLOSELY,
    ),
    Claim(
        "nanda",
        2,
        "In a toy of three classes one class's curve falls significantly faster although all three are classified "
        "similarly well.",
        "shown in Figure 2",
        _CLOSELY,
    ),
)
