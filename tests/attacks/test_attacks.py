"""What the attacks of the catalog find: exact answers on linear models, and comparisons with other libraries.

These are not promises of the protocol: a new attack need not be listed here.
"""

from copy import deepcopy
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

from fairmargin.attacks.apgd import APGD
from fairmargin.attacks.autoattack import AutoAttack
from fairmargin.attacks.catalog import ATTACKS, parse_attack
from fairmargin.attacks.fgsm import FGSM
from fairmargin.attacks.margin_pgd import MarginPGD
from fairmargin.attacks.pgd import PGD
from fairmargin.attacks.rfgsm import RFGSM
from fairmargin.attacks.square import Square
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier
from tests.attacks.victims import confident, half_space, run
from tests.distances.confirmation import of_formula
from tests.oracles import linear_distance, random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits
from tests.spec.test_every_attack import RADIUS, problem, small, some_digits

BOTH_NORMS = pytest.mark.parametrize("norm", [Norm.LINF, Norm.L2], ids=str)
EVERY = pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name in ATTACKS for norm in sorted(ATTACKS[name].norms, key=str)]
)
LOSSES = [("cross_entropy", 0), ("margin", 0), ("dlr", 0), ("margin", 9), ("dlr", 9)]
ASCENTS = [APGD(steps=20, loss=loss, targets=targets) for loss, targets in LOSSES]


def fooled(attack, model, x, y, radius, seed=0):
    """Return which samples the model misclassifies after the attack."""
    return as_classifier(model).predict(run(attack, model, x, y, radius, seed)) != y


# Linear models, where the exact distance is known -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("attack", "beyond"),
    [
        (FGSM(), 1 + 1e-9),
        (RFGSM(variant="projected", steps=40), 1.001),
        (PGD(), 1.001),
        (MarginPGD(), 1.001),
        *((replace(attack, steps=30), 1.001) for attack in ASCENTS),
        (Square(queries=600), 1.05),
        (AutoAttack(steps=15, queries=20), 1.001),
    ],
    ids=repr,
)
@BOTH_NORMS
def test_fools_a_linear_model_of_two_classes_slightly_beyond_the_distance_and_not_before(norm, attack, beyond):
    model, x, y, distances = half_space()
    attack = replace(attack, norm=norm)
    assert fooled(attack, model, x, y, distances(norm) * beyond).all()
    assert not fooled(attack, model, x, y, distances(norm) * (1 - 1e-9)).any()


@pytest.mark.parametrize(
    ("attack", "classes", "beyond"),
    [
        (PGD(steps=40, step=0.1), 2, 1.02),
        (APGD(steps=50, loss="dlr", targets=9), 5, 1.01),
        (AutoAttack(steps=20, queries=20), 5, 1.0005),
    ],
    ids=repr,
)
@BOTH_NORMS
def test_in_a_box_it_fools_exactly_the_samples_that_can_be_fooled_within_the_radius(norm, attack, classes, beyond):
    model, x = random_problem(np.random.default_rng(5), n=24, d=6, classes=classes, domain=Domain(0, 1))
    y = model.predict(x)
    exact = np.array([linear_distance(model, row, label, norm) for row, label in zip(x, y, strict=True)])
    reachable = np.isfinite(exact)
    assert reachable.sum() >= 12
    radius = np.where(reachable, exact, 1.0)
    np.testing.assert_array_equal(fooled(replace(attack, norm=norm), model, x, y, radius * beyond), reachable)


def test_in_a_box_no_corner_within_the_radius_has_a_larger_loss_than_the_result_of_fgsm():
    model, x, y, _ = half_space(features=5, domain=Domain(-0.5, 0.8))
    x = x.clip(-0.5, 0.8)
    y, radius = model.predict(x), 0.4
    found = model.scores(run(FGSM(), model, x, y, radius))
    corners = np.stack(np.meshgrid(*[[-radius, radius]] * 5), axis=-1).reshape(-1, 5)
    for i in range(len(x)):
        there = model.scores((x[i] + corners).clip(-0.5, 0.8))
        best = (there[:, 1 - y[i]] - there[:, y[i]]).max()
        assert found[i, 1 - y[i]] - found[i, y[i]] == pytest.approx(best, abs=1e-12)


