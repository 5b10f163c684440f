"""How a network is trained, whatever the method: steps, batches, what is watched and what is kept."""

from typing import Annotated

from pydantic import Field, field_validator

from fairmargin.attacks.catalog import parse_attack
from fairmargin.core.options import Radius, Whole
from fairmargin.study.options import DescentOptions

WATCH = "pgd:steps=10"
"""The attack on validation data if none is named."""


class TrainingPlan(DescentOptions):
    """Everything about a training that is not the method.

    Parameters
    ----------
    rate, optimizer, momentum, weight_decay
        Settings of the optimizer; momentum is SGD's.
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
        A number or a text such as "4/255"; 0: natural accuracy alone is watched.
    watch_samples
        Maximum number of samples of each group of the validation data.
    patience
        Stop after so many epochs in which the worst group's robust accuracy on validation data (natural, where no
        radius is given) did not improve; 0: never.
    keep_every
        Keep a checkpoint every so many epochs, besides the first, middle, last and best; 0: only these.
    seed
        Seed of everything random. The same seed on the same kind of machine and number of threads gives the same
        weights.
    threads
        Number of threads of torch; 0: as many as torch uses in this process when the training starts. Another number
        changes the last bits of sums, so what trains in worker processes of an engine, or wants the same weights on
        machines with more or fewer processors, gives a number (studies do: 1). Several threads are faster for large
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
        parse_attack(value)
        return value
