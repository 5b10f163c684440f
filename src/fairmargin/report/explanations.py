"""What the words of a page mean: texts that are the same in every report."""

from fairmargin.analyses.explanations import BOUND_MEANINGS as BOUND_MEANINGS  # noqa: PLC0414
from fairmargin.analyses.explanations import SIGMA_MEANING as SIGMA_MEANING  # noqa: PLC0414
from fairmargin.analyses.explanations import VERDICT_MEANINGS as VERDICT_MEANINGS  # noqa: PLC0414

ETHICS = (
    "This page shows whom an attacker would reach first. That helps whoever protects people, and whoever harms them: "
    "share it with that in mind.",
    "Groups are the dataset’s coding, not people’s own words. To predict age, race or gender from a face is itself a "
    "flawed task; such datasets serve here to test the method.",
    "What to do about a difference belongs with the people whom it affects. A tension between fairness and robustness "
    "is no reason to build a less fair or a less safe model.",
)
