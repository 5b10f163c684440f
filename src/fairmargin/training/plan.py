"""The settings of a training that do not depend on the method: optimizer, batches, validation and checkpoints."""

from typing import Annotated

from pydantic import Field, field_validator

from fairmargin.attacks.catalog import parse_attack
from fairmargin.core.options import Radius, Whole
from fairmargin.study.options import DescentOptions

WATCH = "pgd:steps=10"
"""The attack on validation data if none is given."""


class TrainingPlan(DescentOptions):
    """Settings of a training that do not depend on the method.

    Parameters
    ----------
    rate, optimizer, momentum, weight_decay
        Settings of the optimizer; momentum is used by SGD only.
    batch
        Number of samples of a step.
    schedule
        How the rate changes: "constant", "cosine", "steps:0.5,0.75" (a tenth of it after each of these shares of the
        epochs), or a `Schedule`.
    augmentation
        "none", "flip" (left and right), "crop_flip" (also moved by up to 4 pixels); images only.
    average
        Decay of an exponential moving average of the weights, for instance 0.999; 0 for none. The average is what is
        validated, audited and returned.
    watch
        The attack on validation data, as options spell it; its radius is `watch_radius`.
    watch_radius
        A number or a text such as "4/255"; with 0, only natural accuracy is measured on validation data.
    watch_samples
        Maximum number of samples of each group of the validation data.
    patience
        Number of epochs without an improvement after which the training stops; 0: never. What counts is the worst
        group's robust accuracy on validation data, or its natural accuracy if no radius is given.
    keep_every
        Number of epochs between checkpoints that are kept besides the first, middle, last and best; 0: only these.
    seed
        Seed of all random numbers. The same seed on the same kind of machine and number of threads gives the same
        weights.
    threads
        Number of threads of torch; 0: as many as torch uses in this process when the training starts. Another number
        changes the last bits of sums. Give a number for trainings in worker processes of an engine, or if machines with
        different numbers of processors must give the same weights (studies use 1). Several threads are faster for large
        networks, one thread for small ones.

    >>> TrainingPlan(schedule="steps:0.5,0.75", watch_radius="1/4").watch_radius
    0.25
    """

    watch: str = WATCH
    watch_radius: Radius = 0.0
    seed: Whole = 0
    threads: Annotated[Whole, Field(ge=0)] = 0

    @field_validator("watch")
    @classmethod
    def _check_watch(cls, value: str) -> str:
        """Refuse an attack that is not in the catalog."""
        parse_attack(value)
        return value
