"""Thresholds that are best under other losses than the error (the paper's Figure 8)."""

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError
from fairmargin_papers.theory.exponential_loss import ExponentialLoss
from fairmargin_papers.theory.log_loss import LogLoss
from fairmargin_papers.theory.ramp_loss import RampLoss
from fairmargin_papers.theory.thresholds import ClassLoss
from fairmargin_papers.theory.zero_one_loss import ZeroOneLoss

LOSSES: dict[str, ClassLoss] = {
    "zero_one": ZeroOneLoss(),
    "log": LogLoss(),
    "exponential": ExponentialLoss(),
    "ramp": RampLoss(),
}


def loss_named(name: str) -> ClassLoss:
    """Return the loss of that name, or raise an error that lists the names.

    >>> loss_named("ramp")
    RampLoss()
    """
    if str(name) not in LOSSES:
        raise InputError(f"There is no loss {name!r}. {suggest(str(name), LOSSES)}")
    return LOSSES[name]
