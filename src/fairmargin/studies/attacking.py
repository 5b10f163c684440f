"""A run of attacks at fixed radii: load, attack shard by shard, compare groups, and keep everything in the run folder.

RUN/attack_study.json     the study
RUN/shards/               what came of every attack, written as it is found
RUN/robust_accuracy.json  the results, and how they came about; robust_accuracy.csv is the same as a table
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from fairmargin.attacks.catalog import attack_in_options, describe_attack, parse_attack
from fairmargin.attacks.outcomes import attack_shard, check_radius
from fairmargin.attacks.protocol import Attack, check_attack
from fairmargin.attacks.robust_accuracy import spelled
from fairmargin.attacks.unseen import unseen_classes
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.core.radius import parse_radius
from fairmargin.distances.combine import tightest
from fairmargin.engine.task import Engine, Task
from fairmargin.errors import FairmarginError, InputError, StoreError
from fairmargin.metrics.plan import AuditPlan
from fairmargin.metrics.results import encode
from fairmargin.metrics.robust_accuracy import RobustAccuracy
from fairmargin.metrics.under_attack import accuracy_under_attack
from fairmargin.store.atomic import atomic_write_text
from fairmargin.store.checksums import check_seal, seal
from fairmargin.store.received import read_plain
from fairmargin.store.table import write_csv
from fairmargin.studies.loading import Loaded, audit_plan, load_study, partitions_of
from fairmargin.studies.measuring import Plan, Progress, Slice, Workshop, measure_missing, shards_of
from fairmargin.studies.preparing import versions
from fairmargin.studies.run_folder import Measurement, RunFolder
from fairmargin.studies.study import Study, differing

DEFAULT = "pgd"
STUDY, RESULT, TABLE = "attack_study.json", "robust_accuracy.json", "robust_accuracy.csv"


@dataclass(frozen=True, slots=True, eq=False)
class FinishedAttacks:
    """A run that went through all stages."""

    folder: Path
    found: tuple[RobustAccuracy, ...]
    notes: tuple[str, ...]
    measured: int  # shards attacked now
    reused: int  # shards that were there already

    @property
    def table(self) -> Path:
        """Where the table lies."""
        return self.folder / TABLE


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What came of an attack at a radius, or of several together."""

    attack: str
    radius: float
    distances: Distances


def run_attacks(
    study: Study,
    attacks: Sequence[str],
    radii: Sequence[str],
    out: Path,
    engine: Engine,
    *,
    command: str = "",
    progress: Progress | None = None,
) -> FinishedAttacks:
    """Every attack at every radius, on every partition of the study; what the folder holds is not attacked again.

    Of several attacks in one norm, what they leave together is added: a sample counts as robust if it withstands all.
    """
    tell = progress or _silent
    chosen = {spelled(attack): attack for attack in map(parse_attack, attacks or (DEFAULT,))}
    lengths = _lengths(radii)
    loaded = _with_notes(load_study(study, tell))
    partitions, plan = partitions_of(study, loaded), audit_plan(study, loaded)
    _check(loaded, chosen.values(), lengths)
    folder = RunFolder(Path(out))
    store = folder.store()
    with store.lock():
        _claim(folder, study)
        workshop = Workshop(store, engine, tell)
        outcomes, kept, measured, reused = [], [], 0, 0
        for text, attack in chosen.items():
            for radius in lengths:
                tasks = Plan(tuple(_tasks(loaded, attack, radius, study.seed)), _about(attack, radius, study.seed))
                now = measure_missing([tasks], workshop, f"attacking by {text} at {radius:.4g}")
                measured, reused = measured + now, reused + len(tasks.tasks) - now
                kept.append({**_about(attack, radius, study.seed), "keys": list(tasks.keys)})
                outcomes.append(Outcome(text, radius, folder.distances(Measurement(text, tasks.keys))))
        outcomes += _together(outcomes)
        found = _compared(outcomes, partitions, plan, tell)
        _write(folder.path, found, _provenance(study, loaded, command) | {"outcomes": kept})
    return FinishedAttacks(folder.path, found, loaded.notes, measured, reused)


def _with_notes(loaded: Loaded) -> Loaded:
    """What was loaded, with a note on classes that the model answers and no sample has."""
    assert loaded.model is not None
    assert loaded.positions is not None
    unseen = unseen_classes(loaded.model.classes, loaded.positions, "the samples")
    return replace(loaded, notes=(*loaded.notes, *unseen))


def _compared(
    outcomes: Sequence[Outcome], partitions: Sequence[Partition], plan: AuditPlan, tell: Progress
) -> tuple[RobustAccuracy, ...]:
    found: list[RobustAccuracy] = []
    for outcome in outcomes:
        for partition in partitions:
            tell("comparing groups", len(found), len(outcomes) * len(partitions))
            found.append(
                accuracy_under_attack(
                    outcome.distances.correct,
                    outcome.distances.unreached,
                    partition,
                    plan,
                    attack=outcome.attack,
                    norm=outcome.distances.norm,
                    radius=outcome.radius,
                    bound=outcome.distances.bound,
                )
            )
    tell("comparing groups", len(found), len(found))
    return tuple(found)


