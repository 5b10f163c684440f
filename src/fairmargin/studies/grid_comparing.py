"""Comparing groups by what a study measured, each comparison once, kept, and in any engine the same."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from fairmargin.analyses.audit import AuditResult, audit
from fairmargin.analyses.robust_accuracy import RobustAccuracy, accuracy_under_attack
from fairmargin.core.distances import Distances
from fairmargin.core.keys import content_hash
from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress
from fairmargin.engine.task import Engine, Task
from fairmargin.inference.settings import AuditSettings
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.checksums import stamped, unstamped
from fairmargin.store.received import read_plain
from fairmargin.studies.grid import ATTACK, MEASURE, Measure
from fairmargin.studies.grid_folder import GridFolder, Record
from fairmargin.studies.grid_work import Attempt, attempted
from fairmargin.studies.study_sections import AttackSection

Compared = AuditResult | RobustAccuracy
_KINDS: Mapping[str, type[AuditResult] | type[RobustAccuracy]] = {MEASURE: AuditResult, ATTACK: RobustAccuracy}


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Groups to be compared by a measurement, and the file that keeps what is found.

    Parameters
    ----------
    folder
        RUN.
    record
        Of the measurement.
    measure
        What was measured.
    partition, plan
        The groups, and how they are compared.
    """

    folder: GridFolder
    record: Record
    measure: Measure
    partition: Partition
    plan: AuditSettings

    @property
    def key(self) -> str:
        """A hash of all that the result depends on."""
        plan, groups = self.plan, self.partition
        content = sha256(repr(groups.labels).encode() + groups.membership.tobytes()).hexdigest()
        settings = (plan.confidence, plan.resamples, plan.smallest_group, plan.seed)
        about = {"shards": self.record.shards, "partition": groups.name, "groups": content, "plan": settings}
        return content_hash(about | {"task": self.measure.parts()})

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder.path / "compared" / f"{self.key}.json"

    def kept(self) -> Compared | None:
        """What the file holds; None if it is not there yet, was edited or is damaged: the distances are what counts."""
        try:
            return _KINDS[self.record.kind].from_json(unstamped(read_plain(self.path).decode()))
        except (OSError, ValueError):
            return None

    def found(self) -> Compared:
        """What the file holds, or else made now and kept."""
        known = self.kept()
        if known is not None:
            return known
        made = compare_groups(self)
        atomic_write_text(self.path, stamped(made.to_json()))
        return made


def compare_groups(asked: Comparison) -> Compared:
    """Compare, perhaps in another process; the distances are read there, since they need not travel."""
    distances: Distances = asked.folder.distances(asked.record)
    if not isinstance(asked.measure.section, AttackSection):
        return audit(distances, asked.partition, asked.plan)
    return accuracy_under_attack(
        distances.correct,
        distances.unreached,
        asked.partition,
        asked.plan,
        attack=asked.measure.section.attack,
        norm=distances.norm,
        radius=asked.measure.radius,
        bound=distances.bound,
    )


def compare_missing(comparisons: Sequence[Comparison], engine: Engine, tell: Progress) -> dict[str, Attempt]:
    """Make and keep every comparison that is not kept yet; those that could not be made, by key, with the reason.

    Guarantee: the same numbers in any engine, since every comparison draws from its plan's seed alone.
    """
    total = {each.key: each for each in comparisons}
    missing = {key: each for key, each in total.items() if each.kept() is None}
    what, done, failed = "comparing groups", len(total) - len(missing), {}
    tell(what, done, len(total))
    tasks = [Task(key, attempted, (compare_groups, (each,))) for key, each in missing.items()]
    for finished, attempt in engine.run(tasks):
        if attempt.failure:
            failed[finished.key] = attempt
        else:
            atomic_write_text(missing[finished.key].path, stamped(attempt.result.to_json()))
        done += 1
        tell(what, done, len(total))
    return failed
