"""Studies of parts that train networks, and means over the seeds of the trainings with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fairmargin.errors import InputError, MissingDataError
from fairmargin.runner.study_run import StudyRun, measure_study
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study_file import make_study
from fairmargin_papers.shared.claims import Interval
from fairmargin_papers.shared.original import used_in
from fairmargin_papers.shared.paper import Assignment, NotPossibleHereError

BETTER_THAN_GUESSING = 1.5  # a network with less than this multiple of the accuracy of guessing has learned nothing
_SAME = 1e-9  # numbers that differ by less differ by rounding only


def run_grid(assignment: Assignment, sections: Mapping[str, Any]) -> StudyRun:
    """Train and measure the models of a study, or read them if they are in the folder of the part.

    Groups are not compared, because a claim needs few of the thousands of resampled comparisons.

    Parameters
    ----------
    assignment
        Arguments of the part. Its folder and engine are used, and its root for data without a `root` of their own.
    sections
        Content of the study file, see `study_sections`.
    """
    root = {} if assignment.root is None else {"root": str(assignment.root)}
    data = {name: {**root, **section} for name, section in sections["data"].items()}
    try:
        study = make_study({**sections, "data": data})
        found = measure_study(study, RunFolder(assignment.folder), assignment.engine, assignment.progress)
    except MissingDataError as error:
        raise NotPossibleHereError(str(error)) from error
    if found.failures:
        # A row calculated from some of the seeds would look like one calculated from all of them.
        raise InputError(
            f"{len(found.failures)} tasks of {assignment.folder} failed; run the command again once the reason is "
            f"gone. The first: {found.failures[0]}"
        )
    assignment.used.append(used_in(found))
    return found


def study_sections(
    *,
    data: Mapping[str, Any],
    groups: Sequence[str],
    models: Mapping[str, Mapping[str, Any]],
    training: Mapping[str, Any] | None = None,
    methods: Mapping[str, Mapping[str, Any]] | None = None,
    audits: Mapping[str, Mapping[str, Any]] | None = None,
    attacks: Mapping[str, Mapping[str, Any]] | None = None,
    seeds: Sequence[int] = (0,),
    title: str = "",
) -> dict[str, Any]:
    """Return the content of a study file on one dataset, without validation data.

    Parameters
    ----------
    data
        Fields of the data's section; `mean` and `std` become fields of every model.
    groups
        Columns whose groups are compared. Samples are drawn by class unless the data say otherwise.
    models, methods, audits, attacks
        Sections by name.
    training
        Fields that all methods share.
    seeds, title
        Seeds of the trainings, and title of the study.
    """
    normalisation = {name: data[name] for name in ("mean", "std") if name in data}
    own = {name: value for name, value in data.items() if name not in normalisation}
    sections: dict[str, Any] = {
        "title": title,
        "seeds": list(seeds),
        "data": {str(data["data"]): {"by": "class", "group": list(groups), **own}},
        "model": {name: {**normalisation, **fields} for name, fields in models.items()},
        "audit": dict(audits or {}),
        "attack": dict(attacks or {}),
    }
    if methods:
        sections["train"] = {"validation": "0", **(training or {}), **methods}
    return {name: value for name, value in sections.items() if value}


def spelled(name: str, **fields: Any) -> str:
    """Return a method with its fields in the spelling of options.

    >>> spelled("fat", weight=0.5, radius="4/255")
    'fat:weight=0.5,radius=4/255'
    """
    return f"{name}:{','.join(f'{field}={value}' for field, value in fields.items())}"


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean of one number per seed, with the 95 % interval of Student's t.

    >>> print(over_seeds([0.30, 0.32, 0.31]).text(100, 1))
    31.0 ± 2.5
    """

    mean: float
    low: float
    high: float

    @property
    def interval(self) -> Interval:
        """Both limits."""
        return self.low, self.high

    def times(self, factor: float) -> "SeedMean":
        """Return the mean in another unit, for instance a share in points; the factor is positive."""
        return SeedMean(factor * self.mean, factor * self.low, factor * self.high)

    def widened(self, half: float) -> "SeedMean":
        """Return the mean with an interval that includes another, independent error with this half-width.

        >>> SeedMean(1.0, -2.0, 4.0).widened(4.0)
        SeedMean(mean=1.0, low=-4.0, high=6.0)
        """
        both = float(np.hypot((self.high - self.low) / 2, half))
        return SeedMean(self.mean, self.mean - both, self.mean + both)

    def text(self, scale: float = 1.0, digits: int = 3) -> str:
        """Return the mean ± half of the interval's width, times `scale`; the mean alone if there is one seed."""
        mean = f"{round(scale * self.mean, digits) + 0.0:.{digits}f}".replace("-", "−")  # + 0.0: no "−0.000"
        half = scale * (self.high - self.low) / 2
        return f"{mean} ± {half:.{digits}f}" if np.isfinite(half) else mean

    def signed(self, digits: int = 3) -> str:
        """Return the text with a plus sign if the mean is not below 0.

        >>> SeedMean(0.25, 0.0, 0.5).signed(2), SeedMean(-0.25, -0.5, 0.0).signed(2)
        ('+0.25 ± 0.25', '−0.25 ± 0.25')
        """
        return ("+" if self.mean >= 0 else "") + self.text(digits=digits)


def over_seeds(values: ArrayLike) -> SeedMean:
    """Return the mean of one number per seed; the interval of a single seed is the whole line.

    The interval is also the whole line if all seeds agree to the last digit, as shares of few samples may do by
    accident: an interval of width 0 would decide every claim.

    >>> over_seeds([2.0]).interval, over_seeds([0.5, 0.5, 0.5]).interval
    ((-inf, inf), (-inf, inf))
    """
    given = np.asarray(values, dtype=float)
    if given.ndim != 1 or len(given) == 0 or not np.isfinite(given).all():
        raise InputError(f"Expected one finite number per seed; given {given.tolist()!r}.")
    if np.ptp(given) <= _SAME * max(1.0, float(np.abs(given).max())):
        return SeedMean(float(given[0]), -np.inf, np.inf)
    half = stats.t.ppf(0.975, len(given) - 1) * given.std(ddof=1) / np.sqrt(len(given))
    return SeedMean(float(given.mean()), float(given.mean() - half), float(given.mean() + half))


def slope_over_seeds(x: Sequence[float], values: ArrayLike) -> SeedMean:
    """Return the mean over seeds of the slope of a line through each seed's values along a sweep.

    Parameters
    ----------
    x
        Positions along the sweep.
    values
        One row per seed, and one column per position.

    >>> slope_over_seeds([0, 1, 2], [[0.0, 1.0, 2.0], [0.0, 1.1, 2.2]]).mean
    1.05
    """
    rows = np.asarray(values, dtype=float)
    if rows.ndim != 2 or rows.shape[1] != len(x) or len(x) < 2:
        raise InputError(f"Expected one row per seed with {len(x)} values, at least 2; given the shape {rows.shape}.")
    return over_seeds([round(float(np.polyfit(x, row, 1)[0]), 12) for row in rows])