def read_robust_accuracy(folder: Path | str) -> tuple[RobustAccuracy, ...]:
    """What a run of attacks found."""
    path = Path(folder) / RESULT
    try:
        content = json.loads(read_plain(path))["found"]
        check_seal(path.parent, [RESULT])
        return tuple(RobustAccuracy.from_json(json.dumps(each)) for each in content)
    except FileNotFoundError:
        raise StoreError(f"There is no {RESULT} in {folder}. Run `fairmargin attack … --out {folder}` first.") from None
    except StoreError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(f"{path} is damaged ({error}). Delete it and run the attack again.") from None


def _lengths(radii: Sequence[str]) -> tuple[float, ...]:
    if not radii:
        raise InputError("How far may the attack go? Give --radius, for instance 4/255 for images in [0, 1].")
    lengths = tuple(dict.fromkeys(map(parse_radius, radii)))
    if 0 in lengths:
        raise InputError("--radius must be above 0: at 0 nothing is attacked, and robust accuracy is accuracy.")
    return lengths


def _check(loaded: Loaded, attacks: Iterable[Attack], lengths: Sequence[float]) -> None:
    """Refuse, before anything is done, what the model cannot serve or the domain cannot hold."""
    assert loaded.model is not None
    assert loaded.dataset is not None
    for attack in attacks:
        try:
            check_attack(loaded.model, attack)
        except FairmarginError as error:
            said = str(error).replace(f"`{type(loaded.model).__name__}`", "this model")
            raise type(error)(attack_in_options(said)) from None
        for radius in lengths:
            check_radius(loaded.model.domain, attack.norm, radius, math.prod(loaded.dataset.x.shape[1:]))


def _tasks(loaded: Loaded, attack: Attack, radius: float, seed: int) -> Iterable[Task[Distances]]:
    """One task a shard of samples. Its key says what the outcome depends on, and nothing else."""
    model, dataset, positions = loaded.model, loaded.dataset, loaded.positions
    assert model is not None
    assert dataset is not None
    assert positions is not None
    parts = {f"attack.{name}": value for name, value in describe_attack(attack).items()}
    parts |= {"revision": type(attack).revision, "radius": radius, "model": model.fingerprint()}
    for start, stop, key in shards_of(model, dataset, seed, parts):
        part = Slice(dataset.x, start, stop)
        yield Task(key, attack_shard, (model, attack, part, positions[start:stop], radius, seed, start))


def _about(attack: Attack, radius: float, seed: int) -> dict[str, Any]:
    return {"attack": describe_attack(attack), "radius": radius, "seed": seed}


def _together(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """What several attacks of one norm and radius leave together."""
    alike: dict[tuple[Any, float], list[Outcome]] = {}
    for outcome in outcomes:
        alike.setdefault((outcome.distances.norm, outcome.radius), []).append(outcome)
    return [
        Outcome(" + ".join(o.attack for o in several), radius, tightest(*(o.distances for o in several)))
        for (_, radius), several in alike.items()
        if len(several) > 1
    ]


def _claim(folder: RunFolder, study: Study) -> None:
    """A folder belongs to one model on one data set, whether it holds an audit, attacks, or both."""
    for other in filter(None, (folder.read_study(), folder.read_study(STUDY))):
        names = differing(other, study)
        if names:
            said = ", ".join(f"{n} ({getattr(other, n)!r}, now {getattr(study, n)!r})" for n in names)
            raise StoreError(f"{folder.path} holds another run: it differs in {said}. Choose another --out.")
    content = encode(study.model_dump(exclude_defaults=True))
    atomic_write_text(folder.path / STUDY, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def _provenance(study: Study, loaded: Loaded, command: str) -> dict[str, Any]:
    return {
        "command": command,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "model": loaded.about_model,
        "data": loaded.about_data,
        "samples_fingerprint": loaded.fingerprint,
        "domain": loaded.domain,
        "seed": study.seed,
        "versions": versions(),
        "notes": list(loaded.notes),
    }


def _write(folder: Path, found: Sequence[RobustAccuracy], about: Mapping[str, Any]) -> None:
    content = {**about, "found": [each.to_dict() for each in found]}
    atomic_write_text(folder / RESULT, json.dumps(content, ensure_ascii=False, allow_nan=False))
    frames = [each.to_frame() for each in found]
    seal(folder, (STUDY, RESULT))
    write_csv(folder / TABLE, pd.concat(frames, ignore_index=True))


def _silent(_what: str, _done: int, _total: int) -> None:
    return None
