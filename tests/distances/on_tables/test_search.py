"""Searches by gradients on tables: what they find, what they refuse, and where they find nothing."""

from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import fairmargin as fm
from fairmargin.core.norm import Norm
from fairmargin.distances import masking
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.on_tables import search
from fairmargin.distances.searches.ddn import DDN
from fairmargin.distances.searches.fmn import FMN
from fairmargin.errors import InputError, ModelError
from fairmargin.models.tables.network import NetworkHead

pytestmark = pytest.mark.filterwarnings("ignore:lbfgs failed")
JOBS = ["cook", "nurse", "sales", "tech", "vet"]
RULES = {"sex": fm.Column(immutable=True)}


@cache
def people(rows=150, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "pay": np.round(rng.lognormal(3, 0.4, rows), 2),
            "hours": rng.integers(10, 60, rows),
            "job": rng.choice(JOBS, rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    merit = frame["age"] / 20 + frame["pay"] / 10 + frame["hours"] / 30 + 2 * (frame["job"] == "tech")
    return frame, np.where(merit + rng.normal(size=rows) > 7, "yes", "no")


@cache
def classifier_of(kind="network", seed=0):
    frame, y = people()
    steps = make_column_transformer((StandardScaler(), ["age", "pay", "hours"]), (OneHotEncoder(), ["job", "sex"]))
    last = LogisticRegression() if kind == "linear" else MLPClassifier((9,), solver="lbfgs", random_state=seed)
    return fm.as_classifier(make_pipeline(steps, last).fit(frame, y), columns=RULES, training_data=frame)


def some(count=40):
    """Return rows, with the classes that the network gives them."""
    frame, classifier = people(count, seed=1)[0], classifier_of()
    return frame, np.array(classifier.classes)[classifier.predict(classifier.encode(frame))]


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_a_network_without_hidden_layers_is_measured_almost_as_by_the_exact_estimator(norm):
    linear, (frame, _) = classifier_of("linear"), some()
    y = np.array(linear.classes)[linear.predict(linear.encode(frame))]
    head = NetworkHead((linear.head.weight.T,), (linear.head.bias,), "identity")
    exact = fm.measure(linear, frame, y, fm.ESTIMATORS["exact_linear"](norm=norm)).values
    found = fm.measure(replace(linear, head=head), frame, y, FMN(norm=norm, steps=20)).values
    assert (found >= exact * (1 - 1e-9)).all()
    assert (found / exact).mean() <= 1.01
    assert (found <= exact * 1.001).mean() >= 0.8


def test_joined_estimators_are_at_most_as_far_as_each_of_them():
    (frame, y), members = some(), (FMN(norm="l2", steps=5), DDN(steps=5))
    each = [fm.measure(classifier_of(), frame, y, member).values for member in members]
    together = fm.measure(classifier_of(), frame, y, fm.Tightest(*members)).values
    np.testing.assert_array_equal(together, np.min(each, axis=0))


def test_attacks_of_others_search_the_numbers():
    def away(model, x, y):  # what it returns for the position of the row is ignored
        return x + 0.5

    frame, y = some()
    found = fm.measure(classifier_of(), frame, y, FromAttack(away, norm="l2"))
    best = fm.measure(classifier_of(), frame, y, FMN(norm="l2")).values
    assert np.isfinite(found.values).all()
    assert (found.values >= best * 0.9).all()


def nothing(monkeypatch):
    """Let all searches but that from references find nothing."""

    def none(table, *_):
        return table.start().take(slice(0, 0))

    monkeypatch.setattr(search, "along_rays", none)
    monkeypatch.setattr(search, "priced", none)
    monkeypatch.setattr(search, "lowered", none)
    monkeypatch.setattr(search, "switched", lambda table, *_: (none(table), np.empty(0)))
    monkeypatch.setattr(search._Search, "_by_gradient", lambda self, *_: (none(self.table), np.zeros(len(self.y))))


def test_references_are_taken_up_as_far_as_the_rules_allow_where_nothing_else_is_found(monkeypatch):
    nothing(monkeypatch)
    (frame, y), classifier = some(), classifier_of()
    others = people(30, seed=3)[0]
    theirs = classifier.original.predict(others)
    for label in ("yes", "no"):
        own, references = frame[y == label], others[theirs != label]
        found = fm.measure(classifier, own, y[y == label], FMN(norm="l1"), references=references)
        rows = fm.nearest(classifier, own, y[y == label], FMN(norm="l1"), references=references)
        met = np.isfinite(found.values)
        assert met.mean() > 0.9
        assert (rows["sex"] == own["sex"]).all()
        assert (classifier.original.predict(rows)[met] != label).all()
        useless = fm.measure(classifier, own, y[y == label], FMN(norm="l1"), references=own.head(1))
        assert np.isinf(useless.values).all()
        assert (useless.tried[1:] > 0).all()


def test_where_no_references_are_given_random_rows_serve(monkeypatch):
    nothing(monkeypatch)
    frame, y = some()
    assert np.isfinite(fm.measure(classifier_of(), frame, y, FMN(norm="l1")).values).mean() > 0.9


def test_a_row_that_cannot_change_enough_is_at_an_infinite_distance_and_says_how_far_was_searched():
    frame, y = some(12)
    still = {name: fm.Column(immutable=True) for name in frame}
    rules = still | {"hours": fm.Column(unit=10, low=0, high=100, values=[30, 31])}
    for given, most in ((still, np.zeros(12)), (rules, np.abs(frame["hours"] - 30.5).to_numpy() / 10 + 0.05)):
        classifier = fm.as_classifier(classifier_of().original, columns=given, training_data=people()[0])
        found = fm.measure(classifier, frame, y, FMN(norm="l1", steps=5))
        lost = np.isinf(found.values)
        assert lost.mean() > 0.5
        np.testing.assert_allclose(found.tried[lost], most[lost], atol=1e-9)
        pd.testing.assert_frame_equal(fm.nearest(classifier, frame, y, FMN(norm="l1", steps=5))[lost], frame[lost])


def test_rows_are_searched_in_parts_with_the_same_result(monkeypatch):
    frame, y = some()
    whole = fm.measure(classifier_of(), frame, y, FMN(norm="l1", steps=5)).values
    monkeypatch.setattr(search, "SCHEDULE", replace(search.SCHEDULE, rows=7))
    np.testing.assert_array_equal(fm.measure(classifier_of(), frame, y, FMN(norm="l1", steps=5)).values, whole)


def test_adequacy_measures_tables_with_several_budgets():
    frame, y = some()
    groups = fm.Partition.by("sex", frame["sex"])
    result = fm.adequacy(classifier_of(), frame, y, groups, FMN(norm="l1", steps=8), per_group=10, progress=False)
    assert result.verdict == "settled"
    assert {alarm.kind for group in result.groups for alarm in group.alarms} >= {"no gradient", "noise is nearer"}


def test_the_margin_in_probability_is_that_of_the_model():
    frame, y = some()
    found = fm.measure(classifier_of(), frame, y, fm.ESTIMATORS["softmax_margin"]())
    proba = classifier_of().original.predict_proba(frame)
    np.testing.assert_allclose(found.values, np.abs(proba[:, 1] - proba[:, 0]), atol=1e-9)


class OfPredictions:
    """An estimator that only asks for predictions."""

    needs, norms, revision, norm = "predict", frozenset(Norm), 1, Norm.L1

    def __call__(self, model, x, y, *, keys):
        raise AssertionError("it is never called")


def test_estimators_that_do_not_keep_the_rules_and_attacks_at_a_radius_are_refused():
    frame, y = some(8)
    with pytest.raises(ModelError, match="`OfPredictions` cannot measure the rows of a table: it does not know"):
        fm.measure(classifier_of(), frame, y, OfPredictions())
    with pytest.raises(ModelError, match="`Smoothing` cannot measure the rows of a table: it adds noise"):
        fm.measure(classifier_of("linear"), frame, y, fm.ESTIMATORS["smoothing"]())
    with pytest.raises(InputError, match="cannot measure in L1"):
        fm.ESTIMATORS["plumb"](norm="l1")
    groups = fm.Partition.by("sex", frame["sex"])
    with pytest.raises(ModelError, match="cannot attack rows of a table"):
        fm.robust_accuracy(classifier_of(), frame, y, fm.ATTACKS["pgd"](), groups, radius=0.1)


def test_noise_is_allowed_confirmed_and_within_the_lengths_and_slopes_are_those_of_numbers():
    (frame, y), classifier = some(), classifier_of()
    rows, positions = classifier.encode(frame), np.array([classifier.classes.index(label) for label in y])
    best = fm.measure(classifier, frame, y, FMN(norm="l1", steps=20)).values
    far = masking.measure_noise(classifier, Norm.L1, rows, positions, 4 * best)
    assert np.isfinite(far.values).mean() > 0.5
    assert (far.values >= best * 0.999).all()
    assert (far.values[np.isfinite(far.values)] <= 4 * best[np.isfinite(far.values)]).all()
    unlimited = masking.measure_noise(classifier, Norm.L2, rows, positions, np.full(len(rows), np.inf))
    assert np.isfinite(unlimited.values).mean() > 0.5
    order = np.random.default_rng(0).permutation(len(rows))
    again = masking.measure_noise(classifier, Norm.L1, rows[order], positions[order], 4 * best[order])
    np.testing.assert_array_equal(again.values, far.values[order])
    assert np.isfinite(masking.measure_slopes(classifier, Norm.L1, rows, positions).values).mean() > 0.9


@pytest.mark.parametrize("norm", ["l1", "l2", "linf"])
def test_tables_without_movable_numbers_or_without_categories_are_measured(norm):
    frame, y = some(12)
    numbers, categories = ["age", "pay", "hours"], ["job", "sex"]
    for still in (numbers, categories):
        rules = {name: fm.Column(immutable=True) for name in still}
        classifier = fm.as_classifier(classifier_of().original, columns=rules, training_data=people()[0])
        rows, positions = classifier.encode(frame), np.array([classifier.classes.index(label) for label in y])
        found = fm.measure(classifier, frame, y, FMN(norm=norm, steps=5))
        near = fm.nearest(classifier, frame, y, FMN(norm=norm, steps=5))
        pd.testing.assert_frame_equal(near[still], frame[still])
        met = np.isfinite(found.values)
        assert met.any()
        assert (classifier.original.predict(near)[met] != y[met]).all()
        assert np.isfinite(fm.measure(classifier, frame, y, fm.ESTIMATORS["softmax_margin"]()).values).all()
        assert np.isfinite(masking.measure_slopes(classifier, Norm.parse(norm), rows, positions).values).all()
