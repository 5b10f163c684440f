import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from fairmargin.core.bound import Bound
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.distances import measure as module
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure, measure_shard, shard_size
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import InputError
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import assert_independent_of_the_batch, of_formula
from tests.oracles import random_problem

PAIR = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0], classes=("no", "yes"))


@dataclass(frozen=True)
class Recorder:
    """Estimator that returns its keys as distances."""

    norm: Norm = Norm.L2
    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __call__(self, model, x, y, *, keys):
        return Distances((keys >> np.uint64(12)).astype(float), np.ones(len(y), bool), Bound.UPPER, self.norm)


class Nameless(Recorder):
    __repr__ = object.__repr__


def test_measures_labels_by_their_values():
    found = measure(PAIR, [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], ["no", "yes", "yes"], ExactLinear())
    assert found.values.tolist() == [1.0, 4.0, 0.0]
    assert found.correct.tolist() == [True, True, False]


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        (ExactLinear(Norm.LINF), "exact_linear:norm=linf"),
        (Recorder(), "Recorder(norm=<Norm.L2: 'l2'>)"),
        (Nameless(), ""),
    ],
)
def test_distances_name_the_estimator_with_its_settings(estimator, expected):
    found = measure(PAIR, np.zeros((3000, 2)), ["no"] * 3000, estimator)
    assert found.estimator == found.take([0]).estimator == expected


def test_measures_a_scikit_learn_model_and_pandas_columns():
    frame = pd.DataFrame({"a": [0.0, 1.0, 8.0, 9.0], "b": [1, 0, 1, 0]}, index=[7, 5, 3, 1])
    labels = pd.Series(["low", "low", "high", "high"], index=[7, 5, 3, 1])
    fitted = LogisticRegression().fit(frame.to_numpy(), labels)
    found = measure(fitted, frame, labels, ExactLinear(Norm.LINF))
    margin = np.abs(fitted.decision_function(frame.to_numpy()))
    np.testing.assert_allclose(found.values, margin / np.abs(fitted.coef_).sum())


@pytest.mark.parametrize("shard", [1, 7, 1024])
def test_the_size_of_shards_changes_nothing_and_a_worker_gives_the_same_bits(monkeypatch, shard):
    model, x = random_problem(np.random.default_rng(0), n=100, domain=Domain(0, 1))
    y, estimator = model.predict(x), ExactLinear()
    whole = estimator(model, x, y, keys=np.zeros(100, np.uint64)).values
    monkeypatch.setattr(module, "_MOST", shard)
    np.testing.assert_array_equal(measure(model, x, y, estimator).values, whole)
    worker, copy = pickle.loads(pickle.dumps((measure_shard, model)))
    np.testing.assert_array_equal(worker(copy, estimator, x[16:32], y[16:32], 0).values, whole[16:32])


def test_keys_depend_on_the_samples_as_given_the_class_positions_and_the_seed(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = measure(PAIR, x, ["no", "yes", "no", "yes", "no"], Recorder(), seed=3)
    expected = sample_keys(x, np.array([0, 1, 0, 1, 0]), 3) >> np.uint64(12)
    np.testing.assert_array_equal(found.values, expected.astype(float))


def test_reads_memory_maps_in_parts_and_reports_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 4)
    np.save(tmp_path / "x.npy", np.zeros((10, 2)))
    reports, mapped = [], np.load(tmp_path / "x.npy", mmap_mode="r")
    found = measure(PAIR, mapped, ["no"] * 10, ExactLinear(), progress=lambda *at: reports.append(at))
    assert found.values.tolist() == [1.0] * 10
    assert reports == [(4, 10), (8, 10), (10, 10)]


@pytest.mark.parametrize(("value", "words"), [(np.nan, "sample 9, feature 1"), (200, "sample 9 has 200 in feature 1")])
def test_an_invalid_sample_is_named_by_its_position_in_the_whole(monkeypatch, value, words):
    monkeypatch.setattr(module, "_CHECKED_AT_ONCE", 8)
    x = np.zeros((10, 2))
    x[9, 1] = value
    with pytest.raises(InputError, match=words):
        measure(LinearClassifier(PAIR.weight, PAIR.bias, domain=Domain(0, 1)), x, [0] * 10, ExactLinear())


