"""Judge what is measured and found for a case by the user's table, rules and model alone."""

import math
import warnings
from typing import Any

import numpy as np
import pandas as pd

import fairmargin as fm
from tests.random_tables.cases import Case
from tests.random_tables.rulebook import CategoryRule, NumberRule, is_missing

EXACTLY = 1e-6  # relative difference of two distances that counts as one
CANDIDATES = 40  # single changes tried per column and row
JOINT = 150  # changes of several columns tried per row

Changes = dict[str, Any]  # new values, by column or group of columns


def problems_of(case: Case) -> list[str]:
    """Return what is wrong with the measured distances and the rows found; nothing if all is well."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        classifier = fm.as_classifier(case.model, columns=case.rules, training_data=case.training_data)
        keep = None if case.keep is None else list(case.keep)
        measured = fm.measure(classifier, case.x, case.y, case.estimator, keep=keep, progress=False)
        found = fm.nearest(classifier, case.x, case.y, case.estimator, keep=keep, progress=False)
        rng = np.random.default_rng([case.seed, 77])
        one = int(rng.integers(len(case.y)))
        alone = fm.measure(classifier, case.x[one : one + 1], case.y[one : one + 1], case.estimator, keep=keep)
    values = np.asarray(measured.values)
    problems = []
    if alone.values[0] != values[one]:
        problems.append(f"row {one} has distance {alone.values[0]} alone and {values[one]} in the batch")
    problems += _of_form(case, found)
    if problems:
        return problems
    rows, new = case.audited, found
    kept = case.kept(case.predict(rows))
    after = case.kept(case.predict(new))
    for i in range(len(rows)):
        problems += [
            f"row {i}: {each}" for each in _of_row(case, i, new, float(values[i]), bool(kept[i]), bool(after[i]))
        ]
    if case.is_exact and not problems:
        problems += _of_cheaper_rows(case, rng, new, values, kept)
    return problems


def _of_form(case: Case, found: Any) -> list[str]:
    """Return what is wrong with columns, types and index of the rows found."""
    if not isinstance(found, pd.DataFrame):
        return [f"a {type(found)} instead of a data frame"]
    rows = case.audited
    if list(found.columns) != list(rows.columns):
        return [f"columns {list(found.columns)} instead of {list(rows.columns)}"]
    if not found.index.equals(rows.index):
        return [f"index {found.index} instead of {rows.index}"]
    problems = []
    for name in rows:
        rule = case.book.get(name)
        both = found[name].dtype, rows[name].dtype
        wider = all(isinstance(each, pd.CategoricalDtype) for each in both) and both[0].ordered == both[1].ordered
        free = isinstance(rule, NumberRule) and rule.whole is None and both[0] == np.float64
        if both[0] != both[1] and not free and not wider:
            problems.append(f"column {name!r} has type {found[name].dtype} instead of {rows[name].dtype}")
    return problems


def _groups(case: Case) -> dict[str, list[tuple[str, Any]]]:
    """Return, for each category that several columns encode, the columns and their values."""
    groups: dict[str, list[tuple[str, Any]]] = {}
    for each in case.columns:
        if each.sort == "dummy" and each.traits["ruled"]:
            groups.setdefault(each.traits["group"], []).append((each.name, each.traits["value"]))
    return groups


def _value(case: Case, frame: pd.DataFrame, i: int, name: str) -> Any:
    """Return the value of a column, or of a group of columns, in a row."""
    groups = _groups(case)
    if name not in groups:
        return frame[name].iloc[i]
    ones = [value for part, value in groups[name] if frame[part].iloc[i] == 1]
    zeros = [part for part, _ in groups[name] if frame[part].iloc[i] == 0]
    if len(ones) + len(zeros) != len(groups[name]) or len(ones) > 1:
        return "broken"
    return ones[0] if ones else "none"


def _of_row(case: Case, i: int, found: pd.DataFrame, value: float, kept: bool, after: bool) -> list[str]:
    """Return what is wrong with one row found."""
    problems, costs, changed = [], [], []
    for name, rule in case.book.items():
        before, new = _value(case, case.audited, i, name), _value(case, found, i, name)
        broken = rule.broken(before, new)
        if broken:
            problems.append(f"{name!r}: {before!r} → {new!r} breaks {broken!r}")
            continue
        costs.append(rule.cost(before, new))
        if costs[-1] or not _same(before, new):
            changed.append(f"{name!r} {before!r} → {new!r}")
    parts = {part for group in _groups(case).values() for part, _ in group}
    for name in case.audited:
        if name not in case.book and name not in parts and not _same(case.audited[name].iloc[i], found[name].iloc[i]):
            problems.append(f"{name!r} changed, which the model does not take")
    if problems:
        return problems
    if not kept:
        if value != 0:
            problems.append(f"is misclassified already, but has distance {value}")
        if changed:
            problems.append(f"is misclassified already, but changed: {changed}")
    elif math.isinf(value):
        if changed:
            problems.append(f"was not found, but changed: {changed}")
    else:
        length = _length(case, costs)
        if not math.isclose(length, value, rel_tol=1e-9, abs_tol=1e-12):
            problems.append(f"costs {length!r}, but the distance is {value!r}: {changed}")
        if after:
            problems.append(f"is not confirmed at {value}: {changed}")
    return problems


def _same(before: Any, after: Any) -> bool:
    return bool((is_missing(before) and is_missing(after)) or before is after or before == after)


def _length(case: Case, costs: list[float]) -> float:
    norm = str(case.estimator.norm)
    if norm == "L1":
        return math.fsum(costs)
    return math.hypot(*costs) if norm == "L2" else max(costs, default=0.0)


def _of_cheaper_rows(case: Case, rng: np.random.Generator, found: pd.DataFrame, values: Any, kept: Any) -> list[str]:
    """Return valid rows that cost less than the distance and are predicted differently."""
    rows, changes, costs = [], [], []
    for i in np.flatnonzero(kept):
        for each in _candidates(case, rng, int(i), found, math.isfinite(values[i])):
            cost = _length(
                case, [case.book[name].cost(_value(case, case.audited, i, name), new) for name, new in each.items()]
            )
            if cost < values[i] * (1 - EXACTLY) - 1e-12:
                rows.append(i)
                changes.append(each)
                costs.append(cost)
    if not rows:
        return []
    wrong = np.flatnonzero(case.leaves(_with_changes(case, rows, changes), rows))
    best: dict[int, int] = {}
    for place in wrong:
        i = int(rows[place])
        if i not in best or costs[place] < costs[best[i]]:
            best[i] = place
    return [
        f"row {i}: {changes[place]} costs {costs[place]} and leaves its class, but the distance is {values[i]}"
        for i, place in best.items()
    ]


def _candidates(case: Case, rng: np.random.Generator, i: int, found: pd.DataFrame, is_found: bool) -> list[Changes]:
    """Return valid changes of a row: of single columns, of several at random, and of the ones that were found."""
    targets = {
        name: rule.targets(_value(case, case.audited, i, name), rng, CANDIDATES) for name, rule in case.book.items()
    }
    targets = {name: values for name, values in targets.items() if values}
    result: list[Changes] = [{name: value} for name, values in targets.items() for value in values]
    names = list(targets)
    for _ in range(JOINT if len(names) > 1 else 0):
        size = int(rng.integers(2, len(names) + 1))
        some = [names[k] for k in rng.permutation(len(names))[:size]]
        result.append({name: targets[name][int(rng.integers(len(targets[name])))] for name in some})
    if not is_found:
        return result
    moved = {}
    for name in case.book:
        before, after = _value(case, case.audited, i, name), _value(case, found, i, name)
        if not _same(before, after):
            moved[name] = after
    for name, found_value in moved.items():
        rest = {each: value for each, value in moved.items() if each != name}
        result += [rest, *({**rest, name: value} for value in targets.get(name, ()))]
        result += [{**moved, name: value} for value in _nearer(case, i, name, found_value)]
        result += [{**rest, other: value} for other in targets if other not in moved for value in targets[other][:8]]
    return [each for each in result if each]


def _nearer(case: Case, i: int, name: str, value: Any) -> list[Any]:
    """Return a value one step nearer to the row's own than the one found, or halfway without steps."""
    rule = case.book[name]
    if isinstance(rule, CategoryRule):
        return []
    before = float(case.audited[name].iloc[i])
    after = float(value)
    if rule.step:
        count = round((after - before) / rule.step)
        near = [rule.stepped(before, count - int(math.copysign(1, count)))] if abs(count) > 1 else []
    else:
        near = [before + (after - before) * part for part in (0.5, 0.99, 1 - 1e-5)]
    near = [float(np.float32(each)) if rule.single else each for each in near]
    return [each for each in near if each != before and not rule.broken(before, each)]