def test_an_unsuccessful_attack_returns_the_input_with_the_largest_loss():
    model, x, y, distances = half_space()
    found = run(PGD(Norm.L2), model, x, y, distances(Norm.L2) * 0.5)
    assert (model.predict(found) == y).all()
    lead, before = (np.abs(np.diff(model.scores(each), axis=1)[:, 0]) for each in (found, x))
    np.testing.assert_allclose(lead, before / 2, rtol=1e-3)  # half of the distance in the best direction


@pytest.mark.parametrize(
    "attack", [FGSM(), PGD(), MarginPGD(), *ASCENTS], ids=repr
)  # the gradient of their cross-entropy underflows to 0
def test_a_very_confident_model_is_fooled_too(attack):
    model, x, y, distances = confident()
    with torch.enable_grad():
        at = torch.tensor(x, requires_grad=True)
        torch.nn.functional.cross_entropy(model.module(at), torch.tensor(y)).backward()
    assert (at.grad == 0).all(dim=1).float().mean() > 0.8
    assert fooled(attack, model, x, y, distances * 1.01).all()


# Random starts ----------------------------------------------------------------------------------------------------


def test_a_random_start_of_fgsm_is_uniform():
    model, x, y, distances = half_space()
    radius = distances(Norm.LINF) * 0.5
    found = run(FGSM(random_start=True), model, x, y, radius)
    # From u in [−1, 1] a step of length 1 leads to min(1, 1 + u), so half of the features reach the limit.
    up = np.sign(model.weight[1]) * np.where(y == 0, 1, -1)[:, None]
    moved = (found - x) / radius[:, None] * up
    assert 0 <= moved.min() < moved.max() <= 1 + 1e-12
    assert 0.4 < np.isclose(moved, 1).mean() < 0.6


def test_rfgsm_takes_a_random_step_and_a_gradient_step_of_the_remaining_radius():
    model, x, y, distances = half_space()
    radius = distances(Norm.LINF) * 0.3  # too short for success, so that the last point is returned
    found = run(RFGSM(start=0.25), model, x, y, radius)
    up = np.sign(model.weight[1]) * np.where(y == 0, 1, -1)[:, None]
    moved = np.round((found - x) / radius[:, None] * up, 9)
    # 0.25 + 0.75 in the direction of the gradient, 0.75 − 0.25 against it; 0 where the sample itself is returned.
    assert {0.5, 1.0} <= set(np.unique(moved)) <= {0.5, 1.0, 0.0}
    better = (found != x).any(axis=1)
    assert better.sum() >= 25
    assert 0.3 < (moved[better] == 1.0).mean() < 0.8
    sizes = np.linalg.norm(run(RFGSM(Norm.L2), model, x, y, distances(Norm.L2) * 0.3) - x, axis=1)
    assert (sizes <= distances(Norm.L2) * 0.3).all()
    assert (sizes > 0.3 * distances(Norm.L2) * 0.3).all()


