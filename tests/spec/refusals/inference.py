"""What `fairmargin.inference` refuses."""

from fairmargin.inference.agreement import sign_agreement
from tests.spec.refusals import Refusal

REFUSALS = [
    Refusal(lambda _: sign_agreement({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0}), "only one of them has 'b', 'c'"),
]
