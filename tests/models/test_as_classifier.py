import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier

from fairmargin.core.domain import Domain
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier

WEIGHT, BIAS = np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.0, 0.0])


def test_converts_classifiers_scikit_learn_models_and_pairs_of_arrays():
    model = LinearClassifier(WEIGHT, BIAS)
    assert as_classifier(model) is model
    other = as_classifier(model, bounds=(0, 1), classes=("a", "b"))
    assert (other.domain.low, other.domain.high, other.classes) == (0, 1, ("a", "b"))
    fitted = RidgeClassifier().fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    assert as_classifier(fitted, domain=Domain(0, 9)).classes == ("a", "b")
    pair = as_classifier((WEIGHT, BIAS))
    assert pair.predict([[0.0, 1.0]]).tolist() == [1]
    assert not pair.domain.is_bounded


@pytest.mark.parametrize("weight", [[2.0, 0.0], [[2.0, 0.0]]])
@pytest.mark.parametrize("bias", [-1.0, [-1.0]])
def test_reads_one_row_of_weights_as_a_binary_model(weight, bias):
    assert as_classifier((weight, bias)).predict([[0.4, 0], [0.5, 0], [0.6, 0]]).tolist() == [0, 0, 1]


def test_imports_neither_torch_nor_scikit_learn():
    code = (
        "import sys, fairmargin.models.as_classifier, fairmargin.models.loading, fairmargin.distances.measure, "
        "fairmargin.distances.catalog; print([m for m in ('torch', 'sklearn') if m in sys.modules])"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"
