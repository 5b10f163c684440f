"""The constants of the `plumb` search."""

from dataclasses import dataclass

Slide = tuple[float, float, float, float]
"""How a slide changes the radius and how far its steps go; both fall along half a cosine.

The numbers are the relative change of the radius per step at the beginning and at the end, and the length of a step, as
a share of the radius, at the beginning and at the end.
"""


@dataclass(frozen=True, slots=True)
class PlumbSchedule:
    """Constants of the search, each with the experiment that chose it.

    "Tuned" means: chosen on tuning samples of the four networks in `benchmarks/distances/models.py`, by the mean
    distance for a given number of passes. Commit 878d396 notes that results change little with any of these constants;
    the measurements were not kept. "Not tuned" means: no experiment is documented that chose this value.
    docs/benchmarks.md says of all constants together that they were found on tuning samples of the networks on that
    page, so its results are favourable there; its section on networks that nobody tuned for has independent results.
    """

    rivals: int = 3
    """Number of the strongest other classes whose boundary is linearised before the first step.

    Commit 878d396: a fourth class was hardly ever the nearest on the tuned networks.
    """

    most_rivals: int = 9
    """Maximum number of classes that are linearised if there are enough steps.

    Commit e535f09: on small networks the nearest class may be none of the strongest three. The value is not tuned.
    """

    steps_per_rival: int = 4
    """Number of steps of a search for each class that it linearises. Not tuned."""

    saturated: float = 0.35
    """Share of the lead left after one step above which the gradients at the sample are not followed.

    Commit c2f9725: nine of ten samples of ordinary networks have less. Before, it was 0.5 (99 % had less).
    """

    patience: int = 4
    """Number of projections before a search without success is checked against `stuck`, with few steps. Not tuned."""

    stuck: float = 0.2
    """Share of the lead left above which a search without success starts again from a reference. Not tuned."""

    worthwhile: float = 8.0
    """Maximum distance of a reference, as a multiple of the distance covered so far. Not tuned.

    The boundary is about halfway to the reference.
    """

    trial_steps: int = 5
    """Number of steps of one trial from a reference. Not tuned."""

    steps_per_trial: int = 10
    """Number of steps of a search for each trial that it may make. Not tuned."""

    most_trials: int = 6
    """Maximum number of trials of one search. Not tuned. Commit e535f09 raised it from 4."""

    sliding_from: int = 12
    """Minimum number of steps of a search that ends with slides. Not tuned."""

    sliding_share: tuple[int, int] = (2, 5)
    """Share of the steps that slide, as a fraction. Not tuned. Commit 0c964b8 raised it from a third."""

    looks: int = 5
    """Number of projections from each plane that is tried, with many steps.

    Commit 0c964b8 introduced the search from further planes, which needed half the steps for the same distance. The
    value is not tuned.
    """

    steps_per_plane: int = 20
    """Number of steps of a search for each further plane that it may try. Not tuned."""

    other_planes: int = 2
    """Maximum number of further planes that are tried. Not tuned."""

    worth_trying: float = 1.5
    """Maximum distance of a further plane, as a multiple of that of the nearest. Not tuned."""

    round_steps: int = 40
    """Number of steps of one search; further searches start once there are steps for them. Not tuned."""

    refining_steps: int = 20
    """Number of steps of the final slide from the best point of several searches. Not tuned."""

    halfway: float = 0.6
    """Share of the way to a reference at which a slide starts. Not tuned.

    It is a little beyond the boundary if the boundary is in the middle; otherwise the slide finds the boundary soon.
    """

    beyond_first: tuple[float, float] = (1.0003, 1.004)
    """Factors of a predicted crossing, of settled and of other samples, that are confirmed first. Not tuned."""

    beyond_less: tuple[float, float] = (1.0, 0.995)
    """The same, confirmed next if the first was misclassified. Not tuned."""

    beyond_more: tuple[float, float] = (1.001, 1.02)
    """The same, confirmed next if the first was not misclassified. Not tuned."""

    turn: tuple[float, float] = (0.6, 0.05)
    """Share of the newest gradient in the mean direction, at the beginning and at the end. Tuned."""

    overshoot: float = 0.015
    """How far a projection goes beyond the plane, as a share of the radius, at the beginning. Tuned."""

    least_overshoot: float = 0.004
    """Minimum of the overshoot. Tuned."""

    most_overshoot: float = 0.12
    """Maximum of the overshoot. Tuned."""

    overshoot_factors: tuple[float, float] = (0.5, 1.6)
    """Factors of the overshoot after a misclassified input and after a correctly classified one. Not tuned."""

    shorten: float = 0.4
    """Minimum factor by which a projection may change the radius. Tuned."""

    lengthen_fooled: float = 1.05
    """Maximum factor by which a projection from a misclassified input may change the radius. Tuned."""

    lengthen: float = 2.0
    """Maximum factor by which a projection from a correctly classified input may change the radius. Tuned."""

    newton: int = 4
    """Number of Newton steps along a ray that bends at the limits of the domain. Tuned."""

    newton_step: float = 0.2
    """Relative step of that search where the derivative is 0. Not tuned."""

    settled: float = 1.0003
    """Maximum ratio of the radius to the distance of the plane at which a sample needs no further step. Tuned."""

    least_fall: float = 0.05
    """Minimum decrease of the lead on the way so far for a crossing to be predicted, as a share of the largest possible
    one. Not tuned."""

    least_crossing: float = 0.3
    """Minimum of a predicted crossing as a share of the radius; nearer ones are extrapolated too far. Not tuned."""

    radius_rounds: int = 3
    """Number of corrections that bring a point clipped to the domain back to its radius. Not tuned."""

    radius_factors: tuple[float, float] = (0.5, 2.0)
    """Range of the factor of one such correction. Not tuned."""

    near_slide: Slide = (0.05, 0.002, 0.2, 0.02)
    """The slide that follows projections. Not tuned."""

    far_slide: Slide = (0.3, 0.003, 0.7, 0.05)
    """The slide that starts on the way to a reference and takes all remaining steps. Not tuned."""

    trial_slide: Slide = (0.35, 0.1, 1.0, 0.3)
    """The short slide of a trial. Not tuned."""

    best_trial_slide: Slide = (0.15, 0.003, 0.4, 0.03)
    """The slide that starts from the best trial. Not tuned."""

    fine_slide: Slide = (0.03, 0.001, 0.1, 0.01)
    """The slide that starts from the best point of several searches. Not tuned."""


SCHEDULE = PlumbSchedule()
"""The constants that `Plumb` uses. To change a value changes distances: raise `Plumb.revision` with it."""
