"""Plumb: what more steps give, how many passes it takes, and its constants."""

import ast
import dataclasses
import inspect
import re
from contextlib import contextmanager
from itertools import pairwise

import numpy as np
import pytest

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances import plumb
from fairmargin.distances.measure import measure, measure_shard
from fairmargin.distances.plumb import estimator, schedule, walk
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.distances.searches.ddn import DDN
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import measured_and_confirmed
from tests.distances.saturated import problem as half_saturated
from tests.oracles import random_problem
from tests.perturbation.networks import cnn, test_digits

BOTH_NORMS = pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF])


class Counted:
    """Classifier that counts the rows of forward and backward passes."""

    def __init__(self, model):
        self.inner, self.forward, self.backward = as_classifier(model), 0, 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    @contextmanager
    def network(self, shape):
        with self.inner.network(shape) as network:

            def scores(rows):
                out = network.scores(rows)
                self.forward += len(rows)
                if out.requires_grad:
                    out.register_hook(lambda gradient: setattr(self, "backward", self.backward + len(gradient)))
                return out

            def plain(rows):
                self.forward += len(rows)
                return network.plain(rows)

            yield dataclasses.replace(network, scores=scores, plain=plain)


@BOTH_NORMS
def test_more_searches_only_improve_on_the_first(norm):
    module, (x, y) = cnn(), test_digits(48)
    references = test_digits(300)[0][200:]
    once, often = (
        measure(module, x, y, Plumb(norm=norm, steps=steps), references=references).values for steps in (60, 240)
    )
    assert (often <= once).all()
    assert often.mean() < once.mean()


def test_every_distance_is_that_of_an_input_which_the_model_misclassifies():
    x, _ = test_digits(64)
    for steps in (3, 10, 30, 120):
        found, _ = measured_and_confirmed(cnn(), x, Plumb(steps=steps), 10)
        assert np.isfinite(found.values).all()


def test_the_number_of_passes_is_the_number_of_steps_and_a_few_more():
    x, y = test_digits(80)
    right = as_classifier(cnn()).predict(x) == y
    x, y = x[right][:64], y[right][:64]
    for steps in (5, 10, 30):
        model = Counted(cnn())
        measure_shard(model, Plumb(steps=steps), x, y)
        assert model.backward / 64 <= steps + max(3, steps // 4)  # the first planes
        assert model.forward / 64 <= steps + 8  # scores of the samples, first planes and confirmation


def test_samples_with_a_straight_boundary_need_few_steps():
    model, x = random_problem(np.random.default_rng(1), n=64, d=6, classes=3, domain=Domain())
    counted = Counted(model)
    measure_shard(counted, Plumb(steps=40), x, model.predict(x))
    assert counted.backward / 64 < 12


def test_where_gradients_vanish_it_starts_from_references():
    model, x, y, halves = half_saturated()
    references = np.random.default_rng(3).uniform(0, 1, size=(64, 3)).astype(np.float32)
    truth = np.abs(x[:, 1] + x[:, 2] - 1) / np.sqrt(2)
    values = measure(model, x, y, Plumb(), references=references).values
    assert np.isfinite(values).all()
    masked = np.array(halves.labels)[halves.membership] == "masked"
    assert values[~masked].mean() <= 1.002 * truth[~masked].mean()
    assert values[masked].mean() <= 1.2 * truth[masked].mean()
    # DDN has no gradient to follow there.
    assert values[masked].mean() < measure(model, x, y, DDN(steps=40), references=references).values[masked].mean()


def test_finds_the_nearest_class_even_if_it_is_not_among_the_strongest():
    # Nine rivals draw level in their own direction; the weakest by score is the nearest by far.
    weight, bias = np.vstack([np.zeros(9), np.diag([1.0] * 8 + [20.0])]), np.r_[0.0, np.full(8, -0.5), -0.9]
    model = LinearClassifier(weight, bias, domain=Domain(0, 1))
    found = measure(model, np.zeros((1, 9)), [0], Plumb())
    assert found.values[0] == pytest.approx(0.045, rel=1e-3)


def test_every_constant_names_its_experiment_and_occurs_in_the_pseudo_code():
    (body,) = (
        node.body
        for node in ast.parse(inspect.getsource(schedule)).body
        if isinstance(node, ast.ClassDef) and node.name == "PlumbSchedule"
    )
    documented = {
        node.target.id: after.value.value
        for node, after in pairwise(body)
        if isinstance(node, ast.AnnAssign) and isinstance(after, ast.Expr)
    }
    assert list(documented) == [field.name for field in dataclasses.fields(schedule.PlumbSchedule)]
    for name, text in documented.items():
        assert any(words in text for words in ("Tuned.", "Not tuned.", "not tuned.", "Commit")), name
        assert re.search(rf"\b{name.upper()}\b", plumb.__doc__), f"{name} is missing in the pseudo-code"
    code = "".join(inspect.getsource(module) for module in (estimator, walk))
    assert set(re.findall(r"SCHEDULE\.(\w+)", code)) == set(documented), "every constant is used"
