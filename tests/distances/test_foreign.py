import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.combine import Tightest
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.distances.confirmation import assert_independent_of_the_batch
from tests.peers import of_inputs, peer
from tests.perturbation.networks import cnn, mlp, test_digits
from tests.spec.test_every_estimator import Fragile

HALF = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], domain=Domain(0, 1))  # class 1 where a + b > 1
X = np.array([[0.2, 0.2], [0.4, 0.1], [0.9, 0.9]])
Y = np.array([0, 0, 1])


def art_classifier(module):
    estimators = peer("art.estimators.classification")
    return estimators.PyTorchClassifier(
        module, nn.CrossEntropyLoss(), input_shape=(1, 8, 8), nb_classes=10, clip_values=(0, 1), device_type="cpu"
    )


def foolbox_deepfool(module):
    return peer("foolbox").attacks.L2DeepFoolAttack(steps=20, candidates=5)


def adv_lib_ddn(module):
    return partial(peer("adv_lib.attacks").ddn, steps=20)


def torchattacks_descent(module):
    return peer("torchattacks").PGDL2(module, eps=2.0, alpha=0.2, steps=15, random_start=False)


def torchattacks_carlini(module):
    return peer("torchattacks").CW(module, c=5, steps=60, lr=0.02)


def art_deepfool(module):
    evasion = peer("art.attacks.evasion")
    return evasion.DeepFool(art_classifier(module), max_iter=20, nb_grads=5, batch_size=64, verbose=False)


def a_function(module):
    def uphill(x, y):
        x = x.clone().requires_grad_(True)
        for _ in range(10):
            (slope,) = torch.autograd.grad(nn.functional.cross_entropy(module(x), y, reduction="sum"), x)
            step = slope / slope.flatten(1).norm(dim=1)[:, None, None, None]
            x = (x + 0.2 * step).clamp(0, 1).detach().requires_grad_(True)
        return x

    return uphill


EVERY = [foolbox_deepfool, adv_lib_ddn, torchattacks_descent, torchattacks_carlini, art_deepfool, a_function]
every_attack = pytest.mark.parametrize("make", EVERY, ids=lambda make: make.__name__)


@every_attack
def test_an_attack_of_any_library_gives_upper_bounds_no_farther_than_the_library_s_own_inputs(make):
    module, (x, y) = mlp(), test_digits(30)
    attack = make(module)
    plain, back = (measure(module, x, y, FromAttack(attack, search_back=flag)) for flag in (False, True))
    assert plain.bound is back.bound is Bound.UPPER
    np.testing.assert_array_equal(back.correct, as_classifier(module).predict(x) == y)
    np.testing.assert_array_equal(np.isfinite(plain.values), np.isfinite(back.values))
    assert (back.values <= plain.values).all()
    inputs, labels = torch.tensor(x), torch.tensor(y)
    if make is foolbox_deepfool:
        model = peer("foolbox").PyTorchModel(module, bounds=(0, 1), device="cpu")
        theirs, _, _ = attack(model, inputs, labels, epsilons=None)
    elif make is adv_lib_ddn:
        theirs = attack(module, inputs, labels)
    elif make is art_deepfool:
        theirs = torch.tensor(attack.generate(x, y))
    else:
        theirs = attack(inputs, labels).detach()
    far = of_inputs(module, x, y, theirs, Norm.L2)
    both = plain.correct & np.isfinite(far) & np.isfinite(plain.values)
    assert both.sum() >= 0.9 * plain.correct.sum()
    np.testing.assert_allclose(plain.values[both], far[both], rtol=0.011)  # at the boundary stretched by up to 1 %
    ours = measure(module, x, y, DeepFool()).values
    assert ours[both].mean() * 0.8 < back.values[both].mean() < ours[both].mean() * 2


@pytest.mark.parametrize("make", [foolbox_deepfool, adv_lib_ddn, torchattacks_descent], ids=lambda make: make.__name__)
def test_a_deterministic_attack_gives_a_sample_the_same_bits_in_any_batch_and_order(make):
    estimator = FromAttack(make(cnn()))
    assert_independent_of_the_batch(lambda x, y: measure(cnn(), x, y, estimator).values, *test_digits(12))


def random_attack(x, y):
    """Return random inputs, drawn from every global generator."""
    drawn = torch.rand(x.shape) + torch.tensor(np.random.uniform(size=x.shape)) + random.random()
    return (x + drawn.to(x.dtype)).clamp(0, 1)


def test_alone_even_a_random_attack_depends_on_the_sample_and_the_seed_only():
    x = np.random.default_rng(0).uniform(0, 0.45, size=(9, 2))
    y, estimator = HALF.predict(x), FromAttack(random_attack, alone=True, search_back=False)
    together = assert_independent_of_the_batch(lambda x, y: measure(HALF, x, y, estimator).values, x, y)
    assert len(np.unique(together)) == 9
    assert (measure(HALF, x, y, estimator, seed=1).values != together).any()
    in_tiles = FromAttack(random_attack, search_back=False)
    np.testing.assert_array_equal(measure(HALF, x, y, in_tiles).values, measure(HALF, x, y, in_tiles).values)


def test_global_randomness_and_the_network_are_left_as_they_were():
    module = Fragile.seeded()
    (x, y), before = test_digits(4), module.state()
    measure(module, x, y, FromAttack(random_attack))
    assert module.state() == before


@pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
def test_an_attack_at_a_fixed_radius_is_run_at_each_and_the_nearest_success_counts(norm):
    attacks = peer("foolbox").attacks
    attack = {Norm.L2: attacks.L2PGD, Norm.LINF: attacks.LinfPGD}[norm](steps=10, rel_stepsize=0.2, random_start=False)
    module, (x, y) = cnn(), test_digits(20)
    radii = {Norm.L2: (0.3, 1.0, 3.0), Norm.LINF: (0.05, 0.2, 0.5)}[norm]
    found = measure(module, x, y, FromAttack(attack, norm, epsilons=radii, search_back=False))
    single = [measure(module, x, y, FromAttack(attack, norm, epsilons=r, search_back=False)).values for r in radii]
    np.testing.assert_array_equal(found.values, np.minimum.reduce(single))
    assert (found.values[np.isfinite(found.values)] <= radii[-1] * 1.011).all()
    failed = np.isinf(single[0])
    assert failed.any()
    tried = measure(module, x, y, FromAttack(attack, norm, epsilons=radii[0], search_back=False)).tried[failed]
    assert (tried > 0.5 * radii[0]).all()
    assert (tried <= radii[0] * 1.001).all()


def towards_one(x, y):
    return x * 0 + 1.0


def test_a_function_may_take_and_return_arrays():
    given = []

    def attack(x, y):
        given.append((type(x), type(y), x.shape, y.dtype.kind))
        return np.ones_like(x)

    found = measure(HALF, X, Y, FromAttack(attack, "linf", arrays=True))
    assert given == [(np.ndarray, np.ndarray, (64, 2), "i")]
    np.testing.assert_allclose(found.values[:2], [0.3, 0.9 * 0.5 / 1.5], rtol=1e-3)
    assert found.values[2] == np.inf  # (1, 1) is of its own class
    assert found.tried[2] == pytest.approx(0.1)
    tensors = measure(HALF, X, Y, FromAttack(towards_one, "linf"))
    np.testing.assert_array_equal(tensors.values, found.values)


@pytest.mark.parametrize("kind", [torch.float16, torch.float64, torch.int64, torch.uint8], ids=str)
def test_results_of_other_number_types_are_converted(kind):
    found = measure(HALF, X[:1], Y[:1], FromAttack(lambda x, y: towards_one(x, y).to(kind)))
    assert found.values[0] == pytest.approx(0.6 / 2**0.5, rel=1e-3)


def test_the_unchanged_input_is_no_success():
    found = measure(HALF, X, Y, FromAttack(lambda x, y: x))
    assert np.isinf(found.values).all()
    assert found.tried.tolist() == [0.0, 0.0, 0.0]


def test_results_outside_of_the_box_are_clipped_and_classified_again():
    found = measure(HALF, X, Y, FromAttack(lambda x, y: x + 50, search_back=False))
    np.testing.assert_allclose(found.values[:2], [0.8 * 2**0.5, np.hypot(0.6, 0.9)])
    assert found.values[2] == np.inf
    outside = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -2.5], domain=Domain(0, 1))
    lost = measure(outside, X, [0, 0, 0], FromAttack(lambda x, y: x + 50))
    assert np.isinf(lost.values).all()  # class 1 is beyond the box


def test_immutable_features_keep_their_values():
    still = LinearClassifier(HALF.weight, HALF.bias, domain=Domain(0, 1, scale=[1.0, 0.0]))
    found = measure(still, X, Y, FromAttack(towards_one))
    np.testing.assert_allclose(found.values, [0.6, 0.5, np.inf], rtol=1e-3)
    assert found.tried[2] == pytest.approx(0.1)


def test_rows_with_nan_count_as_not_found():
    def attack(x, y):
        out = towards_one(x, y)
        out[x[:, 0] > 0.3] = float("nan")
        return out

    found = measure(HALF, X, Y, FromAttack(attack))
    assert np.isfinite(found.values).tolist() == [True, False, False]


def test_an_attack_that_modifies_its_input_changes_no_sample():
    def attack(x, y):
        y.zero_()
        return x.fill_(1.0)

    before = X.copy()
    found = measure(HALF, X, Y, FromAttack(attack))
    np.testing.assert_array_equal(found.values, measure(HALF, X, Y, FromAttack(towards_one)).values)
    np.testing.assert_array_equal(X, before)


def test_an_error_of_the_model_inside_an_attack_is_raised_unchanged():
    class Wrong(nn.Module):
        def forward(self, x):
            return x if self.calls_left() else x[:, :1]

        def calls_left(self):
            self.left -= 1
            return self.left >= 0

    module = Wrong()
    module.left = 5  # enough for the checks of samples and the plain answer
    with pytest.raises(ModelError, match="returns shape"):
        measure(
            as_classifier(module, classes=(0, 1)),
            X[:, ::-1].copy(),
            [0, 0, 0],
            FromAttack(lambda model, x, y: sum(model(x) for _ in range(9))),
        )


def test_it_is_a_value_that_joins_others_in_tightest():
    assert FromAttack(random_attack) == FromAttack(random_attack, "l2")
    assert hash(FromAttack(random_attack)) == hash(FromAttack(random_attack))
    module, (x, y) = cnn(), test_digits(20)
    attack = FromAttack(adv_lib_ddn(module))
    both, one, other = (
        measure(module, x, y, each).values for each in (Tightest(DeepFool(), attack), DeepFool(), attack)
    )
    np.testing.assert_array_equal(both, np.minimum(one, other))
