import pickle

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Differentiable
from fairmargin.models.references import Referenced, as_references, drawn, fingerprint_of

LINEAR = LinearClassifier([[0.0, 0.0], [3.0, 4.0]], [0.0, -5.0], classes=("no", "yes"), domain=Domain(0, 9))
SOME = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("kind", ["linear", "torch"])
def test_it_is_the_same_classifier_with_references(kind):
    model = LINEAR if kind == "linear" else as_classifier(nn.Linear(2, 2), bounds=(0, 9))
    referenced = Referenced(model, SOME)
    assert isinstance(referenced, Differentiable)
    assert (referenced.classes, referenced.domain, referenced.tile) == (model.classes, model.domain, model.tile)
    np.testing.assert_array_equal(referenced.predict(SOME), model.predict(SOME))
    with model.network((2,)) as plain, referenced.network((2,)) as network:
        assert plain.references is None
        assert network.references.dtype == plain.dtype
        assert network.references.tolist() == SOME.tolist()
        rows = torch.zeros(plain.tile, 2, dtype=plain.dtype)
        assert torch.equal(network.plain(rows), plain.plain(rows))


def test_its_fingerprint_tells_models_and_references_apart_and_survives_another_process():
    other = LinearClassifier(LINEAR.weight, [0.0, -6.0], domain=LINEAR.domain)
    several = [Referenced(LINEAR, SOME), Referenced(LINEAR, SOME + 1), Referenced(other, SOME), LINEAR]
    assert len({model.fingerprint() for model in several}) == 4
    assert Referenced(LINEAR, SOME.copy()).fingerprint() == several[0].fingerprint()
    sent = pickle.loads(pickle.dumps(several[0]))
    assert sent.fingerprint() == several[0].fingerprint()
    network = Referenced(as_classifier(nn.Linear(2, 2)), SOME / 9)
    assert pickle.loads(pickle.dumps(network)).fingerprint() == network.fingerprint()


def test_the_fingerprint_is_of_the_content_and_not_of_its_storage():
    wide = np.zeros((2, 4))
    wide[:, ::2] = SOME
    assert fingerprint_of(wide[:, ::2]) == fingerprint_of(SOME) == fingerprint_of(np.asfortranarray(SOME))
    assert fingerprint_of(SOME.astype(">f8")) == fingerprint_of(SOME)
    assert fingerprint_of(SOME.reshape(1, 4)) != fingerprint_of(SOME)
    assert fingerprint_of(SOME.astype(np.float32)) != fingerprint_of(SOME)


@pytest.mark.parametrize("kind", [">f8", "u1", "i4", "f2", "?"])
def test_references_of_any_numeric_type_become_rows_inside_the_domain(kind):
    model = as_classifier(nn.Linear(2, 2), bounds=(0, 1))
    with Referenced(model, np.array([[0, 1], [1, 1]], dtype=kind)).network((2,)) as network:
        assert network.references.dtype == torch.float32
        assert network.references.tolist() == [[0.0, 1.0], [1.0, 1.0]]
    with Referenced(model, np.array([[-1e-7, 1 + 1e-7]])).network((2,)) as network:
        assert network.references.tolist() == [[0.0, 1.0]]


# Drawing them


def many(count=500, classes=5, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(size=(count, 2, 3)).astype(np.float32), rng.integers(classes, size=count)


def test_the_same_samples_are_drawn_in_any_order_and_however_often_they_occur():
    x, y = many()
    expected = drawn(x, y, 22)
    assert expected.shape == (22, 2, 3)
    order = np.random.default_rng(1).permutation(len(x))
    np.testing.assert_array_equal(drawn(x[order], y[order], 22), expected)
    twice = np.concatenate([order, order[:300]])
    np.testing.assert_array_equal(drawn(x[twice], y[twice], 22), expected)
    assert len(np.unique(expected.reshape(22, -1), axis=0)) == 22


def test_classes_are_drawn_evenly_however_rare_they_are():
    x, y = many(1000)
    y[:] = 0
    y[17], y[40:45] = 1, 2
    where = {row.tobytes(): label for row, label in zip(x, y, strict=True)}
    labels = [where[row.tobytes()] for row in drawn(x, y, 9)]
    assert (labels.count(0), labels.count(1), labels.count(2)) == (4, 1, 4)
    few = [where[row.tobytes()] for row in drawn(x, y, 2)]
    assert len(set(few)) == 2


def test_fewer_samples_than_wanted_are_all_taken_and_large_ones_are_read_in_parts(monkeypatch):
    x, y = many(30)
    assert len(drawn(x, y, 64)) == 30
    whole = drawn(x, y, 7)
    monkeypatch.setattr("fairmargin.models.references._NUMBERS_AT_ONCE", 60)
    seen = []
    np.testing.assert_array_equal(drawn(x, y, 7, lambda done, total: seen.append((done, total))), whole)
    assert seen == [(10, 30), (20, 30), (30, 30)]


def test_without_classes_those_with_the_least_keys_are_drawn():
    x = np.random.default_rng(0).uniform(size=(50, 3))
    keys = sample_keys(x, np.zeros(50, np.int64))
    np.testing.assert_array_equal(drawn(x, None, 5), x[np.argsort(keys)[:5]])


# What a user gives


def test_few_references_are_kept_and_some_of_many_are_selected_by_content():
    np.testing.assert_array_equal(as_references([[1, 2], [3, 4]], (2,), LINEAR.domain), SOME)
    x, _ = many(1000)
    kept = as_references(x, (2, 3), Domain(0, 1))
    assert kept.shape == (256, 2, 3)
    assert kept.dtype == np.float32
    np.testing.assert_array_equal(as_references(x[::-1], (2, 3), Domain(0, 1)), kept)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 0
    np.testing.assert_array_equal(as_references(torch.tensor(SOME), (2,), LINEAR.domain), SOME)


def test_features_that_cannot_move_may_have_any_value():
    fixed = Domain([0.0, 0.0], [1.0, 0.0])
    assert as_references([[0.5, 77.0]], (2,), fixed).tolist() == [[0.5, 77.0]]
