"""Check whether an attack was strong enough, by the gaps between groups at rising budgets."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Final, Literal

import numpy as np

from fairmargin.analyses.alarms import (
    NO_GRADIENT,
    SIGNS,
    Alarm,
    Kind,
    alarms_of,
    consequence,
)
from fairmargin.analyses.cells import SAMPLES, VERDICT, count, share, table_of
from fairmargin.analyses.figures import MANY_BANDS, colours_of
from fairmargin.analyses.table import GroupTable
from fairmargin.core.arrays import Floats, Ints, same_length
from fairmargin.core.bound import Bound
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.inference.estimate import TOO_FEW, Estimate
from fairmargin.inference.paired import PairedGaps, mean_of, relative_change, rest_weights
from fairmargin.presentation.formatting import (
    level_text,
    limits_text,
    listed,
    number,
    percent,
    plain,
    points,
    quoted,
    signed_percent,
    table_percent,
)
from fairmargin.presentation.section import (
    BAD,
    GOOD,
    UNSURE,
    Cell,
    Column,
    Courses,
    Explanation,
    Line,
    Mark,
    Section,
    Table,
)

SETTLED: Final = "settled"
NOT_SETTLED: Final = "not settled"
UNDECIDED: Final = "undecided"
NOTHING: Final = "nothing to settle"
Settlement = Literal["settled", "not settled", "undecided", "too few samples", "nothing to settle"]

TOLERANCE = 0.02
FEWEST = 10  # of fewer samples a quarter could have moved unseen: 1 − 0.05^(1/10) = 26 %
_STAYS = "an attack that sees nothing, or stays in the wrong place, does not move with more steps either"
NOTHING_TO_SETTLE = {
    Bound.EXACT: "The distances are exact: they were computed, not searched for, and there is nothing to settle.",
    Bound.LOWER: "The distances are certified lower bounds: there was no attack that could have been stronger.",
    Bound.NEITHER: "The distances are a proxy: no budget would make them distances.",
}


@dataclass(frozen=True, slots=True)
class GroupAdequacy:
    """One group under a rising budget."""

    group: str
    size: int  # number of its samples that were measured again
    of: int  # number of all its samples
    distances: tuple[float, ...]  # of the audited budget, ascending
    means: tuple[Estimate, ...]  # mean of the best distances found up to each budget
    means_alone: tuple[float, ...]  # of each budget alone: a larger budget may end elsewhere, and farther away
    sigmas: tuple[float, ...]  # σ against the rest, from the best distances up to each budget
    sigmas_alone: tuple[float, ...]
    mean_change: Estimate  # best mean over all budgets relative to the audited one, minus 1; never above 0
    sigma_change: Estimate  # σ of the best over all budgets minus σ of the audited budget: the verdict rests on it
    last_change: Estimate  # σ of the best up to the last budget minus that up to the one before
    verdict: Settlement  # whether σ still moves
    alarms: tuple[Alarm, ...]  # signs that the attack was misled or too weak

    @property
    def raised(self) -> tuple[Alarm, ...]:
        """The alarms whose share exceeds their threshold."""
        return tuple(alarm for alarm in self.alarms if alarm.raised)


@dataclass(frozen=True, slots=True)
class Adequacy(GroupTable[GroupAdequacy]):
    """Result of `fm.adequacy`: whether the gaps between groups are those of the model or of the attack.

    Parameters
    ----------
    estimator
        Name and settings of the estimator.
    budgets
        Names of the budgets in ascending order; empty where there is nothing to settle.
    audited
        Position of the budget of the audit.
    tolerance
        Largest change of σ that counts as settled.
    """

    FORMAT: ClassVar[Format] = Format(2, "adequacy", "Run `fairmargin audit` again")

    partition: str
    estimator: str
    budgets: tuple[str, ...]
    audited: int
    groups: tuple[GroupAdequacy, ...]
    verdict: Settlement
    bound: Bound
    norm: Norm
    confidence: float
    tolerance: float
    up_to: float

    @property
    def alarmed(self) -> tuple[GroupAdequacy, ...]:
        """The groups for which an alarm was raised."""
        return tuple(row for row in self.groups if row.raised)

    @property
    def title(self) -> str:
        """The partition, and the attack that was checked."""
        return f"{self.partition}: adequacy of {self.estimator or 'the attack'}"

    @property
    def headline(self) -> str:
        """Whether the gaps have settled, and what to do if not."""
        if self.verdict == NOTHING:
            return NOTHING_TO_SETTLE[self.bound]
        limit, last = f"{points(self.tolerance, signed=False)} points of σ", self.budgets[-1]
        names = listed([quoted(row.group) for row in self if row.verdict == self.verdict])
        todo = self._advice()
        if self.verdict == SETTLED:
            settled = f"Settled: budgets of up to {last} moved no group’s gap by more than {limit}."
            unjudged = [quoted(row.group) for row in self if row.verdict != SETTLED]
            if unjudged:
                settled += f" Of {listed(unjudged)} too few samples were looked at to tell."
            return settled + (f" That alone proves little where an alarm is raised: {_STAYS}." if self.alarmed else "")
        if self.verdict == NOT_SETTLED:
            return (
                f"Not settled: budgets of up to {last} still moved the gap of {names} by more than {limit}. The "
                f"distances are not yet those of the model but of the attack. {todo}"
            )
        if self.verdict == UNDECIDED and self.no_gap:
            return f"Undecided: {self.no_gap}."
        if self.verdict == UNDECIDED:
            return (
                f"Undecided: for {names} the samples looked at cannot tell whether {more_of(self.budgets)} would move "
                f"the gap by more than {limit}. {todo}"
            )
        few = f"Too few samples: every group, or all that is outside it, has fewer than {FEWEST}."
        return f"{few} {todo}".strip()

    @property
    def no_gap(self) -> str:
        """Reason why σ is undefined for all groups whose verdict is undecided; empty if it is defined for one."""
        undecided = [row for row in self if row.verdict == UNDECIDED]
        if not undecided or any(row.sigma_change.is_defined for row in undecided):
            return ""
        names = listed([quoted(row.group) for row in undecided])
        if len(self.groups) == 1:
            return f"{names} is the only group, so that there is no gap between groups that could settle"
        return f"{names} cannot be compared, since {undecided[0].sigma_change.reason}"

    def alarm_sentences(self) -> list[str]:
        """Return for every kind of alarm that was raised what it means, where, at what share, and what follows."""
        sentences = []
        for kind in SIGNS:
            raised = [(row, alarm) for row in self for alarm in row.raised if alarm.kind == kind]
            raised.sort(key=lambda pair: -pair[1].share.value)
            where = [
                f"{quoted(row.group)} at {percent(alarm.share.value)} of the samples ({alarm.hits:,} of {alarm.of:,}; "
                f"{level_text(self.confidence)} interval {percent(alarm.share.low)} to {percent(alarm.share.high)})"
                for row, alarm in raised
            ]
            if where:
                what = f"{kind[0].upper()}{kind[1:]} ({SIGNS[kind].meaning})"
                sentences.append(f"{what}: {listed(where)}. {consequence(kind, len(where))}")
        return sentences

    def section(self) -> Section:
        """Return whether the gaps have settled, the alarms, and σ at every budget."""
        title = f"Was the attack strong enough? By {plain(self.partition)}"
        if not self.groups:
            return Section(title, about=self.estimator, answer=self.headline)
        audited = f"audited at {self.budgets[self.audited]}, checked up to {self.budgets[-1]}"
        return Section(
            title=title,
            about=" · ".join(filter(None, (self.estimator, audited))),
            answer=self.headline,
            findings=tuple(self.finding(row) for row in self),
            cautions=tuple(self.alarm_sentences()),
            tables=(_changes_table(self),),
            figures=(budget_courses(self),),
            further=(Section("Every alarm, raised or not", tables=(_alarms_table(self),)),),
            explanations=(
                Explanation(_TOPIC, _PLAINLY),
                Explanation(_TOPIC, _READING),
                *(Explanation(_ALARMS, _alarm_meaning(kind), kind) for kind in SIGNS),
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for other programs: also whether each alarm was raised."""
        content = GroupTable.to_dict(self)
        for row, plain_row in zip(self.groups, content["groups"], strict=True):
            for alarm, plain_alarm in zip(row.alarms, plain_row["alarms"], strict=True):
                plain_alarm["raised"] = alarm.raised
        return content

    def finding(self, row: GroupAdequacy) -> str:
        """Return a sentence on how a group's gap changes from the audited budget to the best of all budgets."""
        name, change = plain(row.group), row.sigma_change
        if row.verdict == TOO_FEW:
            rest = sum(each.size for each in self) - row.size
            return f"{name}: too few samples ({_too_few(row.size, rest)}; {FEWEST} are needed to tell)."
        how = f"the best of all budgets up to {self.budgets[-1]}, instead of {self.budgets[self.audited]},"
        if not change.is_defined:
            mean = f" {how[0].upper()}{how[1:]} moved its mean distance by {signed_percent(row.mean_change.value)}."
            nothing = f"{name}: undecided; {change.reason}, so that it has no gap that could settle."
            return nothing + (mean if row.mean_change.is_defined else "")
        before, after = signed_percent(row.sigmas_alone[self.audited]), signed_percent(row.sigmas[-1])
        limits = limits_text(change.low, change.high, points)
        interval = limits if limits == "no interval" else f"{level_text(self.confidence)} interval {limits}"
        size = f"{points(change.value)} points ({interval})"
        limit = f"{points(self.tolerance, signed=False)} points"
        if row.verdict == SETTLED:
            return f"{name}: settled; {how} moved its σ of {before} by {size}, within {limit}."
        own = ""
        if row.mean_change.is_defined:
            own = f", its own mean distance by {signed_percent(row.mean_change.value)}"
        moved = f"{name}: {row.verdict}; {how} moved its σ from {before} to {after}, by {size}{own}"
        if row.verdict == NOT_SETTLED:
            return f"{moved}: the distances are not yet those of the model but of the attack."
        return f"{moved}; the samples looked at cannot tell whether σ moves by more than {limit}."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group and budget."""
        return [
            {
                "partition": self.partition,
                "group": row.group,
                "size": row.size,
                "of": row.of,
                "budget": budget,
                "audited": i == self.audited,
                "mean": row.means[i].value,
                "mean_low": row.means[i].low,
                "mean_high": row.means[i].high,
                "mean_alone": row.means_alone[i],
                "sigma": row.sigmas[i],
                "sigma_alone": row.sigmas_alone[i],
                "verdict": row.verdict,
                "alarms": ", ".join(alarm.kind for alarm in row.raised),
            }
            for row in self.groups
            for i, budget in enumerate(self.budgets)
        ]

    def contradiction(self) -> str:
        """Return why these values cannot be a stored result; empty if they can."""
        if not self.groups and self.verdict != NOTHING:
            return "there are no groups"
        each = [(row.means, row.means_alone, row.sigmas, row.sigmas_alone) for row in self]
        if any(len(numbers) != len(self.budgets) for row in each for numbers in row):
            return f"every group has a number for each of {len(self.budgets)} budgets"
        return ""

    def _advice(self) -> str:
        """Return what can be done about the verdict, as a sentence; empty where nothing can, or need be."""
        verdict = self.verdict
        if verdict not in (NOT_SETTLED, UNDECIDED, TOO_FEW) or (verdict == UNDECIDED and self.no_gap):
            return ""
        ways = []
        if verdict != NOT_SETTLED and any(row.size < row.of for row in self):
            ways.append("look at more samples (--adequacy-samples, or per_group of fm.adequacy)")
        kinds = {alarm.kind for row in self if row.verdict == verdict for alarm in row.raised}
        if verdict != TOO_FEW and NO_GRADIENT in kinds:
            # More steps of an attack that follows gradients see no more than these did.
            ways.append("undo what hides the gradients, or measure with an attack that needs none (see fm.FromAttack)")
        elif verdict != TOO_FEW:
            ways.append(f"measure with {more_of(self.budgets)}, or with a stronger attack")
        advice = ", or ".join(ways)
        return f"{advice[0].upper()}{advice[1:]}." if advice else ""


def more_of(budgets: Sequence[str]) -> str:
    """Return in words what a larger budget means, judged by the names of the budgets.

    >>> more_of(["50 steps", "100 steps"]), more_of(["budget 1", "budget 2"])
    ('more steps of this attack', 'a larger budget')
    """
    return "more steps of this attack" if all("step" in name for name in budgets) else "a larger budget"


def _too_few(size: int, rest: int) -> str:
    """Name the side that has too few samples, and how many."""
    if rest >= FEWEST:
        return f"{size} of the group"
    return f"{rest} outside the group" if size >= FEWEST else f"{size} of the group and {rest} outside it"


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Everything that was measured for some samples of each group.

    Parameters
    ----------
    runs
        Distances of the same samples, one for each budget, least budget first.
    budgets
        Names of the budgets.
    audited
        Position of the budget of the audit.
    slopes, noise, unaided, others
        See `alarms_of`.
    """

    runs: tuple[Distances, ...]
    budgets: tuple[str, ...]
    audited: int
    slopes: Distances | None = None
    noise: Distances | None = None
    unaided: Distances | None = None
    others: Distances | None = None

    def __post_init__(self) -> None:
        if len(self.runs) < 2 or len(self.runs) != len(self.budgets):
            raise InputError(
                f"Adequacy compares two or more budgets, each with a name; given {len(self.runs)} runs and "
                f"{len(self.budgets)} names."
            )
        if not 0 <= self.audited < len(self.runs):
            raise InputError(f"must be one of 0..{len(self.runs) - 1}", field="audited", given=self.audited)
        first = self.runs[0]
        for run in (*self.runs, *self.looks.values()):
            given, expected = ((each.norm, each.subject, each.keep, len(each)) for each in (run, first))
            if given != expected:
                raise InputError(f"Budgets must be of the same samples in the same norm: given {first!r} and {run!r}.")
            if not np.array_equal(run.correct, first.correct):
                raise InputError(
                    "The runs differ in which samples are classified correctly: they are not of the same model and "
                    "samples."
                )
        if {run.bound for run in self.runs} != {first.bound}:
            raise InputError(
                f"Distances of all budgets must be of the same kind; given "
                f"{', '.join(sorted({run.bound.words for run in self.runs}))}."
            )

    @property
    def looks(self) -> dict[str, Distances]:
        """The measurements besides those of the budgets, by name."""
        every = {"slopes": self.slopes, "noise": self.noise, "unaided": self.unaided, "others": self.others}
        return {name: look for name, look in every.items() if look is not None}

    def take(self, which: Ints) -> "Evidence":
        """Return the same evidence for some of the samples."""
        looks = {name: look.take(which) for name, look in self.looks.items()}
        return Evidence(tuple(run.take(which) for run in self.runs), self.budgets, self.audited, **looks)


