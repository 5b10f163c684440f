"""The results of a run as tables."""

import math
from typing import TYPE_CHECKING, Any

from fairmargin.study.record import About, RunRecord

if TYPE_CHECKING:
    import pandas as pd

_MEASURED = ("audit", "robust_accuracy")


def rows_of(record: RunRecord, kind: str) -> list[dict[str, Any]]:
    """Return every group of every result of a kind, one row each, with the same columns: what the gate reads."""
    rows = []
    for stored, result in record.of_kind(kind):
        about = stored.about.model_dump(exclude_defaults=True)
        about |= {"norm": result.norm.value} if hasattr(result, "norm") else {}
        rows += [row | {name: value for name, value in about.items() if name not in row} for row in result.records()]
    columns = dict.fromkeys(name for row in rows for name in row)
    return [{name: row.get(name) for name in columns} for row in rows]


def networks_table(record: RunRecord) -> "pd.DataFrame":
    """Return one row per network, epoch, estimator or attack, partition and group of a study of several models."""
    import pandas as pd

    frames = []
    for stored, result in record.of_kind(*_MEASURED):
        rows, about = result.to_frame(), stored.about
        epoch, words = _epoch_of(about)
        labels = {
            "data": about.data,
            "model": about.model,
            "method": about.method,
            "seed": about.seed or 0,
            "epoch": epoch,
            "asked_as": words,
            "kind": stored.kind,
            "by": about.estimator or about.attack,
            "radius": math.nan if about.radius is None else about.radius,
            "norm": result.norm.value,
        }
        rest = rows.drop(columns=[name for name in rows.columns if name in (*labels, "attack", "estimator")])
        frames.append(pd.concat([pd.DataFrame([labels] * len(rows)), rest], axis=1))
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def _epoch_of(about: About) -> tuple[int, str]:
    """Return the number of an epoch and the names by which it was requested; 0 and "last" for a model as given.

    >>> _epoch_of(About(epoch="20 (middle, best)")), _epoch_of(About(epoch="7")), _epoch_of(About())
    ((20, 'middle, best'), (7, '7'), (0, 'last'))
    """
    number, _, named = about.epoch.partition(" ")
    return (int(number), named.strip("()") or number) if number else (0, "last")