def test_as_many_tiles_are_measured_at_a_time_as_fit_into_memory():
    class Tiled(LinearClassifier):
        tile = 64

    tiled, features = Tiled(PAIR.weight, PAIR.bias), 3 * 200 * 200
    assert [shard_size(tiled, features, 10_000, gib * 2**30) for gib in (0, 1, 2, 4, 64)] == [64, 64, 128, 256, 512]
    assert [shard_size(tiled, 64, samples) for samples in (10, 719, 1_200, 100_000)] == [128, 128, 256, 512]


# Concatenation of shards ------------------------------------------------------------------------------------------


def part(bound="upper", norm="l2", subject="model", **changes):
    return replace(Distances([1.0, np.inf], [True, True], bound, norm, subject), **changes)


def test_concatenates_in_order_and_keeps_how_far_was_tried():
    whole = concatenate([part(tried=[9.0, 5.0]), part()])
    assert whole.values.tolist() == [1.0, np.inf, 1.0, np.inf]
    np.testing.assert_array_equal(whole.tried, [9.0, 5.0, np.nan, np.nan])


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (("upper", "upper"), "upper"),
        (("exact", "upper"), "upper"),
        (("upper", "lower"), "neither"),
        (("exact",), "exact"),
    ],
)
def test_the_bound_of_a_whole_holds_for_every_part(bounds, expected):
    assert concatenate([part(bound) for bound in bounds]).bound.value == expected


def test_the_estimator_of_a_whole_is_known_if_it_is_the_same_for_every_part():
    named, other, kept = part(estimator="a"), part(estimator="b"), part(keep="no")
    assert concatenate([named, named]).estimator == "a"
    assert concatenate([named, part()]).estimator == concatenate([named, other]).estimator == ""
    assert concatenate([kept, kept]).keep == ("no",)


# References -------------------------------------------------------------------------------------------------------


def cliff(x):
    """Class 1 where the first feature exceeds 0.7; the gradient is 0."""
    lead = torch.where(x[:, :1] > 0.7, -1.0, 1.0) + 0 * x.sum(dim=1, keepdim=True)
    return torch.cat([lead, torch.zeros_like(lead)], dim=1)


CLIFF = of_formula(cliff, bounds=(-np.inf, np.inf))
LEFT = np.random.default_rng(0).uniform(-0.5, 0.5, size=(20, 2)).astype(np.float32)


def test_references_lead_to_a_boundary_where_a_search_by_gradients_finds_none():
    assert np.isinf(measure(CLIFF, LEFT, [0] * 20, DeepFool()).values).all()
    found = measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=[[5.0, 0.0], [0.0, 0.0]])
    assert np.isfinite(found.values).all()
    assert (found.values >= 0.7 - LEFT[:, 0] - 1e-6).all()
    of_its_own_class = [[0.0, 0.0]]
    assert np.isinf(measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=of_its_own_class).values).all()


def test_with_references_too_a_sample_is_measured_the_same_alone_in_any_order_and_shard(monkeypatch):
    references = np.random.default_rng(1).uniform(-3, 3, size=(300, 2))

    def run(x, y):
        return measure(CLIFF, x, y, DeepFool(), references=references).values

    y = np.zeros(20, dtype=int)
    together = assert_independent_of_the_batch(run, LEFT, y)
    assert np.isfinite(together).all()
    other_order = references[np.random.default_rng(3).permutation(300)]
    np.testing.assert_array_equal(measure(CLIFF, LEFT, y, DeepFool(), references=other_order).values, together)
    monkeypatch.setattr(module, "_MOST_OF_A_NETWORK", 7)
    np.testing.assert_array_equal(run(LEFT, y), together)


def test_references_change_nothing_where_a_search_succeeds_and_for_estimators_that_do_not_search():
    model, x = random_problem(np.random.default_rng(4), n=12, domain=Domain(0, 1))
    y, references = model.predict(x), np.random.default_rng(5).uniform(size=(9, x.shape[1]))
    free = LinearClassifier(model.weight, model.bias)
    for subject, estimator in ((model, ExactLinear()), (model, Recorder()), (free, DeepFool())):
        plain, aided = (measure(subject, x, y, estimator, references=r).values for r in (None, references))
        np.testing.assert_array_equal(aided, plain)
