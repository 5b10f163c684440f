"""The parts that need no trained network: each is held against what can be reckoned another way."""

import numpy as np
import pytest
import torch

from fairmargin.data.sets.synthetic import three_classes
from fairmargin.models.linear import LinearClassifier
from fairmargin.training.methods.plain import ERM, AdvERM
from fairmargin_papers.farmur.linear_distances import formulas
from fairmargin_papers.nanda2020 import indicator
from fairmargin_papers.shared.tally import Tally, counter_example, tally_of
from fairmargin_papers.theory.gaussian_pair import GaussianPair
from fairmargin_papers.tran.theory import settings_inside


def test_the_squared_norm_can_choose_another_class():
    # Leads of 2 and 10 over rivals whose weights have length 1 and 4: distances of 2 and 2.5.
    model = LinearClassifier([[0.0, 0.0], [1.0, 0.0], [0.0, 4.0]], [0.0, -2.0, -10.0])
    said = formulas(model, np.zeros((1, 2)), np.array([0]))
    assert said.exact[0] == pytest.approx(2.0)
    assert said.squared[0] == pytest.approx(0.625)
    assert said.last_two[0] == pytest.approx(1.05)
    assert said.other_rival.tolist() == [True]


def test_the_indicator_trains_plainly_and_a_sigmoid_does_not():
    data = three_classes(90)
    plain, hard, soft = (
        indicator.trained(data, method, 1, 2)
        for method in (ERM(), AdvERM(weight=5.0, temperature=0.0), AdvERM(weight=5.0))
    )
    assert all(torch.equal(plain[name], hard[name]) for name in plain)
    assert not all(torch.equal(plain[name], soft[name]) for name in plain)


def test_training_for_a_claim_leaves_the_global_random_numbers_alone():
    before = torch.random.get_rng_state()
    indicator.trained(three_classes(30), ERM(), 0, 1)
    assert torch.equal(before, torch.random.get_rng_state())


def test_every_setting_lies_inside_the_premise_of_the_first_theorem():
    low, high, spread, radius = settings_inside(300, seed=5).values()
    statements = GaussianPair(low, high, spread).statements(radius)
    order = next(each for each in statements if each.name == "Theorem 1, order")
    assert np.asarray(order.premise_holds).all()
    assert (radius == 0).sum() == 30
    assert spread.max() > 10


def test_settings_outside_of_a_premise_do_not_count():
    premise, conclusion = np.array([True, False, True, True]), np.array([True, False, False, True])
    counted = tally_of(premise, conclusion)
    assert counted == Tally(2, 3, 2)
    assert counted.verdict == "does not hold"
    assert counter_example(counted, {"K": np.array([1.0, 2.0, -3.5, 4.0])}) == "Counter-example: K = −3.5."
    assert counter_example(Tally(3, 3), {}) == ""
