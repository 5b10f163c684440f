"""Exact distances of scikit-learn's linear pipelines on raw rows, compared with HiGHS and with composed weights."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import LinearConstraint, milp
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, OrdinalEncoder, PowerTransformer, StandardScaler

import fairmargin as fm
from fairmargin.core.bound import Bound
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear

NORMS = pytest.mark.parametrize("norm", list(Norm), ids=str)


def people(rows, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 80, rows),
            "wage": rng.lognormal(3, 0.5, rows).round(1),
            "gain": np.where(rng.random(rows) < 0.7, 0, rng.integers(100, 3000, rows)),
            "hours": rng.integers(10, 60, rows).astype(np.float32),
            "job": rng.choice(["cook", "nurse", "clerk", "driver"], rows),
            "level": rng.choice(["low", "middle", "high"], rows),
            "owner": rng.random(rows) < 0.3,
        }
    )
    lead = 0.04 * frame.age + 0.1 * frame.wage + 0.001 * frame.gain + (frame.job == "nurse") + 2 * frame.owner - 6
    return frame, np.where(lead + rng.logistic(size=rows) > 0, "yes", "no")


def pipeline():
    columns = ColumnTransformer(
        [
            ("numbers", StandardScaler(), ["age", "wage", "gain", "hours"]),
            ("texts", OneHotEncoder(drop="first"), ["job"]),
            ("levels", OrdinalEncoder(categories=[["low", "middle", "high"]]), ["level"]),
        ],
        remainder="passthrough",
    )
    return make_pipeline(columns, LogisticRegression(max_iter=1000))


RULES = {
    "age": fm.Column(direction="up"),
    "gain": fm.Column(plausible="zero_or_at_least"),
    "level": fm.Column(values=["low", "middle", "high"], ordered=True, cost=0.7),
    "job": fm.Column(cost=1.5),
}


def solved(classifier, row, own, norm):
    """Return the distance of a row of a binary pipeline in L1 or L∞ as a mixed-integer program, solved by HiGHS.

    Variables are the steps of each number in both directions and one switch per category; what they add to the score is
    read from the pipeline's own `decision_function`.
    """
    model, coding = classifier.original, classifier.coding

    def score(value, place):
        changed = row.copy()
        changed[place] = value
        return float(model.decision_function(coding.decode(changed[None]))[0])

    start, sign = score(row[0], 0), 1.0 if own == 0 else -1.0
    gains, prices, tops, groups = [], [], [], []
    for place, column in enumerate(coding.columns):
        if column.immutable:
            continue
        if column.is_number:
            for way in (1, -1):
                steps = np.floor(way * ((column.high if way > 0 else column.low) - row[place]) / column.step + 1e-6)
                if steps < 1 or (column.direction == "up" and way < 0):
                    continue
                begin = 1.0
                if column.gap and row[place] == 0:
                    begin = np.ceil(column.gap / column.step - 1e-6)
                elif column.gap and way < 0:  # between the gap and 0 there is nothing
                    inside = np.floor((row[place] - column.gap) / column.step + 1e-6)
                    add_jump = row[place] / column.step
                    gains.append(sign * (score(0.0, place) - start))
                    prices.append(add_jump * column.step / column.unit)
                    tops.append((0, 1))
                    groups.append(place)
                    steps = inside
                    if steps < 1:
                        continue
                each = (score(row[place] + way * steps * column.step, place) - start) / steps
                gains.append(sign * each)
                prices.append(column.step / column.unit)
                tops.append((begin, steps))
                groups.append(place)
        else:
            for target in column.reachable:
                if target != row[place]:
                    gains.append(sign * (score(float(target), place) - start))
                    prices.append(float(column.cost_of(row[place], target)))
                    tops.append((0, 1))
                    groups.append(place)
    gains, prices, groups = np.array(gains), np.array(prices), np.array(groups)
    first, last = np.array(tops, dtype=float).T
    count = len(gains)
    # Variables: how many steps or switches, whether the option is used at all, and the radius.
    size = 2 * count + 1
    rows, lower, upper = [], [], []

    def add(places, values, low, high):
        line = np.zeros(size)
        line[places] = values
        rows.append(line), lower.append(low), upper.append(high)

    add(np.arange(count), gains, -sign * start, np.inf)
    for j in range(count):
        add([j, count + j], [1, -last[j]], -np.inf, 0)
        add([j, count + j], [1, -first[j]], 0, np.inf)
    for place in np.unique(groups):
        add(count + np.flatnonzero(groups == place), 1, -np.inf, 1)
        if norm is Norm.LINF:
            own_places = np.flatnonzero(groups == place)
            add([*own_places, 2 * count], [*-prices[own_places], 1], 0, np.inf)
    cost = np.zeros(size)
    if norm is Norm.L1:
        cost[:count] = prices
    else:
        cost[-1] = 1.0
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(rows), lower, upper),
        integrality=np.append(np.ones(2 * count), 0),
        bounds=(0, np.append(np.concatenate([np.maximum(last, 1), np.ones(count)]), np.inf)),
        options={"mip_rel_gap": 0},
    )
    return float(found.fun) if found.status == 0 else np.inf


@pytest.mark.parametrize("norm", [Norm.L1, Norm.LINF], ids=str)
def test_highs_agrees_on_raw_rows_of_a_pipeline(norm):
    x, y = people(600)
    model = pipeline().fit(x, y)
    classifier = fm.as_classifier(model, training_data=x, columns=RULES)
    some = x.iloc[:12]
    found = fm.measure(classifier, some, model.predict(some), ExactLinear(norm))
    rows = classifier.encode(some)
    own = classifier.predict(rows)
    expected = [solved(classifier, row, label, norm) for row, label in zip(rows, own, strict=True)]
    assert found.bound is Bound.EXACT
    # HiGHS keeps conditions to 1e-6 only: a row whose margin it misses by less may be nearer.
    np.testing.assert_allclose(found.values, expected, rtol=2e-5)
    assert np.mean(np.isclose(found.values, expected, rtol=1e-9)) > 0.8


@NORMS
@pytest.mark.parametrize("step", [PCA(3, whiten=True), TruncatedSVD(3)], ids=["pca", "svd"])
def test_steps_that_mix_numbers_agree_with_composed_weights(norm, step):
    rng = np.random.default_rng(0)
    x = pd.DataFrame(rng.normal(size=(300, 5)) * [1, 5, 0.2, 30, 2] + [0, 1, 2, 100, -3], columns=list("abcde"))
    y = (x @ [1, 0.2, 3, 0.02, -0.5] + rng.normal(size=300) > 3).astype(int) + (x["a"] > 1)
    model = make_pipeline(StandardScaler(), step, LogisticRegression()).fit(x, y)
    free = {name: fm.Column(unit=1.5, step=0, low=-np.inf, high=np.inf) for name in x}
    raw = fm.as_classifier(model, training_data=x, columns=free)
    composed = fm.as_classifier(model, domain=fm.Domain(scale=1.5))
    own = model.predict(x)
    found, expected = (fm.measure(each, x, own, ExactLinear(norm)) for each in (raw, composed))
    assert found.bound is Bound.EXACT
    # Scores are rounded, which matters for rows that are almost on the boundary.
    np.testing.assert_allclose(found.values, expected.values, rtol=1e-9, atol=1e-12)


@NORMS
def test_rows_found_for_a_pipeline_keep_all_rules_and_are_confirmed(norm):
    x, y = people(500, seed=1)
    model = pipeline().fit(x, y)
    classifier = fm.as_classifier(model, training_data=x, columns=RULES)
    some, estimator = x.iloc[:100], ExactLinear(norm)
    own = model.predict(some)
    found = fm.nearest(classifier, some, own, estimator)
    assert (model.predict(found) != own).all()
    before, after = classifier.encode(some), classifier.encode(found)
    for place, column in enumerate(classifier.coding.columns):
        assert column.allows(before[:, place], after[:, place]).all(), column.name
    costs = [each.cost_of(before[:, i], after[:, i]) for i, each in enumerate(classifier.coding.columns)]
    values = fm.measure(classifier, some, own, estimator).values
    np.testing.assert_allclose(norm.length(np.stack(costs, axis=1)), values, rtol=1e-12)
    assert found.dtypes.drop("job").eq(some.dtypes.drop("job")).all()
    assert [round(each, 1) for each in found["wage"]] == found["wage"].tolist()


@NORMS
def test_bins_and_power_transforms_of_raw_numbers_are_exact(norm):
    x, y = people(500, seed=2)
    columns = ColumnTransformer(
        [
            ("bins", KBinsDiscretizer(5, quantile_method="averaged_inverted_cdf"), ["age"]),
            ("power", PowerTransformer(), ["wage", "hours"]),
            ("texts", OneHotEncoder(), ["job", "level"]),
        ]
    )
    model = make_pipeline(columns, LogisticRegression()).fit(x, y)
    classifier = fm.as_classifier(model, training_data=x)
    some = x.iloc[:30]
    own = model.predict(some)
    found = fm.measure(classifier, some, own, ExactLinear(norm))
    assert found.bound is Bound.EXACT
    # No row with a change of one or two columns, by all values that occur in the data, is nearer.
    rows = classifier.encode(some)
    coded = classifier.encode(x)
    rng = np.random.default_rng(0)
    for i in range(8):
        tried = np.repeat(rows[i : i + 1], 4000, axis=0)
        for _ in range(2):
            place = rng.integers(rows.shape[1], size=len(tried))
            tried[np.arange(len(tried)), place] = coded[rng.integers(len(coded), size=len(tried)), place]
        allowed = np.ones(len(tried), dtype=bool)
        costs = np.empty(tried.shape)
        for place, column in enumerate(classifier.coding.columns):
            before = np.full(len(tried), rows[i, place])
            allowed &= column.allows(before, tried[:, place])
            costs[:, place] = column.cost_of(before, tried[:, place])
        out = allowed & (classifier.predict(tried) != classifier.predict(rows[i : i + 1])[0])
        assert out.any()
        assert norm.length(costs[out]).min() >= found.values[i] * (1 - 1e-12)


@NORMS
def test_numbers_that_are_bent_and_then_mixed_are_exact_with_steps_and_bracketed_without(norm):
    x, y = people(300, seed=3)
    numbers = x[["wage", "age", "gain"]].astype(float)
    model = make_pipeline(PowerTransformer(), PCA(2), LogisticRegression()).fit(numbers, y)
    some = numbers.iloc[:20]
    own = model.predict(some)
    stepped = fm.as_classifier(model, training_data=numbers, columns={"gain": fm.Column(step=10, low=0, high=3000)})
    free = fm.as_classifier(model, training_data=numbers, columns={name: fm.Column(step=0) for name in numbers})
    exact, bracket = (fm.measure(each, some, own, ExactLinear(norm)) for each in (stepped, free))
    assert exact.bound is Bound.EXACT
    assert bracket.bound is Bound.UPPER
    assert (bracket.tried < bracket.values).all()
    # A change that keeps the steps is also one without them; the free search splits its grid only a few times.
    assert (bracket.tried <= exact.values * (1 + 1e-9)).all()
    assert (bracket.values <= exact.values * 1.01).all()
    found = fm.nearest(free, some, own, ExactLinear(norm))
    assert (model.predict(found) != own).all()
