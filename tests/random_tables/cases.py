"""Random cases: a table, a model that was fitted to it, rules of its columns, and rows to audit."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import fairmargin as fm
from tests.random_tables import columns as drawing
from tests.random_tables.columns import Drawn, dummies
from tests.random_tables.models import KINDS, LINEAR, NETWORKS, draw_model, reads_only_numbers
from tests.random_tables.rulebook import Rule, rulebook

LABELS = ((0, 1, 2), ("no", "yes", "so"), (1, 2, 5), ("b", "a", "c"))
TWICE = 20  # how often a case is drawn again because the user's own libraries refuse it


@dataclass
class Case:
    """A table, its model and rules; printing it shows everything that is needed to understand a failure."""

    seed: int
    kind: str
    columns: list[Drawn]
    training_data: Any
    x: Any
    audited: pd.DataFrame
    y: Any
    model: Any
    rules: dict[str, fm.Column]
    book: dict[str, Rule]
    estimator: Any
    keep: Any
    as_array: bool

    @property
    def is_exact(self) -> bool:
        """Whether the estimator promises exact distances."""
        return self.kind not in NETWORKS

    @property
    def names(self) -> list[str]:
        """The columns that the model takes, in its order."""
        return [each.name for each in self.columns]

    def predict(self, frame: pd.DataFrame) -> Any:
        """Ask the user's model about raw rows, as the user would."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = frame[self.names]
            return np.asarray(self.model.predict(table.to_numpy(np.float64) if self.as_array else table))

    def leaves(self, frame: pd.DataFrame, rows: list[int]) -> Any:
        """Return whether changed rows are predicted as none of the classes to keep; `rows` gives their originals.

        A row for which the user's model raises, such as one whose transformed value is infinite, does not leave.
        """
        try:
            predicted = self.predict(frame)
        except (ValueError, OverflowError):
            if len(frame) == 1:
                return np.array([False])
            half = len(frame) // 2
            parts = (self.leaves(frame[:half], rows[:half]), self.leaves(frame[half:], rows[half:]))
            return np.concatenate(parts)
        return predicted != self.y[rows] if self.keep is None else ~np.isin(predicted, self.keep)

    def kept(self, predicted: Any) -> Any:
        """Return whether predictions for the audited rows are among the classes to keep."""
        if self.keep is None:
            return predicted == self.y
        return np.isin(predicted, self.keep)

    def __repr__(self) -> str:
        lines = [
            f"seed {self.seed}: {self.kind}, {self.estimator}, keep={self.keep}, x: {type(self.x)}",
            repr(self.model),
        ]
        lines += [
            f"{each.name!r} ({each.sort}, {each.train.dtype}): {self.book.get(each.name)}" for each in self.columns
        ]
        lines += [f"rules: {self.rules}", str(self.audited.to_dict("list")), f"y: {list(self.y)}"]
        return "\n".join(lines)


def make_case(seed: int, kinds: tuple[str, ...] = KINDS) -> Case:
    """Return the case of a seed."""
    for attempt in range(TWICE):
        rng = np.random.default_rng([seed, attempt])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return _drawn(seed, rng, str(rng.choice(kinds)))
            except (ValueError, TypeError, AttributeError) as error:  # the user's own libraries refuse the draw
                last = error
    raise AssertionError(f"No model could be fitted for seed {seed}.") from last


def _drawn(seed: int, rng: np.random.Generator, kind: str) -> Case:
    rows, audited = int(rng.integers(24, 60)), int(rng.integers(2, 6))
    columns = _columns(rng, kind, rows, audited)
    as_array = reads_only_numbers(kind) and all(_is_plain(each) for each in columns) and rng.random() < 0.4
    if as_array:
        for place, each in enumerate(columns):
            each.name = f"column {place}"
    train = pd.DataFrame({each.name: each.train for each in columns})
    classes = int(rng.choice([2, 2, 3]))
    labels = (0, 1, 2) if kind.startswith("xgb") else LABELS[int(rng.integers(len(LABELS)))]
    target = _target(rng, columns, labels[:classes])
    model = draw_model(rng, kind, columns, classes)
    model.fit(train.to_numpy(np.float64) if as_array else train, target)
    people = pd.DataFrame({each.name: each.audit for each in columns})
    if as_array:
        x: Any = people.to_numpy(np.float64)
        people = pd.DataFrame(x, columns=list(people.columns))
    else:
        people = _rearranged(rng, people)
        x = _as_library(rng, kind, columns, people)
        if x is not people:
            people = _as_pandas(x)
    book = rulebook(columns)
    case = Case(
        seed=seed,
        kind=kind,
        columns=columns,
        training_data=train.to_numpy(np.float64) if as_array else train,
        x=x,
        audited=people,
        y=None,
        model=model,
        rules=_rules(columns),
        book=book,
        estimator=_estimator(rng, kind),
        keep=None,
        as_array=as_array,
    )
    predicted = case.predict(people)
    case.y = np.where(rng.random(audited) < 0.1, np.resize(np.array(labels[:classes]), audited), predicted)
    if rng.random() < 0.2:
        size = 1 if kind in LINEAR else int(rng.integers(1, classes))
        case.keep = [labels[i] for i in rng.permutation(classes)[:size]]
    return case


