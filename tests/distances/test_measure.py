import pickle
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import nn

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
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.oracles import random_problem

PAIR = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0], classes=("no", "yes"))


@dataclass(frozen=True)
class Recorder:
    """Returns its keys as distances, to show what an estimator is given."""

    norm: Norm = Norm.L2
    needs: ClassVar[str] = "predict"
    norms: ClassVar[frozenset[Norm]] = frozenset({Norm.L2})
    revision: ClassVar[int] = 1

    def __call__(self, model, x, y, *, keys):
        return Distances((keys >> np.uint64(12)).astype(float), np.ones(len(y), bool), Bound.UPPER, self.norm)


def test_measures_labels_by_their_values():
    found = measure(PAIR, [[0.0, 0.0], [3.0, 4.0], [0.0, 0.0]], ["no", "yes", "yes"], ExactLinear())
    assert found.values.tolist() == [1.0, 4.0, 0.0]
    assert found.correct.tolist() == [True, True, False]


class Nameless(Recorder):
    __repr__ = object.__repr__


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
    assert found.estimator == expected
    assert found.take([0]).estimator == expected


def test_measures_a_scikit_learn_model_and_pandas_columns():
    frame = pd.DataFrame({"a": [0.0, 1.0, 8.0, 9.0], "b": [1, 0, 1, 0]}, index=[7, 5, 3, 1])
    labels = pd.Series(["low", "low", "high", "high"], index=[7, 5, 3, 1])
    fitted = LogisticRegression().fit(frame.to_numpy(), labels)
    found = measure(fitted, frame, labels, ExactLinear(Norm.LINF))
    margin = np.abs(fitted.decision_function(frame.to_numpy()))
    np.testing.assert_allclose(found.values, margin / np.abs(fitted.coef_).sum())


@pytest.mark.parametrize("shard", [1, 7, 64, 1024])
def test_the_size_of_shards_changes_nothing(monkeypatch, shard):
    model, x = random_problem(np.random.default_rng(0), n=100, domain=Domain(0, 1))
    whole = ExactLinear()(model, x, model.predict(x), keys=np.zeros(100, np.uint64)).values
    monkeypatch.setattr(module, "_MOST", shard)
    np.testing.assert_array_equal(measure(model, x, model.predict(x), ExactLinear()).values, whole)


def test_a_shard_alone_gives_the_same_bits_as_the_whole(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 16)
    model, x = random_problem(np.random.default_rng(1), n=50, domain=Domain(0, 1))
    y, estimator = model.predict(x), ExactLinear()
    worker = pickle.loads(pickle.dumps(measure_shard))
    part = worker(pickle.loads(pickle.dumps(model)), estimator, x[16:32], y[16:32], 0)
    np.testing.assert_array_equal(part.values, measure(model, x, y, estimator).values[16:32])


def test_keys_come_from_the_rows_as_given_and_the_class_positions(monkeypatch):
    monkeypatch.setattr(module, "_MOST", 2)
    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    found = measure(PAIR, x, ["no", "yes", "no", "yes", "no"], Recorder(), seed=3)
    expected = sample_keys(x, np.array([0, 1, 0, 1, 0]), 3) >> np.uint64(12)
    np.testing.assert_array_equal(found.values, expected.astype(float))


def test_streams_memory_maps_and_reports_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "_MOST", 4)
    np.save(tmp_path / "x.npy", np.zeros((10, 2)))
    seen = []
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    found = measure(PAIR, mapped, ["no"] * 10, ExactLinear(), progress=lambda done, total: seen.append((done, total)))
    assert found.values.tolist() == [1.0] * 10
    assert seen == [(4, 10), (8, 10), (10, 10)]


def test_names_the_sample_with_nan_by_its_place_in_the_whole(monkeypatch):
    monkeypatch.setattr(module, "_CHECKED_AT_ONCE", 8)
    x = np.zeros((10, 2))
    x[9, 1] = np.nan
    with pytest.raises(InputError, match="sample 9, feature 1"):
        measure(PAIR, x, ["no"] * 10, ExactLinear())


def test_names_the_sample_outside_the_domain_by_its_place_in_the_whole(monkeypatch):
    monkeypatch.setattr(module, "_CHECKED_AT_ONCE", 8)
    x = np.zeros((10, 2))
    x[9, 1] = 200
    boxed = LinearClassifier(PAIR.weight, PAIR.bias, domain=Domain(0, 1))
    with pytest.raises(InputError, match="sample 9 has 200 in feature 1"):
        measure(boxed, x, [0] * 10, ExactLinear())


