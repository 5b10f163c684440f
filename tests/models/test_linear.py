import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.domain import Domain
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier, decode, encode_labels

PAIR = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes"))


def test_predicts_the_class_with_the_largest_score():
    rng = np.random.default_rng(0)
    weight, bias, x = rng.normal(size=(4, 5)), rng.normal(size=4), rng.normal(size=(50, 5))
    expected = (x @ weight.T + bias).argmax(axis=1)
    np.testing.assert_array_equal(LinearClassifier(weight, bias).predict(x), expected)
    assert PAIR.predict([[0.5, 0.5]]).tolist() == [0]  # a tie


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 70), d=st.integers(1, 300), classes=st.integers(2, 5), seed=st.integers(0, 999))
def test_scores_a_sample_the_same_alone_or_in_any_batch(n, d, classes, seed):
    rng = np.random.default_rng(seed)
    model = LinearClassifier(rng.normal(size=(classes, d)), rng.normal(size=classes))
    x = rng.normal(size=(n, d))
    together = model.scores(x)
    alone = np.concatenate([model.scores(row[None]) for row in x])
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(model.scores(np.asfortranarray(x)), together)


def test_scores_blocks_of_a_large_sample_like_the_sample_alone():
    rng = np.random.default_rng(0)
    model = LinearClassifier(rng.normal(size=(3, 9000)), rng.normal(size=3))
    x = rng.normal(size=(40, 9000)).astype(np.float32)
    np.testing.assert_array_equal(model.scores(x)[33], model.scores(x[33:34])[0])


def test_reads_samples_of_any_shape_and_memory_maps(tmp_path):
    x = np.random.default_rng(0).normal(size=(7, 2, 3))
    model = LinearClassifier(np.arange(12.0).reshape(2, 6), [0.0, 1.0])
    np.save(tmp_path / "x.npy", x)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    np.testing.assert_array_equal(model.predict(mapped), model.predict(x.reshape(7, 6)))


def test_is_a_classifier_and_cannot_be_changed():
    assert isinstance(PAIR, Classifier)
    with pytest.raises(dataclasses.FrozenInstanceError):
        PAIR.bias = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        PAIR.weight[0, 0] = 1.0
    weight = np.array([[0.0], [1.0]])
    model = LinearClassifier(weight, [0.0, 0.0])
    weight[1] = -1
    assert model.weight[1, 0] == 1


def test_fingerprint_tells_weights_classes_and_domains_apart():
    other = [
        LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes")),
        LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -2.0], classes=("no", "yes")),
        dataclasses.replace(PAIR, classes=("yes", "no")),
        dataclasses.replace(PAIR, domain=Domain(0, 1)),
    ]
    assert other[0].fingerprint() == PAIR.fingerprint()
    assert len({model.fingerprint() for model in other}) == 4


@pytest.mark.parametrize("labels", [[1, 0], [1.0, 0.0], [True, False], np.array([1, 0], np.uint8), np.array([1.0, 0])])
def test_encodes_numbers_however_they_are_stored(labels):
    model = LinearClassifier([[0.0], [1.0], [2.0]], [0, 0, 0])
    assert encode_labels(model, labels).tolist() == [1, 0]


def test_decode_is_the_inverse_of_encode_also_for_mixed_labels():
    model = LinearClassifier([[0.0], [1.0], [2.0]], [0, 0, 0], classes=(1, "a", None))
    labels = ["a", None, 1, 1]
    assert decode(model, encode_labels(model, labels)).tolist() == labels
