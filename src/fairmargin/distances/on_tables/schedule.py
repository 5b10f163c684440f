"""How much is searched on tables."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TableSchedule:
    """Constants of the search on tables; all counts are per row."""

    switches: int = 6
    """Maximum number of categories that are switched together."""

    looked_at: int = 64
    """Number of sets of switches that are evaluated for each size, chosen by the gradient."""

    extended: int = 8
    """Number of sets of each size to which one more switch is added."""

    combinations: int = 6
    """Number of sets of each size for which numbers are searched along rays."""

    searched: int = 4
    """Number of sets of switches for which the estimator searches all numbers."""

    ray_points: int = 16
    """Number of points at which a ray is looked at before the boundary is searched: half even, half denser near 0."""

    prices: int = 24
    """Number of prices at which changes of all columns are looked at before the boundary is searched."""

    sizes: int = 12
    """Number of changes of a number in each direction that have a price."""

    price_rounds: int = 3
    """How often the slopes behind prices are computed, each time at the last row found."""

    beyond: float = 3.0
    """How far beyond a point that the estimator found numbers move, where steps keep some of them back."""

    slack: float = 1.5
    """How much longer than the nearest row such a row may be, before it is shortened."""

    halvings: int = 12
    """Number of halvings that find the boundary on a ray, or shorten a change."""

    refined: int = 4
    """Number of rows found that are shortened column by column."""

    kept: int = 8
    """Number of rows found that are offered to the original model, until it confirms one."""

    stretches: tuple[float, ...] = (1.001, 1.01, 1.1)
    """Factors by which the changes of numbers are lengthened if the original model confirms no row."""

    references: int = 64
    """Number of random rows that are tried where nothing is found and no references are given."""

    descents: int = 4
    """Number of these rows from which the lead is lowered column by column, besides the row itself."""

    grid: int = 8
    """Number of values between the limits of a number that are tried where nothing is found."""

    rows: int = 256
    """Number of rows that are searched at a time, which limits memory."""


SCHEDULE = TableSchedule()
"""The constants in use. A change of a value changes distances: raise `REVISION` in `search.py` with it."""
