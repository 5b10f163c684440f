"""Power of an audit: the smallest σ that it would detect, or the number of samples that it would need.

The log of 1 + σ has a standard error of √(v²/n + w²/m), where v and w are the coefficients of variation (standard
deviation over mean) of the group's and the rest's distances, and n and m their sizes. An effect is detected with the
given power when it is z(1 − α/2k) + z(power) standard errors large, k groups being tested.
"""

import math
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from fairmargin.analyses.cells import count, table_of
from fairmargin.analyses.table import GroupTable, columns_of
from fairmargin.core.arrays import same_length
from fairmargin.core.codec import Format
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.undefined import Undefined, reason_of
from fairmargin.errors import InputError
from fairmargin.inference.censoring import horizon_of, restrict
from fairmargin.inference.distributions import normal_quantile
from fairmargin.inference.permutation import hypotheses
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import (
    SAMPLES,
    UNITS,
    effective_units,
    group_means,
    make_cells,
    mean_and_error2,
    rest_of,
)
from fairmargin.presentation.formatting import percent, plain, signed_percent, table_percent
from fairmargin.presentation.section import Cell, Column, Section


@dataclass(frozen=True, slots=True)
class GroupPower:
    """What an audit can detect of one group."""

    group: str
    size: int
    rest_size: int
    smallest_drop: float  # the σ below 0 nearest to 0 that would be detected
    smallest_gain: float  # the same above 0
    samples_needed: float  # of this group in all, to detect the σ of the result, if the rest stays as it is


