"""Compare audits of the same groups at several epochs of a training."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar

from fairmargin.analyses.audit import AuditResult
from fairmargin.analyses.cells import GROUP, group_cell
from fairmargin.analyses.table import GroupTable
from fairmargin.core.codec import Format
from fairmargin.errors import InputError
from fairmargin.inference.agreement import SignAgreement, sign_agreement
from fairmargin.inference.estimate import NO_VERDICT, TOO_FEW, Estimate
from fairmargin.presentation.formatting import limits_text, plain, signed_percent, table_percent
from fairmargin.presentation.section import Cell, Column, Section, Table


@dataclass(frozen=True, slots=True)
class GroupOverEpochs:
    """σ of one group at each epoch."""

    group: str
    size: int
    sigmas: tuple[Estimate, ...]
    too_few: bool = False  # samples for a verdict


@dataclass(frozen=True, slots=True)
class EpochAgreement:
    """Agreement of two epochs on the sign of σ."""

    earlier: str
    later: str
    found: SignAgreement

    @property
    def sentence(self) -> str:
        """The agreement beside the agreement that chance would give."""
        signs = self.found
        if not signs.groups:
            return f"Epochs {self.earlier} and {self.later}: no group has a σ at both."
        return (
            f"Epochs {self.earlier} and {self.later} agree on the sign of σ for {round(signs.share * signs.groups)} of "
            f"{signs.groups} groups; by chance {signs.chance * signs.groups:.1f} would."
        )


@dataclass(frozen=True, slots=True)
class EpochComparison(GroupTable[GroupOverEpochs]):
    """σ of every group at several epochs, and how far the epochs agree.

    Parameters
    ----------
    partition, groups
        The groups.
    epochs
        The epochs, in the order of the training: "1 (first)", "20 (last)".
    agreements
        Every pair of epochs.
    caption
        What was measured: samples, norm, direction of error.
    """

    FORMAT: ClassVar[Format] = Format(1, "comparison of epochs", "Run `fairmargin train` again")

    partition: str
    groups: tuple[GroupOverEpochs, ...]
    epochs: tuple[str, ...]
    agreements: tuple[EpochAgreement, ...]
    caption: str = ""

    @property
    def title(self) -> str:
        """What is compared, in half a sentence."""
        return f"σ by {plain(self.partition)} at each epoch"

    def contradiction(self) -> str:
        """Return why these values cannot be a stored result; empty if they can."""
        if not self.groups:
            return "there are no groups"
        return "" if all(len(row.sigmas) == len(self.epochs) for row in self.groups) else "a σ is missing"

    def finding(self, row: GroupOverEpochs) -> str:
        """Return σ of a group at each epoch."""
        pairs = zip(self.epochs, row.sigmas, strict=True)
        values = [f"{signed_percent(s.value) if s.is_defined else 'undefined'} at epoch {name}" for name, s in pairs]
        return f"{plain(row.group)}: σ is {', '.join(values)}."

    def records(self) -> list[dict[str, Any]]:
        """Return one row per group, with three columns per epoch."""
        rows = []
        for row in self.groups:
            columns: dict[str, Any] = {"partition": self.partition, "group": row.group, "size": row.size}
            for name, sigma in zip(self.epochs, row.sigmas, strict=True):
                at = f"sigma_{name.partition(' ')[0]}"
                columns |= {at: sigma.value, f"{at}_low": sigma.low, f"{at}_high": sigma.high}
            rows.append(columns)
        return rows

    def section(self) -> Section:
        """Return a table with a column per epoch."""
        table = Table(
            columns=(GROUP, *(Column(f"epoch {name}") for name in self.epochs)),
            rows=tuple((group_cell(row.group), *map(_with_interval, row.sigmas)) for row in self.groups),
            caption=self.caption,
        )
        few = [plain(row.group) for row in self.groups if row.too_few]
        cautions = (f"Too few samples for a verdict: {', '.join(few)}. Read their σ with care.",) if few else ()
        sentences = tuple(each.sentence for each in self.agreements)
        findings = tuple(self.finding(row) for row in self)
        return Section(self.title, sentences=sentences, findings=findings, cautions=cautions, tables=(table,))


def compare_epochs(audits: Mapping[str, AuditResult]) -> EpochComparison:
    """Compare audits of the same groups at several epochs.

    Parameters
    ----------
    audits
        The audits by epoch, in the order of the training.
    """
    if not audits:
        raise InputError("There are no audits of epochs to compare.")
    first = next(iter(audits.values()))
    rows = tuple(
        GroupOverEpochs(
            row.group,
            row.size,
            tuple(audit[row.group].sigma for audit in audits.values()),
            row.verdict in (TOO_FEW, NO_VERDICT),
        )
        for row in first
    )
    agreements = tuple(
        EpochAgreement(
            a.partition(" ")[0],
            b.partition(" ")[0],
            sign_agreement(*({row.group: row.sigma.value for row in audits[name]} for name in (a, b))),
        )
        for a, b in combinations(audits, 2)
    )
    caption = f"{first.overall.size:,} samples, {first.norm}, {first.bound.words}"
    return EpochComparison(first.partition, rows, tuple(audits), agreements, caption)


def _with_interval(sigma: Estimate) -> Cell:
    if not sigma.is_defined:
        return Cell("undefined")
    limits = limits_text(sigma.low, sigma.high, table_percent)
    return Cell(f"{table_percent(sigma.value)} ({limits})")
