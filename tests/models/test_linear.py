import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier, decode, encode_labels

PAIR = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], classes=("no", "yes"))


def test_predicts_the_class_with_the_largest_score():
    rng = np.random.default_rng(0)
    weight, bias, x = rng.normal(size=(4, 5)), rng.normal(size=4), rng.normal(size=(50, 5))
    expected = (x @ weight.T + bias).argmax(axis=1)
    np.testing.assert_array_equal(LinearClassifier(weight, bias).predict(x), expected)


def test_gives_a_tie_to_the_class_that_comes_first():
    assert PAIR.predict([[0.5, 0.5]]).tolist() == [0]


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


def test_says_which_sample_holds_nan():
    with pytest.raises(InputError, match=r"NaN or infinity, first nan in sample 2, feature 1"):
        PAIR.predict(np.array([[0, 0], [0, 0], [0, np.nan]]))


def test_says_how_many_features_it_takes():
    with pytest.raises(InputError, match=r"has 3 features .* but the model takes 2"):
        PAIR.predict(np.zeros((1, 3)))


def test_refuses_samples_that_are_not_numbers():
    with pytest.raises(InputError, match="must hold numbers only"):
        PAIR.predict([["a", "b"]])


@pytest.mark.parametrize(
    ("weight", "bias", "message"),
    [
        ([[1.0, 2.0]], [0.0], "one row per class"),
        ([[1.0], [2.0]], [0.0], "must hold 2 numbers"),
        ([[1.0], [np.nan]], [0.0, 0.0], "NaN or infinity in 1 of 2"),
        ([["a"], ["b"]], [0.0, 0.0], "must hold numbers"),
    ],
)
def test_refuses_weights_that_make_no_classifier(weight, bias, message):
    with pytest.raises(ModelError, match=message):
        LinearClassifier(weight, bias)


def test_refuses_a_domain_of_another_number_of_features():
    with pytest.raises(InputError, match="3 entries but a sample has 2"):
        LinearClassifier([[0, 0], [1, 1]], [0, 0], domain=Domain([0, 0, 0], 1))


@pytest.mark.parametrize("classes", [("a", "a"), (1, True), ("a",)])
def test_refuses_classes_that_are_not_one_name_each(classes):
    with pytest.raises(ModelError, match=r"twice|names 1 classes"):
        LinearClassifier([[0.0], [1.0]], [0.0, 0.0], classes=classes)


def test_is_a_classifier_and_cannot_be_changed():
    assert isinstance(PAIR, Classifier)
    with pytest.raises(dataclasses.FrozenInstanceError):
        PAIR.bias = np.zeros(2)
    with pytest.raises(ValueError, match="read-only"):
        PAIR.weight[0, 0] = 1.0


def test_keeps_its_own_copy_of_the_weights():
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


def test_says_which_labels_are_no_classes_of_the_model():
    with pytest.raises(InputError, match=r"in 2 of 4 samples \(first 'maybe' at index 1\).* are 'no', 'yes'"):
        encode_labels(PAIR, ["no", "maybe", "yes", "never"])


def test_says_that_labels_and_classes_have_other_types():
    with pytest.raises(InputError, match="labels are int, the classes str: convert"):
        encode_labels(PAIR, [0, 1])


@pytest.mark.parametrize("labels", [np.eye(2), [[0], [1]], "yes", 3])
def test_refuses_labels_that_are_no_column(labels):
    with pytest.raises(InputError, match="`y` must"):
        encode_labels(PAIR, labels)