@dataclass(frozen=True, slots=True)
class Power(GroupTable[GroupPower]):
    """What an audit of these groups can detect.

    Parameters
    ----------
    sigma
        The effect that matters, which `samples_needed` is for.
    chance
        The probability with which an effect is detected.
    confidence
        The confidence of the audit.
    """

    FORMAT: ClassVar[Format] = Format(1, "power", "Run `fairmargin power` again")

    partition: str
    groups: tuple[GroupPower, ...]
    sigma: float
    chance: float
    confidence: float

    @property
    def title(self) -> str:
        """The groups, and the probability with which an effect is detected."""
        return f"{self.partition}: detected with probability {percent(self.chance)}"

    def section(self) -> Section:
        """Return what can be detected of every group, and how many samples it takes."""

        def needed(row: GroupPower) -> Cell:
            if math.isnan(row.samples_needed):
                return Cell("undefined", note=reason_of(row.samples_needed))
            return Cell(f"{math.ceil(row.samples_needed):,}")

        def effect(sigma: float) -> Cell:
            return Cell("undefined", note=reason_of(sigma)) if math.isnan(sigma) else Cell(table_percent(sigma))

        return Section(
            title=f"What can be detected, by {plain(self.partition)}" if self.partition else "What can be detected",
            about=f"detected with probability {percent(self.chance)}",
            sentences=tuple(self.finding(row) for row in self if math.isnan(row.samples_needed)),
            findings=tuple(self.finding(row) for row in self),
            tables=(
                table_of(
                    self.groups,
                    [
                        (Column("samples"), [count(row.size) for row in self]),
                        (Column("rest"), [count(row.rest_size) for row in self]),
                        (Column("smallest drop", "of σ"), [effect(row.smallest_drop) for row in self]),
                        (Column("smallest gain", "of σ"), [effect(row.smallest_gain) for row in self]),
                        (
                            Column("samples needed", f"for σ = {signed_percent(self.sigma)}"),
                            [needed(row) for row in self],
                        ),
                    ],
                    caption=(
                        "The σ nearest to 0 that would be detected, below and above, and how many samples of the group "
                        "would detect the σ asked for, its rest being as large as it is."
                    ),
                    label=f"Power by {plain(self.partition)}",
                ),
            ),
        )

    def finding(self, row: GroupPower) -> str:
        """Return which σ of a group would be detected, and how many samples the one asked for takes."""
        drop, gain, needed = row.smallest_drop, row.smallest_gain, row.samples_needed
        seen = f"no σ would be detected ({reason_of(drop) or 'undefined'})"
        if not math.isnan(drop):
            seen = f"σ of {signed_percent(drop)} or less, and of {signed_percent(gain)} or more, would be detected"
        takes = f"cannot be detected ({reason_of(needed) or 'undefined'})"
        if not math.isnan(needed):
            takes = f"takes {needed:,.0f} samples of it"
        return f"{plain(row.group)}: {seen}; σ = {signed_percent(self.sigma)} {takes}."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group."""
        names = tuple(field.name for field in fields(GroupPower))
        return [{"partition": self.partition, **columns_of(row, names)} for row in self.groups]


def power(
    distances: Distances,
    partition: Partition,
    settings: AuditSettings | None = None,
    *,
    sigma: float = -0.2,
    chance: float = 0.8,
) -> Power:
    """Return what an audit of these groups can detect, judged by the spread of the given distances.

    Parameters
    ----------
    sigma
        The effect that matters, for which `samples_needed` is computed.
    chance
        The power: the probability with which this effect should be detected.

    >>> from fairmargin.core.bound import Bound
    >>> from fairmargin.core.norm import Norm
    >>> values = np.random.default_rng(0).gamma(2, 1, 1000)
    >>> d = Distances(values, values > 0, Bound.EXACT, Norm.L2)
    >>> found = power(d, Partition.by("sex", ["F"] * 100 + ["M"] * 900))
    >>> round(found["F"].smallest_drop, 2)
    -0.19
    """
    chosen = settings or AuditSettings()
    same_length(distances=distances, partition=partition)
    chosen.refuse_weights("`power`, which predicts audits of equally weighted samples")
    horizon = horizon_of([distances], partition, None, chosen.up_to)
    known = restrict(distances, partition, None, horizon.up_to)
    cells = make_cells(known.values, partition, None, chosen.cluster_codes(len(distances)))
    if cells is None:
        raise InputError("`power` needs clusters that lie in one group each; these span groups.")
    moments = cells.moments()
    own, own_error2 = group_means(moments)
    rest_moments = rest_of(moments)[:, 0]
    rest, rest_error2 = mean_and_error2(rest_moments)
    units, rest_units = moments[:, 0, UNITS], rest_moments[:, UNITS]
    effective, rest_effective = effective_units(moments), effective_units(rest_moments[:, None])
    tests = hypotheses(np.ones(len(own), dtype=np.bool_))
    rows = []
    for i, label in enumerate(partition.labels):
        size, rest_size = int(moments[i, 0, SAMPLES]), int(rest_moments[i, SAMPLES])
        reason = f"{known.gaps[i]}. {known.remedy}" if known.gaps[i] else ""
        if rest_units[i] == 0:
            reason = f"there is no sample outside group {label!r}"
        if reason:
            rows.append(GroupPower(label, size, rest_size, *[Undefined(reason)] * 3))
            continue
        variation = math.sqrt(own_error2[i] * units[i]) / own[i] if own[i] > 0 else math.nan
        rest_variation = math.sqrt(rest_error2[i] * rest_units[i]) / rest[i] if rest[i] > 0 else math.nan
        setting = Setting(variation, rest_variation, float(rest_units[i]), tests, chosen.confidence, chance)
        drop, needed = setting.smallest_drop(float(units[i])), setting.samples_needed(sigma)
        fewest = chosen.fewest_for_verdict
        if min(effective[i], rest_effective[i]) < fewest and not math.isnan(drop):
            drop = Undefined(f"fewer than {fewest} effective samples: an audit gives no verdict")
        if not math.isnan(needed):  # from clusters to samples
            needed = max(needed * size / float(units[i]), fewest * size / float(effective[i]))
        gain = drop if math.isnan(drop) else 1 / (1 + drop) - 1
        rows.append(GroupPower(label, size, rest_size, drop, gain, needed))
    return Power(partition.name, tuple(rows), sigma, chance, chosen.confidence)


def planned_power(
    size: int, rest: int, *, groups: int, variation: float, sigma: float, chance: float, confidence: float
) -> Power:
    """Return what an audit of one of several groups would detect, before anything is measured.

    `size` and `rest` are the numbers of samples of the group and of the others, and `variation` is the standard
    deviation of the distances over their mean.
    """
    setting = Setting(variation, variation, rest, 1 if groups == 2 else groups, confidence, chance)
    drop = setting.smallest_drop(size)
    row = GroupPower("planned", size, rest, drop, 1 / (1 + drop) - 1, setting.samples_needed(sigma))
    return Power("", (row,), sigma, chance, confidence)


@dataclass(frozen=True, slots=True)
class Setting:
    """Spread of a group and of its rest, size of the rest, number of tests, confidence and power.

    >>> Setting(variation=0.8, rest_variation=0.8, rest_size=2000, tests=5).samples_needed(-0.2)
    163.0
    """

    variation: float  # standard deviation over mean of the group's distances
    rest_variation: float
    rest_size: float
    tests: int = 1
    confidence: float = 0.95
    chance: float = 0.8

    def __post_init__(self) -> None:
        if not 0 < self.chance < 1:
            raise InputError("must lie between 0 and 1, for instance 0.8", field="chance", given=self.chance)
        if not 0 < self.confidence < 1:
            raise InputError("must lie between 0 and 1, for instance 0.95", field="confidence", given=self.confidence)
        if self.rest_size < 1 or self.tests < 1:
            raise InputError(
                "The rest needs at least one sample, and one group is tested; "
                f"given {self.rest_size:,} and {self.tests:,}."
            )
        if self.variation < 0 or self.rest_variation < 0:
            raise InputError("A variation is the standard deviation over the mean; it cannot be negative.")

    def smallest_drop(self, size: float) -> float:
        """Return the σ below 0 nearest to 0 that a group of `size` samples would be found to have."""
        error2 = self.variation**2 / size + self.rest_variation**2 / self.rest_size
        if math.isnan(error2):
            return Undefined("a side has no spread, or a mean distance of 0")
        return math.expm1(-self._errors() * math.sqrt(error2))

    def samples_needed(self, sigma: float) -> float:
        """Return how many samples of the group detect `sigma`, the rest being as large as it is."""
        if not sigma > -1 or sigma == 0:
            raise InputError("must lie above −1 and not be 0, for instance -0.2", field="sigma", given=sigma)
        left = (math.log1p(sigma) / self._errors()) ** 2 - self.rest_variation**2 / self.rest_size
        if math.isnan(left) or math.isnan(self.variation):
            return Undefined("a side has no spread, or a mean distance of 0")
        if left <= 0:
            return Undefined(
                f"the rest ({self.rest_size:,.0f} samples) is too small to detect σ = {signed_percent(sigma)} "
                "at any size"
            )
        return float(max(2, math.ceil(self.variation**2 / left)))

    def _errors(self) -> float:
        alpha = (1 - self.confidence) / self.tests
        return normal_quantile(1 - alpha / 2) + normal_quantile(self.chance)


# What console and report show --------------------------------------------------------------------------------------
