import random
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import fairmargin as fm
from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import describe
from fairmargin.distances.combine import Tightest
from fairmargin.distances.foreign import FromAttack
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits

HALF = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -1.0], domain=Domain(0, 1))  # class 1 where a + b > 1
X = np.array([[0.2, 0.2], [0.4, 0.1], [0.9, 0.9]])
Y = np.array([0, 0, 1])


def art_classifier(module):
    estimators = peer("art.estimators.classification")
    return estimators.PyTorchClassifier(
        module, nn.CrossEntropyLoss(), input_shape=(1, 8, 8), nb_classes=10, clip_values=(0, 1), device_type="cpu"
    )


# What each library's attack is made of, and a fair comparison: how near it came by its own account.


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
def test_an_attack_of_any_library_becomes_upper_bounds_that_are_close_to_ours(make):
    module, (x, y) = cnn(), test_digits(40)
    found = measure(module, x, y, FromAttack(make(module)))
    ours = measure(module, x, y, DeepFool())
    assert found.bound is Bound.UPPER
    np.testing.assert_array_equal(found.correct, ours.correct)
    assert (found.values[~found.correct] == 0).all()
    right = found.correct & np.isfinite(found.values)
    assert right.sum() >= 0.9 * found.correct.sum()
    assert ours.values[right].mean() * 0.8 < found.values[right].mean() < ours.values[right].mean() * 2


@every_attack
def test_it_succeeds_as_often_and_is_no_farther_than_the_library_says(make):
    module, (x, y) = mlp(), test_digits(30)
    attack = make(module)
    plain = measure(module, x, y, FromAttack(attack, search_back=False))
    back = measure(module, x, y, FromAttack(attack))
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
    fooled = (module(theirs).argmax(dim=1) != labels).numpy()
    far = Norm.L2.length((theirs.numpy().astype(float) - x).reshape(len(x), -1))
    both = plain.correct & fooled & np.isfinite(plain.values)
    assert both.sum() >= 0.9 * plain.correct.sum()
    np.testing.assert_allclose(plain.values[both], far[both], rtol=0.011)  # on the brink it may be stretched by 1 %


@pytest.mark.parametrize("make", [foolbox_deepfool, adv_lib_ddn, torchattacks_descent], ids=lambda make: make.__name__)
def test_an_attack_without_chance_gives_a_sample_the_same_bits_in_any_batch_and_order(make):
    module, (x, y) = cnn(), test_digits(12)
    estimator = FromAttack(make(module))
    together = measure(module, x, y, estimator).values
    order = np.random.default_rng(0).permutation(len(x))
    np.testing.assert_array_equal(measure(module, x[order], y[order], estimator).values, together[order])
    np.testing.assert_array_equal(measure(module, x[3:4], y[3:4], estimator).values, together[3:4])


def gambler(x, y):
    """Draws from every global source."""
    drawn = torch.rand(x.shape) + torch.tensor(np.random.uniform(size=x.shape)) + random.random()
    return (x + drawn.to(x.dtype)).clamp(0, 1)


def test_alone_even_an_attack_of_chance_depends_on_the_sample_and_the_seed_only():
    x = np.random.default_rng(0).uniform(0, 0.45, size=(9, 2))
    y = HALF.predict(x)
    estimator = FromAttack(gambler, alone=True, search_back=False)
    together = measure(HALF, x, y, estimator).values
    assert len(np.unique(together)) == 9
    np.testing.assert_array_equal(measure(HALF, x[::-1], y[::-1], estimator).values, together[::-1])
    np.testing.assert_array_equal(measure(HALF, x[4:5], y[4:5], estimator).values, together[4:5])
    assert (measure(HALF, x, y, estimator, seed=1).values != together).any()
    in_tiles = FromAttack(gambler, search_back=False)
    np.testing.assert_array_equal(measure(HALF, x, y, in_tiles).values, measure(HALF, x, y, in_tiles).values)


