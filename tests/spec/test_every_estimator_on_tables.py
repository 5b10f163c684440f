"""Properties of every estimator on the rows of a table, for every kind of model, against all rows that rules allow."""

import itertools
import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier

import fairmargin as fm
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.distances.measure import measure_shard
from fairmargin.engine.task import Task
from fairmargin.errors import ModelError
from tests.distances.confirmation import assert_independent_of_the_batch
from tests.spec.test_every_estimator import EVERY, small

GRADES = ["low", "middle", "high"]
RULES = {
    "age": fm.Column(unit=4, step=2, low=20, high=30),
    "gain": fm.Column(unit=3, step=1, low=0, high=5, plausible="zero_or_at_least"),
    "hours": fm.Column(unit=2, values=[30, 35, 40], direction="up"),
    "job": fm.Column(cost=1.5, values=["cook", "nurse", "tech"]),
    "grade": fm.Column(ordered=True, values=GRADES, cost=0.7),
    "sex": fm.Column(immutable=True),
}
MODELS = {
    "linear": LogisticRegression(),
    "tree": DecisionTreeClassifier(max_depth=5, random_state=0),
    "boosted": GradientBoostingClassifier(n_estimators=8, max_depth=3, random_state=0),
    "network": MLPClassifier((8,), activation="tanh", solver="lbfgs", max_iter=2000, random_state=0),
}
EXACT = {"linear": "exact_linear", "tree": "exact_tree", "boosted": "exact_tree"}
FOR_NETWORKS = {"plumb", "deepfool", "carlini_wagner", "ddn", "fmn", "alma", "softmax_margin"}


def measurable(name, kind):
    """Return whether an estimator can measure rows with a model of a kind; a new one has to be added above."""
    return name == EXACT[kind] if kind in EXACT else name in FOR_NETWORKS


CASES = [(name, norm, kind) for name, norm in EVERY for kind in MODELS]
MEASURED = [(name, norm, kind) for name, norm, kind in CASES if measurable(name, kind)]
SEARCHED = [(name, norm, kind) for name, norm, kind in MEASURED if hasattr(ESTIMATORS[name], "find")]
every_refusal = pytest.mark.parametrize(("name", "norm", "kind"), [case for case in CASES if case not in MEASURED])
every_measurement = pytest.mark.parametrize(("name", "norm", "kind"), MEASURED)
every_search = pytest.mark.parametrize(("name", "norm", "kind"), SEARCHED)


