import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from fairmargin.core.domain import Domain
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier

WEIGHT, BIAS = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 0.0])


def test_returns_a_classifier_unchanged():
    model = LinearClassifier(WEIGHT, BIAS)
    assert as_classifier(model) is model


def test_gives_a_classifier_another_domain_and_other_labels():
    model = as_classifier(LinearClassifier(WEIGHT, BIAS), bounds=(0, 1), classes=("a", "b"))
    assert (model.domain.low, model.domain.high, model.classes) == (0, 1, ("a", "b"))


def test_refuses_another_domain_for_a_classifier_that_cannot_be_copied():
    class Own:
        classes, domain, offers, tile = (0, 1), Domain(), frozenset({"predict"}), 1

        def predict(self, x):
            return np.zeros(len(x), dtype=np.int64)

        def fingerprint(self):
            return "own"

    assert as_classifier(Own()).offers == {"predict"}
    with pytest.raises(ModelError, match="defines its own domain"):
        as_classifier(Own(), bounds=(0, 1))


def test_reads_a_scikit_learn_model():
    fitted = RidgeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    assert as_classifier(fitted, domain=Domain(0, 9)).classes == ("a", "b")


def test_reads_weights_and_biases():
    assert as_classifier((WEIGHT, BIAS)).predict([[0.0, 1.0]]).tolist() == [1]


@pytest.mark.parametrize("weight", [[2.0, 0.0], [[2.0, 0.0]]])
@pytest.mark.parametrize("bias", [-1.0, [-1.0]])
def test_reads_one_row_of_weights_as_a_binary_model(weight, bias):
    assert as_classifier((weight, bias)).predict([[0.4, 0], [0.5, 0], [0.6, 0]]).tolist() == [0, 0, 1]


def test_has_no_limits_unless_told():
    assert not as_classifier((WEIGHT, BIAS)).domain.is_bounded


def test_refuses_bounds_and_domain_together():
    with pytest.raises(InputError, match="not both"):
        as_classifier((WEIGHT, BIAS), bounds=(0, 1), domain=Domain(0, 1))


@pytest.mark.parametrize("bounds", [1.0, (0, 1, 2)])
def test_refuses_bounds_that_are_no_pair(bounds):
    with pytest.raises(InputError, match="must be a pair"):
        as_classifier((WEIGHT, BIAS), bounds=bounds)


@pytest.mark.parametrize("pair", [(WEIGHT, "x"), ([[1.0, 2.0]], [1.0, 2.0])])
def test_refuses_pairs_that_are_no_weights_and_biases(pair):
    with pytest.raises(ModelError, match=r"weight|weights"):
        as_classifier(pair)


@pytest.mark.parametrize("model", ["model.npz", None, 3, LinearClassifier])
def test_lists_what_is_supported_when_given_something_else(model):
    with pytest.raises(
        ModelError, match=r"Cannot read a model of type .* Supported are: a Fairmargin `Classifier`; a lin"
    ):
        as_classifier(model)


def test_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys, fairmargin.models.as_classifier, fairmargin.models.loading, fairmargin.distances.measure, "
        "fairmargin.distances.catalog; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
