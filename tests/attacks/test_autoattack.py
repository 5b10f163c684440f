from copy import deepcopy

import numpy as np
import pytest
import torch

from fairmargin.attacks.apgd import APGD
from fairmargin.attacks.ascent import ascend
from fairmargin.attacks.autoattack import AutoAttack
from fairmargin.attacks.losses import cross_entropy, margin
from fairmargin.attacks.pgd import PGD
from fairmargin.attacks.square import Square
from fairmargin.attacks.survivors import run_attack
from fairmargin.core.domain import Domain
from fairmargin.core.keys import sample_keys
from fairmargin.core.norm import Norm
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.balls import Ball
from tests.attacks.victims import half_space, run
from tests.distances.confirmation import Formula
from tests.oracles import linear_distance, random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, test_digits

both_norms = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2])
RADIUS = {Norm.LINF: 0.06, Norm.L2: 0.45}
SMALL = {"steps": 12, "targets": 2, "queries": 40}


@both_norms
def test_fools_the_samples_that_at_least_one_of_its_attacks_fools_alone(norm):
    x, y = test_digits(64)
    model, keys = as_classifier(cnn()), sample_keys(x, y)
    attack = AutoAttack(norm, **SMALL)
    together = model.predict(run(attack, model, x, y, RADIUS[norm])) != y
    alone = []
    for member in attack.members:
        found = run_attack(attack, model, x, y, RADIUS[norm], keys, loss=margin, search=member)
        alone.append(model.predict(found) != y)
    assert len(alone) == 4
    np.testing.assert_array_equal(together, np.any(alone, axis=0))
    for each in (APGD(norm, 12), APGD(norm, 12, loss="dlr", targets=2), Square(norm, 40)):
        assert not ((model.predict(run(each, model, x, y, RADIUS[norm])) != y) & ~together).any()


@pytest.mark.parametrize("share", [0.6, 1.0])
@both_norms
def test_fools_as_many_as_torchattacks_autoattack(norm, share):
    x, y = test_digits(100)
    radius, model = share * RADIUS[norm], as_classifier(cnn())
    kind = {Norm.LINF: "Linf", Norm.L2: "L2"}[norm]
    peers = peer("torchattacks")
    with torch.random.fork_rng():
        theirs = peers.AutoAttack(deepcopy(cnn()), norm=kind, eps=radius, n_classes=10, seed=0)
        # The same budgets as in this package; the ascents of torchattacks have ten steps by default.
        _, towards, nearest, square = theirs._autoattack.attacks
        towards.n_target_classes = nearest.n_target_classes = SMALL["targets"]
        square.n_queries = SMALL["queries"]
        there = theirs(torch.tensor(x), torch.tensor(y)).detach().numpy()
    here = run(AutoAttack(norm, **SMALL), model, x, y, radius)
    wrong = [int((model.predict(found) != y).sum()) for found in (here, there)]
    assert 5 < wrong[1] < 90
    assert wrong[1] - 1 <= wrong[0] <= wrong[1] + 3


@both_norms
def test_its_minimum_norm_search_fools_the_samples_that_plumb_finds_within_the_radius(norm):
    x, y = test_digits(60)
    model, keys = as_classifier(cnn()), sample_keys(x, y)
    found = measure(model, x, y, Plumb(norm, 12))
    attack = AutoAttack(norm, steps=12)
    there = run_attack(attack, model, x, y, RADIUS[norm], keys, loss=margin, search=attack.members[2])
    fooled = model.predict(there) != y
    assert 5 < fooled.sum() < 55
    assert fooled[found.values <= RADIUS[norm] * 0.999].all()
    assert not fooled[found.values > RADIUS[norm] * 1.05].all()


@both_norms
def test_fools_exactly_the_samples_of_a_linear_model_within_the_radius(norm):
    model, x = random_problem(np.random.default_rng(5), n=40, d=6, classes=5, domain=Domain(0, 1))
    y = model.predict(x)
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    radius = float(np.median(exact[np.isfinite(exact)]))
    assert (np.abs(exact / radius - 1) > 1e-4).sum() >= 39
    found = run(AutoAttack(norm, steps=20, queries=20), model, x, y, radius * 1.0005)
    np.testing.assert_array_equal(model.predict(found) != y, exact <= radius)


@both_norms
def test_works_for_two_classes(norm):
    model, x, y, distances = half_space()
    attack = AutoAttack(norm, steps=15, queries=20)
    assert (model.predict(run(attack, model, x, y, distances(norm) * 1.001)) != y).all()
    assert (model.predict(run(attack, model, x, y, distances(norm) * (1 - 1e-9))) == y).all()


def test_multiplying_the_scores_does_not_hide_misclassified_inputs():
    """The gradient of the cross-entropy underflows for such a model; those of log-odds and ratios do not."""
    x, y = test_digits(40)
    body = cnn()
    plain, masked = (as_classifier(Formula(lambda x, k=k: k * body(x)), classes=range(10)) for k in (1, 1000))
    ball = Ball.around(torch.tensor(x), Norm.LINF, 0.06, 0.0, 1.0)
    label = torch.tensor(y)
    blind = ascend(lambda at: cross_entropy(1000 * body(at), label), torch.tensor(x), ball=ball, step=0.015, steps=20)
    attack = AutoAttack(steps=12, targets=3, queries=30)
    wrong = [
        int((model.predict(found) != y).sum())
        for model, found in (
            (masked, blind.numpy()),
            (masked, run(attack, masked, x, y, 0.06)),
            (plain, run(attack, plain, x, y, 0.06)),
            (masked, run(APGD(steps=12, loss="dlr"), masked, x, y, 0.06)),
        )
    ]
    assert wrong[0] < wrong[3] <= wrong[1] + 1
    assert abs(wrong[1] - wrong[2]) <= 1


def test_only_square_succeeds_where_gradients_are_zero():
    def scores(x):
        side = torch.floor(8 * (x.flatten(1) - 0.5) @ torch.linspace(-1, 1, 16, dtype=x.dtype)) + 0.5
        side = side + 0 * x.flatten(1).sum(dim=1)
        return torch.stack([side, -side], dim=1)

    model = as_classifier(Formula(scores), classes=range(2), domain=Domain(0, 1))
    x = np.random.default_rng(0).uniform(0.2, 0.8, size=(30, 1, 4, 4)).astype(np.float32)
    y = model.predict(x)
    wrong = [
        int((model.predict(run(each, model, x, y, 0.15)) != y).sum())
        for each in (PGD(steps=30), APGD(steps=30), Square(queries=100), AutoAttack(steps=5, queries=100))
    ]
    assert max(wrong[:2]) < 8
    assert wrong[3] >= wrong[2] > 24


def test_defaults_are_the_published_settings():
    attack = AutoAttack()
    assert (attack.steps, attack.restarts, attack.targets, attack.queries) == (100, 1, 9, 5000)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: AutoAttack(steps=0), "`steps` of AutoAttack must be at least 1"),
        (lambda: AutoAttack(targets=0), "`targets` of AutoAttack must be at least 1"),
        (lambda: AutoAttack(queries=True), "`queries` of AutoAttack must be a whole number"),
        (lambda: AutoAttack("l1"), "`AutoAttack` does not support the norm L1"),
    ],
)
def test_invalid_settings_are_refused(make, said):
    with pytest.raises(InputError, match=said):
        make()
