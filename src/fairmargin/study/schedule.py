"""Schedules of the learning rate: factors by which it changes over a training."""

import math
from dataclasses import dataclass

from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError


@dataclass(frozen=True, slots=True)
class Schedule:
    """A factor of the learning rate for each epoch.

    Parameters
    ----------
    kind
        "constant"; "steps": divided by 10 after each of the shares `at` of the epochs; "cosine": falling to 0.
    at
        For "steps", shares of all epochs: (0.5, 0.667) is after 60 and 80 of 120.

    >>> [Schedule("steps", (0.5, 0.75)).factor(epoch, 4) for epoch in range(4)]
    [1.0, 1.0, 0.1, 0.01]
    """

    kind: str = "constant"
    at: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in ("constant", "steps", "cosine"):
            raise InputError(
                f"There is no schedule {self.kind!r}. {suggest(self.kind, ('constant', 'steps', 'cosine'))}"
            )
        if (self.kind == "steps") != bool(self.at):
            raise InputError(
                'The schedule "steps" needs the shares of the epochs after which the rate drops, as in '
                "`steps:0.5,0.75`; other schedules take none."
            )
        if any(not 0 < share < 1 for share in self.at):
            raise InputError(
                f"The rate drops after shares of all epochs, which must lie between 0 and 1; given {list(self.at)}."
            )

    @property
    def spelling(self) -> str:
        """Text from which `parse_schedule` makes the same schedule.

        >>> Schedule("steps", (0.5, 0.75)).spelling
        'steps:0.5,0.75'
        """
        return f"{self.kind}:{','.join(f'{share:g}' for share in self.at)}" if self.at else self.kind

    def __str__(self) -> str:
        return self.spelling

    def factor(self, epoch: float, epochs: int) -> float:
        """Return the factor of the rate; an epoch may have a fraction."""
        if self.kind == "cosine":
            return 0.5 * (1 + math.cos(math.pi * epoch / epochs))
        # It drops between epochs. Half a thousandth: 0.667 of 120 epochs is after 80.
        return round(10.0 ** -sum(math.floor(epoch) / epochs >= at - 5e-4 for at in self.at), 12)


def parse_schedule(text: str) -> Schedule:
    """Return a schedule from its spelling.

    >>> parse_schedule("steps:0.5,0.667")
    Schedule(kind='steps', at=(0.5, 0.667))
    """
    kind, _, shares = text.partition(":")
    try:
        at = tuple(float(share) for share in shares.split(",")) if shares else ()
    except ValueError:
        raise InputError(
            f"Cannot read the schedule {text!r}; expected for instance constant, cosine or steps:0.5,0.75."
        ) from None
    return Schedule(kind.strip(), at)