def _with_changes(case: Case, rows: list[int], changes: list[Changes]) -> pd.DataFrame:
    """Return audited rows with changes."""
    frame = case.audited.iloc[rows].reset_index(drop=True)
    groups = _groups(case)
    for name in case.book:
        places = [k for k, each in enumerate(changes) if name in each]
        if not places:
            continue
        for part, value in groups.get(name, [(name, None)]):
            new = [changes[k][name] if name not in groups else int(changes[k][name] == value) for k in places]
            frame[part] = _replaced(frame[part], places, new)
    return frame


def _replaced(column: "pd.Series[Any]", places: list[int], new: list[Any]) -> "pd.Series[Any]":
    values = column.astype(object).to_numpy(copy=True)
    for place, value in zip(places, new, strict=True):
        values[place] = value
    kind: Any = column.dtype
    if pd.api.types.is_integer_dtype(kind) and not all(_held(kind, value) for value in new):
        kind = np.float64
    if isinstance(kind, pd.CategoricalDtype):
        more = [value for value in dict.fromkeys(new) if value not in set(kind.categories)]
        kind = pd.CategoricalDtype([*kind.categories, *more], kind.ordered)
    return pd.Series(values, index=column.index, dtype=object).astype(kind)


def _held(kind: Any, value: Any) -> bool:
    """Return whether a type of integers holds a number."""
    limits = np.iinfo(getattr(kind, "numpy_dtype", kind))
    return bool(value == round(value) and limits.min <= value <= limits.max)
