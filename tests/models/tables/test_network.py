"""Networks of tables: their scores, their gradients, and the contributions of columns."""

import numpy as np
import pytest
import torch
from sklearn.neural_network import MLPClassifier

from fairmargin.errors import ModelError
from fairmargin.models.tables.network import read_mlp

ACTIVATIONS = ("identity", "logistic", "tanh", "relu")


def fitted(activation="relu", classes=2, hidden=(9, 5), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(150, 4))
    y = (x[:, 0] + 0.3 * rng.normal(size=150) > 0).astype(int) + (classes == 3) * (x[:, 1] > 0)
    return MLPClassifier(hidden, activation=activation, max_iter=40, random_state=0).fit(x, y), x


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_scores_and_torch_modules_give_the_probabilities_of_the_original(activation, classes):
    mlp, x = fitted(activation, classes)
    head, expected = read_mlp(mlp), mlp.predict_proba(x)
    first = x @ head.weights[0] + head.biases[0]
    modules = head.module()(torch.tensor(x)), head.module(first=1)(torch.tensor(first))
    for scores in (torch.tensor(head.scores(x)), torch.tensor(head.scores_of_first(first)), *modules):
        np.testing.assert_allclose(scores.softmax(dim=1).numpy(), expected, rtol=0, atol=1e-12)
    assert head.classes == classes


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("hidden", [(6,), (9, 70)])
def test_the_scores_of_a_row_do_not_depend_on_the_other_rows(hidden):
    mlp, x = fitted(hidden=hidden)
    head = read_mlp(mlp)
    together, order = head.scores(x), np.random.default_rng(0).permutation(len(x))
    np.testing.assert_array_equal(head.scores(x[order]), together[order])
    for i in (0, 70, 149):
        np.testing.assert_array_equal(head.scores(x[i : i + 1]), together[i : i + 1])


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_slopes_are_those_of_torch(activation, classes):
    mlp, x = fitted(activation, classes)
    head = read_mlp(mlp)
    first = torch.tensor(x @ head.weights[0] + head.biases[0], requires_grad=True)
    weight = np.random.default_rng(1).normal(size=(len(x), classes))
    (head.module(first=1)(first) * torch.tensor(weight)).sum().backward()
    found = head.slopes_of_first(first.detach().numpy(), weight)
    np.testing.assert_allclose(found, first.grad.numpy(), rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_the_fingerprint_changes_with_weights_and_activation_only():
    prints = [
        read_mlp(fitted(activation, seed=seed)[0]).fingerprint()
        for activation, seed in [("relu", 0), ("relu", 0), ("tanh", 0), ("relu", 1)]
    ]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 3


def test_a_model_of_several_labels_and_one_that_is_not_fitted_are_refused():
    x = np.random.default_rng(0).normal(size=(30, 2))
    several = MLPClassifier((3,), max_iter=5).fit(x, (x > 0).astype(int))
    with pytest.raises(ModelError, match="several labels per row"):
        read_mlp(several)
    with pytest.raises(ModelError, match="not fitted"):
        read_mlp(MLPClassifier())