@pytest.mark.parametrize("attack", [FGSM(random_start=True), RFGSM(), APGD(steps=1), Square(queries=20)], ids=repr)
@BOTH_NORMS
def test_random_numbers_depend_on_the_key(norm, attack):
    x, y = test_digits(8)
    first, again, other = (run(replace(attack, norm=norm), cnn(), x, y, 0.02, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def waves(x):
    """Return scores of five classes, of which every other class has regions of its own."""
    others = torch.stack([torch.cos((11 + 3 * k) * x + k).sum(dim=1) for k in range(4)], dim=1)
    return torch.cat([torch.full_like(others[:, :1], 1.9), others], dim=1)


@pytest.mark.parametrize(
    "attacks",
    [
        [PGD(steps=2, step=0.15, restarts=n) for n in (1, 2, 8)],
        [MarginPGD(steps=2, step=0.15, restarts=n) for n in (1, 2, 8)],
        [APGD(steps=6, loss="dlr", targets=t, restarts=n) for t, n in ((1, 1), (2, 1), (9, 1), (9, 3))],
        [Square(queries=5, restarts=n) for n in (1, 2, 4)],
    ],
    ids=lambda attacks: type(attacks[0]).__name__,
)
def test_more_restarts_and_targets_find_all_that_fewer_found_and_more(attacks):
    model = of_formula(waves, 5, domain=Domain(0, 1))
    x = np.random.default_rng(1).uniform(size=(200, 2)).astype(np.float32)
    x = x[model.predict(x) == 0]
    found = [fooled(attack, model, x, np.zeros(len(x), np.int64), 0.06) for attack in attacks]
    for fewer, more in pairwise(found):
        assert not (fewer & ~more).any()
    assert 0 < found[0].sum() < found[-1].sum() < len(x)


# Passes and paths -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("attack", [PGD(steps=100), APGD(steps=100)], ids=repr)
def test_an_easy_sample_takes_few_passes(attack):
    calls = []

    def scores(x):
        calls.append(len(x))
        return torch.stack([x[:, 0], 0.5 - x[:, 0]], dim=1)

    model = of_formula(scores, domain=Domain(0, 1))
    counts = []
    for value in (0.3, 0.9):  # near the boundary at .25, and too far from it
        calls.clear()
        run(attack, model, np.array([[value, 0.5]], np.float32), np.zeros(1, np.int64), 0.2)
        counts.append(len(calls))
    assert counts[0] <= 10
    assert 100 <= counts[1] <= 110


@BOTH_NORMS
def test_square_takes_at_most_the_given_number_of_queries(norm):
    calls = []

    def scores(x):
        calls.append(len(x))
        return torch.stack([x[:, 0] + 2, x[:, 0]], dim=1)

    model = of_formula(scores, domain=Domain(0, 1))
    with model.network((4,)):
        calls.clear()
    run(Square(norm, queries=150), model, np.full((3, 4), 0.5, np.float32), np.zeros(3, np.int64), 0.2)
    assert 150 <= len(calls) <= 153  # a check of the network, the samples, 150 queries, and the best input


def test_does_not_return_a_point_with_a_smaller_loss_than_the_sample():
    def scores(x):  # every perturbation increases the score of the sample's class
        hill = 1 + 10 * ((x - 0.5) ** 2).sum(dim=1)
        return torch.stack([hill, torch.zeros_like(hill)], dim=1)

    x = np.full((1, 3), 0.5, np.float32)
    found = run(PGD(step=2.0, steps=1), of_formula(scores, domain=Domain(0, 1)), x, np.zeros(1, np.int64), 0.2)
    np.testing.assert_array_equal(found, x)


def test_a_misclassified_input_on_the_path_counts_even_if_the_last_point_is_correct():
    def scores(x):  # the other class has a narrow strip only
        across = 1 - ((x[:, 0] - 0.3) / 0.04).abs()
        return torch.stack([torch.zeros_like(across), across], dim=1)

    attack = PGD(steps=5, step=0.2, random_start=False)  # visits 0.1, 0.2, 0.3 (misclassified), and then alternates
    model, x = of_formula(scores, domain=Domain(0, 1)), np.array([[0.1, 0.5]], np.float32)
    assert fooled(attack, model, x, np.zeros(1, np.int64), 0.5).all()


def test_samples_that_are_all_misclassified_before_the_attack_are_accepted():
    model = LinearClassifier([[1.0], [0.0]], [0.0, 0.0], domain=Domain(0, 1))
    x = np.array([[0.5], [0.6]])
    np.testing.assert_array_equal(run(PGD(), model, x, np.array([1, 1]), 0.1), x)


@BOTH_NORMS
def test_only_square_succeeds_where_gradients_are_zero(norm):
    def staircase(x):
        side = torch.floor(8 * (x.flatten(1) - 0.5) @ torch.linspace(-1, 1, 16, dtype=x.dtype)) + 0.5
        side = side + 0 * x.flatten(1).sum(dim=1)
        return torch.stack([side, -side], dim=1)

    model = of_formula(staircase, domain=Domain(0, 1))
    x = np.random.default_rng(0).uniform(0.2, 0.8, size=(30, 1, 4, 4)).astype(np.float32)
    y, radius = model.predict(x), {Norm.LINF: 0.15, Norm.L2: 0.5}[norm]
    attacks = PGD(norm, steps=30), APGD(norm, steps=30), Square(norm, 200), AutoAttack(norm, steps=5, queries=200)
    wrong = [int(fooled(each, model, x, y, radius).sum()) for each in attacks]
    assert max(wrong[:2]) < 13  # some random starts lie beyond the boundary
    assert wrong[3] >= wrong[2] > 24


# Networks, and other libraries --------------------------------------------------------------------------------------


STEPS = {"steps": 20, "seed": 0}
COMPARED = {  # our attack, theirs and its settings, radii, and by how many samples ours may differ
    "pgd": (PGD(), "PGD", {"alpha": 0.015, "steps": 20}, [0.06], (-1, 6)),
    "pgd in L2": (PGD("l2"), "PGDL2", {"alpha": 0.1, "steps": 20}, [0.4], (-1, 6)),
    "rfgsm": (RFGSM(variant="projected"), "RFGSM", {"alpha": 0.015, "steps": 10}, [0.06], (-1, 5)),
    "apgd": (APGD(steps=20), "APGD", {"loss": "ce", **STEPS}, [0.042, 0.06], (-2, 4)),
    "apgd in L2": (APGD("l2", steps=20), "APGD", {"norm": "L2", "loss": "ce", **STEPS}, [0.35, 0.5], (-2, 4)),
    "ratio": (APGD(steps=20, loss="dlr"), "APGD", {"loss": "dlr", **STEPS}, [0.042, 0.06], (-2, 4)),
    "ratio in L2": (APGD("l2", 20, 1, "dlr"), "APGD", {"norm": "L2", "loss": "dlr", **STEPS}, [0.35, 0.5], (-2, 4)),
    "targeted": (APGD("linf", 10, 1, "dlr", 9), "APGDT", {"steps": 10, "seed": 0, "n_classes": 10}, [0.06], (-1, 3)),
    # Ours draws squares for each sample, and includes the last row and column of an image.
    "square": (Square(queries=60), "Square", {"n_queries": 60, "seed": 0}, [0.04, 0.07], (-3, 19)),
    "square in L2": (Square("l2", 60), "Square", {"norm": "L2", "n_queries": 60, "seed": 0}, [0.32, 0.56], (-3, 19)),
    "auto": (AutoAttack("linf", 12, 1, 2, 40), "AutoAttack", {"n_classes": 10, "seed": 0}, [0.036, 0.06], (-1, 3)),
    "auto in L2": (AutoAttack("l2", 12, 1, 2, 40), "AutoAttack", {"norm": "L2", "seed": 0}, [0.27, 0.45], (-1, 3)),
}


@pytest.mark.parametrize("name", COMPARED)
def test_fools_as_many_as_torchattacks(name):
    ours, theirs, settings, radii, (fewest, most) = COMPARED[name]
    (x, y), model = test_digits(100), as_classifier(cnn())
    for radius in radii:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            other = getattr(peer("torchattacks"), theirs)(deepcopy(cnn()), eps=radius, **settings)
            if theirs == "AutoAttack":  # the same budgets as ours; its ascents have ten steps by default
                _, towards, nearest, square = other._autoattack.attacks
                towards.n_target_classes = nearest.n_target_classes = 2
                square.n_queries = 40
            there = other(torch.tensor(x), torch.tensor(y)).detach().numpy()
        wrong = int((model.predict(there) != y).sum())
        assert 5 < wrong < 95
        assert wrong + fewest <= fooled(ours, model, x, y, radius).sum() <= wrong + most


@BOTH_NORMS
def test_fools_as_many_as_foolbox_pgd(norm):
    x, y = test_digits(120)
    radius = {Norm.LINF: 0.06, Norm.L2: 0.4}[norm]
    foolbox, model = peer("foolbox"), as_classifier(cnn())
    kind = foolbox.attacks.LinfPGD if norm is Norm.LINF else foolbox.attacks.L2PGD
    with torch.random.fork_rng():
        torch.manual_seed(0)
        subject = foolbox.PyTorchModel(deepcopy(cnn()), bounds=(0, 1), device="cpu")
        _, _, success = kind(rel_stepsize=0.25, steps=20)(subject, torch.tensor(x), torch.tensor(y), epsilons=radius)
    theirs = int(success.sum())
    assert theirs - 1 <= fooled(PGD(norm), model, x, y, radius).sum() <= theirs + 5


def test_fgsm_equals_that_of_torchattacks_up_to_rounding():
    x, y = test_digits(200)
    model = as_classifier(cnn())
    theirs = peer("torchattacks").FGSM(deepcopy(cnn()), eps=0.1)(torch.tensor(x), torch.tensor(y)).numpy()
    ours = run(FGSM(), model, x, y, 0.1)
    correct = model.predict(x) == y
    # Where the step decreases the loss without success, the sample itself is returned.
    stepped = correct & (ours != x).any(axis=(1, 2, 3))
    assert stepped.sum() >= 0.98 * correct.sum() > 180
    # A gradient that is 0 up to rounding can have either sign, which occurs in few features.
    assert np.isclose(ours[stepped], theirs[stepped], rtol=0, atol=1e-6).mean() > 0.999
    np.testing.assert_array_equal((model.predict(ours) != y)[correct], (model.predict(theirs) != y)[correct])


@pytest.mark.parametrize(
    "attack", [*(PGD(loss=loss) for loss in ("cross_entropy", "margin", "clipped_margin")), *ASCENTS], ids=repr
)
def test_every_loss_finds_misclassified_inputs(attack):
    assert fooled(attack, mlp(), *test_digits(20), 0.15).mean() > 0.9


@EVERY
def test_fools_more_samples_of_a_network_with_a_larger_radius(name, norm):
    x, y = some_digits(cnn())
    shares = [fooled(small(name, norm), cnn(), x, y, radius * RADIUS[norm]).mean() for radius in (0.02, 1.0, 4.0)]
    assert shares[0] <= 0.4  # a fifth is misclassified before the attack
    assert shares[0] < shares[1] <= shares[2]
    assert shares[2] >= 0.8


@EVERY
def test_changes_samples_that_are_classified_correctly(name, norm):
    model, x, y = problem()
    found = run(small(name, norm), model, x, y, 0.3)
    correct = model.predict(x) == y
    assert (found[correct] != x[correct]).any(axis=1).mean() > 0.5


# Texts and defaults -----------------------------------------------------------------------------------------------


def test_an_attack_is_read_from_a_text():
    assert parse_attack("pgd") == PGD()
    assert parse_attack("pgd: steps=20, restarts=2, norm=l2, step=1/8") == PGD(Norm.L2, 20, 0.125, 2)
    assert parse_attack("rfgsm:variant=projected,start=none") == RFGSM(variant="projected")


def test_defaults_are_the_published_settings():
    assert repr(PGD()).endswith("steps=20, step=0.25, restarts=1, random_start=True, loss='cross_entropy')")
    assert repr(MarginPGD()).endswith("steps=30, step=0.25, restarts=1, random_start=True, confidence=50.0)")
    assert repr(AutoAttack()).endswith("steps=100, restarts=1, targets=9, queries=5000)")