def _columns(rng: np.random.Generator, kind: str, rows: int, audited: int) -> list[Drawn]:
    """Return random columns that a model of a kind can read."""
    taken: set[str] = set()
    found: list[Drawn] = []
    strict = kind == "xgb_native"
    for _ in range(int(rng.integers(1, 7))):
        name, draw, missing = drawing.drawn_name(rng, taken), rng.random(), bool(rng.random() < 0.2)
        if reads_only_numbers(kind):
            missing &= kind.startswith(("tree", "forest"))
        plain = reads_only_numbers(kind)
        if draw < 0.05:
            found.append(drawing.constant(rng, name, rows, audited))
        elif draw < 0.12:
            found += dummies(rng, f"group{len(found)}", rows, audited)
        elif draw < 0.2:
            sort = "bool" if plain or rng.random() < 0.6 else "boolean"
            found.append(drawing.booleans(rng, name, sort, rows, audited, missing))
        elif draw < 0.55 and not plain:
            sorts = drawing.CATEGORIES
            if kind in ("hgb_native", "xgb_native", "lgbm_native"):
                sorts = ("category", "ordered", "category of numbers")
            found.append(drawing.categories(rng, name, str(rng.choice(sorts)), rows, audited, missing, strict))
        else:
            found.append(drawing.numbers(rng, name, str(rng.choice(drawing.NUMBERS)), rows, audited, missing))
    for column in found:
        if column.sort != "dummy":
            column.rule = drawing.draw_rule(rng, column)
            if column.rule is not None and kind in LINEAR:  # functions that are not affine need a range with an end
                column.rule = {
                    name: value for name, value in column.rule.items() if value not in (float("inf"), float("-inf"))
                }
            if not column.is_category and (column.rule or {}).get("kind") in ("category", "boolean"):
                # A model that reads numbers tells unknown ones apart, so that they are refused.
                present = column.train.dropna()
                known = column.audit.isin(present.tolist()) | column.audit.isna()
                column.audit = column.audit.where(known, present.iloc[0])
    return found


def _is_plain(column: Drawn) -> bool:
    """Return whether an array can hold a column. The columns of an array have no names, so they form no group."""
    if column.sort == "dummy":
        return False
    return column.train.dtype == np.float64 and (column.rule is None or "kind" not in column.rule)


def _target(rng: np.random.Generator, columns: list[Drawn], labels: tuple[Any, ...]) -> Any:
    """Return labels that depend on the columns, each at least four times."""
    score = rng.normal(size=len(columns[0].train)) * 0.5
    for each in columns:
        codes, values = pd.factorize(each.train)
        if each.is_category:
            score += rng.normal(size=len(values) + 1)[codes]
        else:
            numbers = each.train.astype("float64").fillna(0.0).to_numpy()
            score += rng.normal() * (numbers - numbers.mean()) / (numbers.std() or 1.0)
    share = np.linspace(0, 1, len(labels) + 1)[1:-1] + rng.uniform(-0.1, 0.1)
    places = np.searchsorted(np.quantile(score, share), score)
    return np.array(labels)[places]


def _rearranged(rng: np.random.Generator, people: pd.DataFrame) -> pd.DataFrame:
    """Return the audited rows with columns in another order, further columns and another index."""
    if rng.random() < 0.3:
        people = people.assign(extra="kept", **{"further one": np.arange(len(people))})
    if rng.random() < 0.5:
        people = people[[people.columns[i] for i in rng.permutation(len(people.columns))]]
    if rng.random() < 0.3:
        people = people.set_axis(pd.Index(rng.choice([3, 3, 7, 9], len(people))), axis=0)
    return people


def _as_library(rng: np.random.Generator, kind: str, columns: list[Drawn], people: pd.DataFrame) -> Any:
    """Return the rows as a table of polars or pyarrow, if the model does not depend on types that they lose."""
    if kind.endswith("_native") or any(each.sort in ("category of numbers", "object") for each in columns):
        return people
    draw = rng.random()
    if draw < 0.1:
        import polars as pl

        return pl.from_pandas(people.reset_index(drop=True))
    if draw < 0.2:
        import pyarrow as pa

        return pa.Table.from_pandas(people, preserve_index=False)
    return people


def _as_pandas(x: Any) -> pd.DataFrame:
    return x.to_pandas()


def _rules(columns: list[Drawn]) -> dict[str, fm.Column]:
    found = {}
    for each in columns:
        if each.rule is not None:
            name = each.traits["group"] if each.sort == "dummy" else each.name
            found[name] = fm.Column(**each.rule)
    return found


def _estimator(rng: np.random.Generator, kind: str) -> Any:
    norm = str(rng.choice(["l1", "l2", "linf"]))
    if kind in LINEAR:
        return fm.ESTIMATORS["exact_linear"](norm=norm)
    if kind in NETWORKS:
        return fm.ESTIMATORS["plumb"](norm=norm, steps=10)
    return fm.ESTIMATORS["exact_tree"](norm=norm)