@cache
def people(rows=90, seed=0):
    """Return a table with missing hours, and labels of three classes."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.choice(np.arange(20, 31, 2), rows),
            "gain": rng.choice([0, 0, 3, 4, 5], rows),
            "hours": np.where(rng.random(rows) < 0.15, np.nan, rng.choice([30.0, 35.0, 40.0], rows)),
            "job": rng.choice(["cook", "nurse", "sales", "tech"], rows),
            "grade": rng.choice(GRADES, rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    merit = frame["age"] / 4 + frame["gain"] + 2.0 * (frame["job"] == "tech") + frame["grade"].map(GRADES.index)
    merit += 0.1 * frame["hours"].fillna(30) + (frame["sex"] == "M") + 0.5 * rng.normal(size=rows)
    return frame, np.array(["no", "perhaps", "yes"])[np.searchsorted(np.quantile(merit, [0.4, 0.8]), merit)]


@cache
def fitted(kind):
    """Return a pipeline whose last step is a model of a kind, and its classifier of raw rows."""
    frame, y = people()
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), StandardScaler()), ["age", "gain", "hours"]),
        (OneHotEncoder(), ["job", "sex"]),
        (OrdinalEncoder(categories=[GRADES]), ["grade"]),
    )
    model = make_pipeline(steps, MODELS[kind]).fit(frame, y)
    return model, fm.as_classifier(model, columns=RULES, training_data=frame)


@cache
def audited(kind):
    """Return rows with the labels that the model gives them, some of which are wrong."""
    frame, _ = people(14, seed=1)
    y = fitted(kind)[0].predict(frame)
    y[::6] = np.where(y[::6] == "no", "yes", "no")
    return frame, y


def options(name, value):
    """Return the values to which a value may change, by the words of the rules, and the cost of each."""
    if name == "age":
        return [(new, abs(new - value) / 4) for new in range(20, 31, 2)]
    if name == "gain":
        return [(new, abs(new - value) / 3) for new in (0, 3, 4, 5)]
    if name == "hours":
        higher = [] if np.isnan(value) else [new for new in (30.0, 35.0, 40.0) if new > value]
        return [(value, 0.0), *((new, (new - value) / 2) for new in higher)]
    if name == "job":
        return [(value, 0.0), *((new, 1.5) for new in ("cook", "nurse", "tech") if new != value)]
    if name == "grade":
        return [(new, 0.7 * abs(GRADES.index(new) - GRADES.index(value))) for new in GRADES]
    return [(value, 0.0)]


@cache
def exact_distances(kind, norm, keep=None):
    """Return the distances of the audited rows, found by asking the original model about all rows that are allowed."""
    model, (frame, y), found = fitted(kind)[0], audited(kind), []
    for (_, row), label in zip(frame.iterrows(), y, strict=True):
        several = list(itertools.product(*(options(name, row[name]) for name in frame)))
        table = pd.DataFrame([[new for new, _ in each] for each in several], columns=frame.columns)
        costs = norm.length(np.array([[cost for _, cost in each] for each in several]))
        left = ~np.isin(model.predict(table), keep if keep else [label])
        found.append(costs[left].min() if left.any() else math.inf)
    return np.array(found)


@every_refusal
def test_refuses_what_it_cannot_measure_with_a_sentence(name, norm, kind):
    with pytest.raises(ModelError, match=rf"`{ESTIMATORS[name].__name__}` (needs|cannot) .*\.$"):
        fm.measure(fitted(kind)[1], *audited(kind), small(name, norm))


@every_measurement
def test_its_bound_holds_against_all_rows_that_the_rules_allow(name, norm, kind):
    (frame, y), classifier = audited(kind), fitted(kind)[1]
    found = fm.measure(classifier, frame, y, small(name, norm))
    exact = exact_distances(kind, norm)
    assert (found.values[exact == 0] == 0).all()
    np.testing.assert_array_equal(found.correct, exact > 0)
    if found.bound is Bound.EXACT:
        np.testing.assert_allclose(found.values, exact, rtol=1e-9)
    if found.bound is Bound.UPPER:
        assert (found.values >= exact * (1 - 1e-9)).all()
        assert (found.values <= exact * (1 + 1e-9)).mean() >= 0.9
    assert found.bound is not Bound.LOWER


@every_search
def test_the_rows_found_are_allowed_confirmed_and_at_the_measured_distance(name, norm, kind):
    (frame, y), (model, classifier) = audited(kind), fitted(kind)
    found = fm.nearest(classifier, frame, y, small(name, norm))
    values = fm.measure(classifier, frame, y, small(name, norm)).values
    assert (found.dtypes == frame.dtypes).all()
    changed = values > 0
    assert (model.predict(found)[changed & np.isfinite(values)] != y[changed & np.isfinite(values)]).all()
    pd.testing.assert_frame_equal(found[~changed], frame[~changed])
    for i in np.flatnonzero(changed & np.isfinite(values)):
        costs = []
        for column in frame:
            before, after = frame[column][i], found[column][i]
            allowed = [cost for new, cost in options(column, before) if new == after]
            costs.append(0.0 if pd.isna(before) and pd.isna(after) else min(allowed))
        assert norm.length(np.array(costs)) == pytest.approx(values[i], rel=1e-9)


@every_measurement
def test_measures_a_row_to_the_same_bit_alone_or_in_any_batch_and_order(name, norm, kind):
    classifier, (frame, y) = fitted(kind)[1], audited(kind)
    rows = classifier.encode(frame)

    def run(places, y):
        return fm.measure(classifier, frame.iloc[places.ravel()], y, small(name, norm)).values

    assert_independent_of_the_batch(run, np.arange(len(rows)), y)


@pytest.mark.parametrize("keep", ["yes", ["no", "perhaps"]], ids=["one", "several"])
@pytest.mark.parametrize("kind", MODELS)
def test_classes_are_kept_on_tables(kind, keep):
    (frame, y), classifier = audited(kind), fitted(kind)[1]
    estimator = small(EXACT.get(kind, "fmn"), Norm.L1)
    found = fm.measure(classifier, frame, y, estimator, keep=keep)
    exact = exact_distances(kind, Norm.L1, tuple([keep] if isinstance(keep, str) else keep))
    assert (found.values >= exact * (1 - 1e-9)).all()
    assert (found.values <= exact * (1 + 1e-9)).mean() >= (0.9 if kind == "network" else 1)


def test_other_processes_measure_the_same():
    tasks, expected = [], {}
    for kind, name in [("linear", "exact_linear"), ("boosted", "exact_tree"), ("network", "fmn")]:
        classifier, (frame, y) = fitted(kind)[1], audited(kind)
        positions = np.array([classifier.classes.index(label) for label in y])
        arguments = classifier, small(name, Norm.L1), classifier.encode(frame), positions
        tasks.append(Task(kind, measure_shard, arguments))
        expected[kind] = classifier.fingerprint(), measure_shard(*arguments).values
        tasks.append(Task(f"fingerprint of {kind}", type(classifier).fingerprint, (classifier,)))
    for task, found in fm.Processes(workers=1).run(tasks):
        kind = task.key.removeprefix("fingerprint of ")
        if kind == task.key:
            np.testing.assert_array_equal(found.values, expected[kind][1])
        else:
            assert found == expected[kind][0]