def test_global_randomness_and_the_network_are_left_as_they_were():
    module, (x, y) = cnn(), test_digits(4)
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    states = torch.get_rng_state(), np.random.get_state()[1].copy(), random.getstate()
    weights = [parameter.clone() for parameter in module.parameters()]
    for model, samples, labels in ((module, x, y), (HALF, X, Y)):
        measure(model, samples, labels, FromAttack(gambler))
    assert torch.equal(torch.get_rng_state(), states[0])
    np.testing.assert_array_equal(np.random.get_state()[1], states[1])
    assert random.getstate() == states[2]
    assert all(torch.equal(a, b) for a, b in zip(weights, module.parameters(), strict=True))
    assert all(parameter.grad is None and parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
def test_an_attack_of_fixed_radius_is_run_at_each_and_the_nearest_success_counts(norm):
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


# Attacks that are wrong


def towards_one(x, y):
    return x * 0 + 1.0


def test_a_function_may_take_and_return_arrays():
    seen = []

    def attack(x, y):
        seen.append((type(x), type(y), x.shape, y.dtype.kind))
        return np.ones_like(x)

    found = measure(HALF, X, Y, FromAttack(attack, "linf", arrays=True))
    assert seen == [(np.ndarray, np.ndarray, (64, 2), "i")]
    np.testing.assert_allclose(found.values[:2], [0.3, 0.9 * 0.5 / 1.5], rtol=1e-3)
    assert found.values[2] == np.inf  # (1, 1) is of its own class
    assert found.tried[2] == pytest.approx(0.1)
    tensors = measure(HALF, X, Y, FromAttack(towards_one, "linf"))
    np.testing.assert_array_equal(tensors.values, found.values)


@pytest.mark.parametrize("kind", [torch.float16, torch.float64, torch.int64, torch.uint8], ids=str)
def test_other_kinds_of_numbers_are_understood(kind):
    found = measure(HALF, X[:1], Y[:1], FromAttack(lambda x, y: towards_one(x, y).to(kind)))
    assert found.values[0] == pytest.approx(0.6 / 2**0.5, rel=1e-3)


def test_the_clean_input_is_no_success():
    found = measure(HALF, X, Y, FromAttack(lambda x, y: x))
    assert np.isinf(found.values).all()
    assert found.tried.tolist() == [0.0, 0.0, 0.0]


def test_what_leaves_the_box_is_brought_back_and_asked_again():
    found = measure(HALF, X, Y, FromAttack(lambda x, y: x + 50, search_back=False))
    np.testing.assert_allclose(found.values[:2], [0.8 * 2**0.5, np.hypot(0.6, 0.9)])
    assert found.values[2] == np.inf
    outside = LinearClassifier([[0.0, 0.0], [1.0, 1.0]], [0.0, -2.5], domain=Domain(0, 1))
    lost = measure(outside, X, [0, 0, 0], FromAttack(lambda x, y: x + 50))
    assert np.isinf(lost.values).all()  # class 1 is beyond the box


def test_features_that_cannot_move_keep_their_values():
    still = LinearClassifier(HALF.weight, HALF.bias, domain=Domain(0, 1, scale=[1.0, 0.0]))
    found = measure(still, X, Y, FromAttack(towards_one))
    np.testing.assert_allclose(found.values, [0.6, 0.5, np.inf], rtol=1e-3)
    assert found.tried[2] == pytest.approx(0.1)


def test_rows_that_are_no_numbers_are_not_found_and_others_are():
    def attack(x, y):
        out = towards_one(x, y)
        out[x[:, 0] > 0.3] = float("nan")
        return out

    found = measure(HALF, X, Y, FromAttack(attack))
    assert np.isfinite(found.values).tolist() == [True, False, False]


def test_an_attack_that_writes_into_its_input_changes_nothing_of_ours():
    def attack(x, y):
        y.zero_()
        return x.fill_(1.0)

    before = X.copy()
    found = measure(HALF, X, Y, FromAttack(attack))
    np.testing.assert_array_equal(found.values, measure(HALF, X, Y, FromAttack(towards_one)).values)
    np.testing.assert_array_equal(X, before)


def test_an_error_of_our_own_model_inside_stays_what_it_is():
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


def test_it_is_a_value_that_is_in_no_catalog_and_so_is_never_stored():
    assert FromAttack(gambler) == FromAttack(gambler, "l2")
    assert hash(FromAttack(gambler)) == hash(FromAttack(gambler))
    assert fm.FromAttack is FromAttack
    with pytest.raises(
        InputError, match="`FromAttack` is not in the catalog of estimators, so its distances cannot be stored by name"
    ):
        describe(FromAttack(gambler))
    with pytest.raises(InputError, match="is not in the catalog"):
        describe(Tightest(DeepFool(), FromAttack(gambler)))


def test_it_joins_ours_to_the_tightest_of_both():
    module, (x, y) = cnn(), test_digits(20)
    attack = FromAttack(adv_lib_ddn(module))
    both = measure(module, x, y, Tightest(DeepFool(), attack))
    one, other = measure(module, x, y, DeepFool()), measure(module, x, y, attack)
    np.testing.assert_array_equal(both.values, np.minimum(one.values, other.values))