def nothing_to_settle(bound: Bound, norm: Norm, partition: str, estimator: str, tolerance: float) -> Adequacy:
    """Return the result for distances that no attack has found, where there is nothing to check."""
    return Adequacy(
        partition=partition,
        estimator=estimator,
        budgets=(),
        audited=0,
        groups=(),
        verdict=NOTHING,
        bound=bound,
        norm=norm,
        confidence=math.nan,
        tolerance=tolerance,
        up_to=math.inf,
    )


def settle(
    evidence: Evidence,
    partition: Partition,
    *,
    estimator: str = "",
    sizes: Ints | None = None,
    tolerance: float = TOLERANCE,
    confidence: float = 0.95,
    up_to: float = math.inf,
) -> Adequacy:
    """Decide whether more steps of an attack still move the gap between groups, and for which groups to raise alarms.

    What the audit reports, σ at the audited budget, is compared with the best that all budgets together found, paired
    sample by sample: every input found is an upper bound whatever the budget, so that the least is the nearest to the
    truth. Settled: the interval of the change lies within the tolerance. Not settled: it lies outside. Else undecided.

    The interval is Student's, with the change of σ linearised in the groups' means, and is for that group alone; a
    group's rest weighs the other groups by their sizes, as the audit does.

    Parameters
    ----------
    evidence
        What was measured.
    partition
        The groups of the same samples.
    estimator
        Name and settings of the estimator.
    sizes
        How many samples each group of the partition has in all, where only some of them were measured.
    tolerance
        Largest change of σ that counts as settled.
    confidence
        Confidence of the intervals.
    up_to
        Distances are averaged as min(distance, up_to). Where some are `inf` and no cap is given, the largest finite
        distance that any budget found.

    >>> runs = tuple(Distances([1.0 + s] * 20 + [2.0] * 20, [True] * 40, "upper", "l2") for s in (0.6, 0.5, 0.0))
    >>> group = Partition.by("sex", ["F"] * 20 + ["M"] * 20)
    >>> found = settle(Evidence(runs, ("25 steps", "50 steps", "100 steps"), audited=1), group)
    >>> found["F"].verdict, round(found["F"].sigma_change.value, 3)
    ('not settled', -0.25)
    """
    check_settings(tolerance, confidence, up_to)
    audited = evidence.runs[evidence.audited]
    same_length(distances=audited, partition=partition)
    if audited.bound is not Bound.UPPER:
        return nothing_to_settle(audited.bound, audited.norm, partition.name, estimator, tolerance)
    total = partition.sizes if sizes is None else np.asarray(sizes)
    found = _Found.of(evidence, up_to)
    gaps = PairedGaps(partition, rest_weights(total), confidence)
    rows = [_row(i, int(of), found, gaps, evidence, tolerance) for i, of in enumerate(total)]
    verdict = _overall([row.verdict for row in rows])
    return Adequacy(
        partition=partition.name,
        estimator=estimator,
        budgets=evidence.budgets,
        audited=evidence.audited,
        groups=tuple(rows),
        verdict=verdict,
        bound=Bound.UPPER,
        norm=audited.norm,
        confidence=confidence,
        tolerance=tolerance,
        up_to=found.cap,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Distances of each budget alone and the best up to each (budgets × samples), capped; the best of all, uncapped."""

    alone: Floats
    best: Floats
    cap: float
    nearest: Distances

    @classmethod
    def of(cls, evidence: Evidence, up_to: float) -> "_Found":
        values, audited = np.stack([run.values for run in evidence.runs]), evidence.runs[evidence.audited]
        cap = _cap(values, up_to)
        alone = np.minimum(values, cap)
        nearest = replace(audited, values=values.min(axis=0), bound=Bound.UPPER, tried=None, estimator="")
        return cls(alone, np.minimum.accumulate(alone, axis=0), cap, nearest)


def _row(i: int, of: int, found: _Found, gaps: PairedGaps, evidence: Evidence, tolerance: float) -> GroupAdequacy:
    """Return the row of group number `i`, of whose `of` samples some were measured at every budget."""
    members, at, confidence = gaps.partition.membership == i, evidence.audited, gaps.confidence
    label, size, audited = gaps.partition.labels[i], int(members.sum()), evidence.runs[evidence.audited]
    sigmas, sigmas_alone = gaps.sigmas(i, found.best), gaps.sigmas(i, found.alone)
    change = gaps.change(i, found.alone[at], found.best[-1])
    mean_change = relative_change(found.alone[at][members], found.best[-1][members], confidence)
    verdict = _verdict(size, len(members) - size, change, tolerance)
    return GroupAdequacy(
        group=label,
        size=size,
        of=of,
        distances=tuple(map(float, np.sort(audited.values[members]))),
        means=tuple(mean_of(run[members], confidence) for run in found.best),
        means_alone=tuple(map(float, found.alone[:, members].mean(axis=1))),
        sigmas=sigmas,
        sigmas_alone=sigmas_alone,
        mean_change=mean_change,
        sigma_change=change,
        last_change=gaps.change(i, found.best[-2], found.best[-1]),
        verdict=verdict,
        alarms=alarms_of(members, audited, found.nearest, confidence, **evidence.looks),
    )


def _verdict(size: int, rest: int, change: Estimate, tolerance: float) -> Settlement:
    if size < FEWEST or 0 < rest < FEWEST:  # without any rest there is no gap, however many samples are looked at
        return TOO_FEW
    if math.isnan(change.low) or math.isnan(change.high):
        return UNDECIDED
    if -tolerance <= change.low and change.high <= tolerance:
        return SETTLED
    return NOT_SETTLED if change.low > tolerance or change.high < -tolerance else UNDECIDED


def _overall(verdicts: Sequence[Settlement]) -> Settlement:
    judged = [verdict for verdict in verdicts if verdict != TOO_FEW]
    if not judged:
        return TOO_FEW
    return NOT_SETTLED if NOT_SETTLED in judged else UNDECIDED if UNDECIDED in judged else SETTLED


def _cap(values: Floats, up_to: float) -> float:
    if math.isfinite(up_to) or np.isfinite(values).all():
        return up_to
    finite = values[np.isfinite(values)]
    return float(finite.max()) if finite.size and finite.max() > 0 else 1.0


def check_settings(tolerance: float, confidence: float, up_to: float) -> None:
    """Refuse what `settle` cannot work with, before anything is measured for it."""
    for name, value in (("tolerance", tolerance), ("confidence", confidence), ("up_to", up_to)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise InputError("must be a number", field=name, given=value)
    if not 0 < tolerance < math.inf:
        raise InputError("must be above 0, for instance 0.02", field="tolerance", given=tolerance)
    if not 0.5 <= confidence < 1:
        raise InputError("must lie in [0.5, 1), for instance 0.95", field="confidence", given=confidence)
    if not up_to > 0:
        raise InputError("must be a radius above 0", field="up_to", given=up_to)


# What console and report show --------------------------------------------------------------------------------------


_PLAINLY = (
    "Here it was checked whether the search for mistakes of the model was thorough enough, by searching again, longer "
    "and shorter, for some samples of each group. It matters because a search that works less well on one group makes "
    "that group look harder to fool than it is, and then a difference on this page says more about the search than "
    "about the model."
)
_READING = (
    "An attack finds an upper bound: with more steps it may find something nearer. If it gains more in one group than "
    "in another, the gap between them is partly the attack’s. Therefore some samples of each group, chosen by their "
    "content, were measured again at other budgets. σ as audited is compared with σ of the best that all "
    "budgets found, each sample with itself. Settled: the interval of the change lies within the tolerance; not "
    "settled: outside; undecided: neither. A larger budget alone may end farther away, in another place; the best "
    "found so far cannot."
)
_MARKS: dict[str, Mark] = {SETTLED: GOOD, NOT_SETTLED: BAD, UNDECIDED: UNSURE, TOO_FEW: UNSURE, NOTHING: ""}
_TOPIC = "Was the attack strong enough?"
_ALARMS = "What the alarms mean"


def _changes_table(result: Adequacy) -> Table:
    audited, last = result.budgets[result.audited], result.budgets[-1]
    capped = f" Distances capped at {number(result.up_to)}." if math.isfinite(result.up_to) else ""
    level = f"{level_text(result.confidence)} interval"

    def sigma_cell(sigma: float) -> Cell:
        return Cell("undefined" if math.isnan(sigma) else table_percent(sigma))

    rows = result.groups
    columns = [
        (VERDICT, [Cell(row.verdict) for row in rows]),
        (Column("σ", "audited", hidden=True), [sigma_cell(row.sigmas_alone[result.audited]) for row in rows]),
        (Column("σ", "best", hidden=True), [sigma_cell(row.sigmas[-1]) for row in rows]),
        (
            Column("change of σ", "in points", interval=level),
            [share(row.sigma_change, signed=True, unit="") for row in rows],
        ),
        (Column("change of mean", hidden=True), [share(row.mean_change, signed=True) for row in rows]),
        (SAMPLES, [count(row.size) for row in rows]),
        (
            Column("alarms", kind="text"),
            [Cell(", ".join(alarm.kind for alarm in row.raised) or "none") for row in rows],
        ),
    ]
    return table_of(
        rows,
        columns,
        marks=(_MARKS[row.verdict] for row in rows),
        caption=(
            f"σ at {audited}, as audited, and of the best that all budgets up to {last} found, on the samples looked "
            f"at. Below a change stands its {level}, paired, for that group alone; the tolerance is "
            f"{points(result.tolerance, signed=False)} points.{capped}"
        ),
        label=f"Budgets by {plain(result.partition)}",
    )


def _alarms_table(result: Adequacy) -> Table:
    kinds = list(dict.fromkeys(alarm.kind for row in result for alarm in row.alarms))
    cells = zip(*([_alarm_cell(alarm) for alarm in row.alarms] for row in result), strict=True)
    return table_of(
        result.groups,
        [(Column(kind), column) for kind, column in zip(kinds, cells, strict=True)],
        caption=(
            "Correctly classified samples that show a sign that the attack was misled or too weak, with the exact "
            "interval of the share."
        ),
        label=f"Alarms by {plain(result.partition)}",
    )


def _alarm_cell(alarm: Alarm) -> Cell:
    if not alarm.share.is_defined:
        return Cell("–", note=alarm.share.reason)
    interval = f"[{percent(alarm.share.low)}, {percent(alarm.share.high)}]"
    return Cell(f"{alarm.hits:,} of {alarm.of:,}", interval, "raised" if alarm.raised else "")


def _alarm_meaning(kind: Kind) -> str:
    sign = SIGNS[kind]
    above = f"Raised above {percent(sign.threshold)}" if sign.threshold else "Raised by any sample"
    return f"{sign.meaning[0].upper()}{sign.meaning[1:]}. {consequence(kind)} {above}: {sign.reason}."


def budget_courses(result: Adequacy) -> Courses:
    """Return the data of a figure: one line per group, with its mean distance at each budget of the attack.

    A line shows the smallest distances found with any budget up to this one, with intervals if there are at most five
    groups. A second, dotted line shows the distances found with each budget alone, if they differ.
    """
    rows = list(result)
    order = sorted(rows, key=lambda row: row.means_alone[result.audited])
    colours = colours_of([row.group for row in rows], order[0].group, order[-1].group)
    in_steps = all(name.endswith((" step", " steps")) for name in result.budgets)
    lines = []
    for place, row in enumerate(rows):
        best = tuple(mean.value for mean in row.means)
        low, high = (tuple(getattr(mean, end) for mean in row.means) for end in ("low", "high"))
        known = len(rows) <= MANY_BANDS and bool(np.isfinite(low).all())
        beyond = any(alone > 1.001 * value for alone, value in zip(row.means_alone, best, strict=True))
        lines.append(
            Line(
                label=row.group,
                x=tuple(map(float, range(len(best)))),
                y=best,
                place=place,
                low=low if known else (),
                high=high if known else (),
                alone=row.means_alone if beyond and colours[row.group] != "grey" else (),
                colour=colours[row.group],
            )
        )
    return Courses(
        title="Distance against budget.",
        x_label=f"budget of the attack{' (steps)' if in_steps else ''}",
        y_label=f"mean distance ({result.norm})",
        ticks=tuple(name.split(" step")[0] if in_steps else name for name in result.budgets),
        lines=tuple(lines),
        chosen=result.audited,
        chosen_label="audited",
        caption=(
            "Solid: the best found up to each budget; dotted, where it differs: what that budget found alone. Lines "
            "that still fall at the right have not settled."
        ),
        alt=f"Each group’s mean distance against the attack’s budget. {result.headline}",
    )