def part(bound="upper", norm="l2", subject="model", tried=None):
    return Distances([1.0, np.inf], [True, True], bound, norm, subject, tried)


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
    named, other = replace(part(), estimator="a"), replace(part(), estimator="b")
    assert concatenate([named, named]).estimator == "a"
    assert concatenate([named, part()]).estimator == concatenate([named, other]).estimator == ""


@pytest.mark.parametrize("other", [part(norm="l1"), part(subject="smoothed(0.25)")])
def test_refuses_to_join_other_norms_or_subjects(other):
    with pytest.raises(InputError, match="Distances of part 1 are of"):
        concatenate([part(), other])


def test_refuses_to_join_distances_that_keep_other_classes():
    kept = replace(part(), keep="no")
    assert concatenate([kept, kept]).keep == ("no",)
    with pytest.raises(InputError, match="part 1 keep each sample's own class, those of part 0 the class 'no'"):
        concatenate([kept, part()])


def test_refuses_to_join_nothing():
    with pytest.raises(InputError, match="no distances"):
        concatenate([])


def test_as_many_tiles_are_measured_at_a_time_as_fit_into_memory():
    class Tiled(LinearClassifier):
        tile = 64

    tiled, features = Tiled(PAIR.weight, PAIR.bias), 3 * 200 * 200
    of_memory = [shard_size(tiled, features, 10_000, memory=gib * 2**30) for gib in (1, 2, 4, 64)]
    assert of_memory == [64, 128, 256, 512]
    assert shard_size(tiled, features, 10_000, memory=0) == 64
    assert [shard_size(tiled, 64, samples) for samples in (10, 719, 1_200, 100_000)] == [128, 128, 256, 512]


class Cliff(nn.Module):
    """Class 1 where the first feature exceeds 0.7; the slope leads away from there."""

    def forward(self, x):
        lead = torch.where(x[:, :1] > 0.7, -1.0, 1.0) + 0 * x.sum(dim=1, keepdim=True)
        return torch.cat([lead, torch.zeros_like(lead)], dim=1)


CLIFF = as_classifier(Cliff(), classes=(0, 1), bounds=(-np.inf, np.inf))
LEFT = np.random.default_rng(0).uniform(-0.5, 0.5, size=(20, 2)).astype(np.float32)


def test_references_show_the_way_where_a_search_by_gradients_finds_none():
    without = measure(CLIFF, LEFT, [0] * 20, DeepFool())
    assert np.isinf(without.values).all()
    found = measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=[[5.0, 0.0], [0.0, 0.0]])
    assert np.isfinite(found.values).all()
    assert (found.values >= 0.7 - LEFT[:, 0] - 1e-6).all()
    useless = measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=[[0.0, 0.0]])
    assert np.isinf(useless.values).all()


def test_with_references_too_a_sample_is_measured_the_same_alone_in_any_order_and_shard(monkeypatch):
    references = np.random.default_rng(1).uniform(-3, 3, size=(300, 2))
    together = measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=references).values
    assert np.isfinite(together).all()
    order = np.random.default_rng(2).permutation(20)
    other_order = np.random.default_rng(3).permutation(300)
    turned = measure(CLIFF, LEFT[order], [0] * 20, DeepFool(), references=references[other_order]).values
    np.testing.assert_array_equal(turned, together[order])
    alone = measure(CLIFF, LEFT[4:5], [0], DeepFool(), references=references).values
    np.testing.assert_array_equal(alone, together[4:5])
    monkeypatch.setattr(module, "_MOST_OF_A_NETWORK", 7)
    np.testing.assert_array_equal(measure(CLIFF, LEFT, [0] * 20, DeepFool(), references=references).values, together)


def test_references_change_nothing_for_who_is_found_anyway_nor_for_estimators_that_do_not_search():
    model, x = random_problem(np.random.default_rng(4), n=12, domain=Domain(0, 1))
    y, references = model.predict(x), np.random.default_rng(5).uniform(size=(9, x.shape[1]))
    for estimator in (ExactLinear(), Recorder()):
        with_them = measure(model, x, y, estimator, references=references)
        np.testing.assert_array_equal(with_them.values, measure(model, x, y, estimator).values)
    free = LinearClassifier(model.weight, model.bias)
    np.testing.assert_array_equal(
        measure(free, x, y, DeepFool(), references=references).values, measure(free, x, y, DeepFool()).values
    )
