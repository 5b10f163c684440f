"""How a network is trained, whatever the method: steps, batches, what is watched and what is kept."""

from dataclasses import dataclass, field

from fairmargin.attacks.catalog import parse_attack
from fairmargin.core.radius import parse_radius
from fairmargin.errors import InputError
from fairmargin.training.checking import among, at_least_one, not_negative, positive
from fairmargin.training.schedules import Schedule, parse_schedule

OPTIMIZERS = ("sgd", "adam")
AUGMENTATIONS = ("none", "flip", "crop_flip")


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Everything about a training that is not the method.

    Parameters
    ----------
    rate, optimizer, momentum, weight_decay
        Of the descent; momentum is SGD's.
    batch
        Samples of a step.
    schedule
        How the rate changes: "constant", "cosine", "steps:0.5,0.75" (a tenth of it after each of these shares of the
        epochs), or a `Schedule`.
    augmentation
        "none", "flip" (left and right), "crop_flip" (also moved by up to 4 pixels); images only.
    average
        Decay of an exponential moving average of the weights, for instance 0.999; 0 for none. The average is what is
        validated, audited and returned.
    watch
        The attack that validation data are watched with, as options spell it; its radius is `watch_radius`.
    watch_radius
        A number or a text such as "4/255"; 0: natural accuracy alone is watched.
    watch_samples
        Of each group of the validation data, at most.
    patience
        Stop after so many epochs in which the worst group's robust accuracy on validation data (natural, where no
        radius is given) did not improve; 0: never.
    keep_every
        Keep a checkpoint every so many epochs, besides the first, middle, last and best; 0: only these.
    seed
        Of everything random. The same seed on the same kind of machine and number of threads gives the same weights.
    threads
        On how many threads of torch; 0: as many as torch uses in this process when the training starts. Another number
        changes the last bits of sums, so what trains in worker processes of an engine, or wants the same weights on
        machines with more or fewer processors, gives a number (studies do: 1). Several threads are faster for large
        networks, one thread for small ones.
    """

    rate: float = 0.01
    optimizer: str = "sgd"
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch: int = 128
    schedule: Schedule = field(default_factory=Schedule)
    augmentation: str = "none"
    average: float = 0.0
    watch: str = "pgd:steps=10"
    watch_radius: float = 0.0
    watch_samples: int = 200
    patience: int = 0
    keep_every: int = 0
    seed: int = 0
    threads: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "watch_radius", parse_radius(self.watch_radius))
        if isinstance(self.schedule, str):  # as the command line spells it
            object.__setattr__(self, "schedule", parse_schedule(self.schedule))
        if not isinstance(self.schedule, Schedule):
            raise InputError(
                f"`schedule` of TrainingPlan must be a text such as 'cosine' or 'steps:0.5,0.75'; given "
                f"{self.schedule!r}."
            )
        parse_attack(self.watch)
        positive(self, rate=self.rate)
        not_negative(
            self,
            weight_decay=self.weight_decay,
            watch_radius=self.watch_radius,
            momentum=self.momentum,
            average=self.average,
        )
        among(self, OPTIMIZERS, optimizer=self.optimizer)
        among(self, AUGMENTATIONS, augmentation=self.augmentation)
        at_least_one(self, batch=self.batch, watch_samples=self.watch_samples)
        for name in ("momentum", "average"):
            if getattr(self, name) >= 1:
                raise InputError(f"`{name}` of TrainingPlan must lie below 1; given {getattr(self, name):g}.")
        for name in ("patience", "keep_every", "threads"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise InputError(f"`{name}` of TrainingPlan must be a whole number, 0 or more; given {value!r}.")
