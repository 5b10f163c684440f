"""What `fairmargin.core` refuses."""

from fairmargin.core.domain import Domain
from tests.spec.refusals import Refusal

REFUSALS = [
    Refusal(lambda _: Domain(low=1.0, high=0.0), "low"),
]
