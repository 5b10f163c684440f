"""Promises of the searches by gradients about what they find, and comparisons with other libraries.

These are not promises of the protocol: a new estimator need not be listed here.
"""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from fairmargin.core.bound import Bound
from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.catalog import ESTIMATORS
from fairmargin.distances.gradient_search import started
from fairmargin.distances.measure import measure
from fairmargin.distances.plumb.estimator import Plumb
from fairmargin.distances.searches.alma import ALMA
from fairmargin.distances.searches.carlini_wagner import CarliniWagner
from fairmargin.distances.searches.ddn import DDN, rivals_ahead
from fairmargin.distances.searches.deepfool import DeepFool
from fairmargin.distances.searches.fmn import FMN
from fairmargin.models.torch_model import from_torch
from tests.distances.confirmation import Formula, exact, measured_and_confirmed, of_formula
from tests.oracles import random_problem
from tests.peers import assert_as_good, of_foolbox, of_inputs, peer
from tests.perturbation.networks import cnn, mlp, test_digits
from tests.spec.test_every_estimator import random_layer, small

SEARCHES = ["plumb", "deepfool", "carlini_wagner", "ddn", "fmn", "alma"]
every_search = pytest.mark.parametrize(
    ("name", "norm"), [(name, norm) for name in SEARCHES for norm in sorted(ESTIMATORS[name].norms, key=str)]
)
NETWORKS = pytest.mark.parametrize("network", [cnn, lambda: cnn(norm=True), mlp], ids=["cnn", "bn", "mlp"])


# Linear models, where the exact distance is known -----------------------------------------------------------------


SCALES = (0.0, 0.3, 1.0, 4.0)  # 0: an immutable feature


@pytest.mark.parametrize(
    ("estimator", "classes", "scales", "reach", "within", "median"),
    [
        (Plumb("l2"), 4, SCALES, np.inf, 1.01, 1.001),  # where three classes meet, the nearest boundary can be missed
        (Plumb("linf"), 4, SCALES, np.inf, 1.01, 1.001),
        (DeepFool("l2", rivals=None), 8, SCALES, np.inf, 1.001, 1.001),
        (DeepFool("linf", rivals=None), 8, SCALES, np.inf, 1.001, 1.001),
        (CarliniWagner(), 2, (1.0,), 0.5, 1.05, 1.05),  # 100 steps of .01 in each feature lead about as far as 0.5
        (DDN(steps=60), 2, SCALES[1:], 5.0, 1.001, 1.001),  # a radius of 1 that grows by 5 % a step reaches 18
        # Steps have a Euclidean length: they reach a corner of the other balls slowly.
        (FMN("l1", steps=60), 2, SCALES, np.inf, 1.1, 1.05),
        (FMN("l2", steps=60), 2, SCALES, np.inf, 1.001, 1.0005),
        (FMN("linf", steps=60), 2, SCALES, np.inf, 1.1, 1.05),
    ],
    ids=repr,
)
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 9))
def test_is_close_to_exact_on_a_linear_model_without_limits(estimator, classes, scales, reach, within, median, seed, d):
    rng = np.random.default_rng(seed)
    model, x = random_problem(rng, n=6, d=d, classes=classes, domain=Domain(scale=rng.choice(scales, size=d)))
    truth, values = exact(model, x, estimator.norm), measure(model, x, model.predict(x), estimator).values
    assert np.isinf(values[np.isinf(truth)]).all()
    near = np.isfinite(truth) & (truth < reach)
    slack = 1e-3 if isinstance(estimator, CarliniWagner) else 1e-12
    assert (values >= truth * (1 - 1e-9)).all()
    assert (values[near] <= truth[near] * within + slack).all()
    assert not near.any() or np.median((values[near] - slack) / truth[near]) < median


@pytest.mark.parametrize(
    ("estimator", "median", "mean"),
    [
        (Plumb("l2"), 1.01, 1.05),
        (Plumb("linf"), 1.01, 1.05),
        (DeepFool("l2"), 1.001, 1.02),
        (DeepFool("linf"), 1.001, 1.02),
        (CarliniWagner(), 1.01, 1.1),
        (DDN(), 1.04, 1.05),
        (FMN("l1"), 1.005, 1.1),
        (FMN("l2"), 1.005, 1.1),
        (FMN("linf"), 1.005, 1.1),
        (ALMA(), 1.02, 1.15),
    ],
    ids=repr,
)
def test_in_a_box_it_finds_almost_all_that_can_be_found_and_nearly_as_near(estimator, median, mean):
    model, x = random_problem(np.random.default_rng(8), n=120, d=12, classes=4, domain=Domain(0, 1))
    truth, values = exact(model, x, estimator.norm), measure(model, x, model.predict(x), estimator).values
    reached = np.isfinite(truth)
    both = reached & np.isfinite(values)
    assert (values >= truth * (1 - 1e-9)).all()
    assert both.sum() >= 0.98 * reached.sum()
    assert np.median(values[both] / truth[both]) < median
    assert values[both].mean() < mean * truth[both].mean()


# Networks, where other libraries are compared with --------------------------------------------------------------

PEERS = {  # the search, the class of foolbox, and the function of adv-lib with its arguments
    "alma": (ALMA(), None, "alma", {"init_lr_distance": 0.5, "α": 0.5}),
    "ddn": (DDN(), "DDNAttack", "ddn", {"levels": None}),
    "fmn in L1": (FMN("l1"), "L1FMNAttack", "fmn", {"norm": 1}),
    "fmn in L2": (FMN("l2"), "L2FMNAttack", "fmn", {"norm": 2}),
    "fmn in L∞": (FMN("linf"), "LInfFMNAttack", "fmn", {"norm": np.inf}),
}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
def test_is_on_average_no_farther_than_foolbox_and_adv_lib_with_as_many_steps(network, name):
    module, (x, y) = network(), test_digits(64)
    search, in_foolbox, in_adv_lib, settings = PEERS[name]
    for steps in (20, 60):
        ours = measure(module, x, y, replace(search, steps=steps)).values
        number = {"num_steps" if name == "alma" else "steps": steps}
        function = getattr(peer("adv_lib.attacks"), in_adv_lib)
        theirs = function(module, torch.tensor(x), torch.tensor(y), **settings, **number)
        assert_as_good(ours, of_inputs(module, x, y, theirs, search.norm), 1.02)
        if in_foolbox:
            attack = getattr(peer("foolbox").attacks, in_foolbox)(steps=steps)
            assert_as_good(ours, of_foolbox(module, x, y, attack, search.norm), 1.01)


@NETWORKS
def test_20_steps_of_plumb_lead_nearer_than_50_of_adv_lib_s_ddn(network):
    module, (x, y) = network(), test_digits(128)
    theirs = peer("adv_lib.attacks").ddn(module, torch.tensor(x), torch.tensor(y), steps=50, levels=None)
    assert_as_good(measure(module, x, y, Plumb(steps=20)).values, of_inputs(module, x, y, theirs, Norm.L2))


@NETWORKS
def test_20_steps_of_plumb_lead_nearer_than_deepfool_and_50_of_fmn_in_the_largest_change(network):
    module, (x, y) = network(), test_digits(64)
    ours = measure(module, x, y, Plumb(norm="linf", steps=20)).values
    assert_as_good(ours, measure(module, x, y, DeepFool(norm="linf")).values)
    assert_as_good(ours, measure(module, x, y, FMN(norm="linf", steps=50)).values, within=1.01)


# Special cases ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("estimator", "factor"), [(DDN(steps=30), 1e3), (ALMA(steps=40), 1e-2), (ALMA(steps=40), 1e3)], ids=repr
)
def test_the_size_of_the_scores_does_not_matter(estimator, factor):
    # The cross-entropy of scores a thousand times as large is 0 to the last bit and has no gradient.
    x, y = test_digits(30)
    plain = measure(mlp(), x, y, estimator).values
    scaled = measure(of_formula(lambda x: factor * mlp()(x), 10), x, y, estimator).values
    assert scaled.mean() == pytest.approx(plain.mean(), rel=0.05)


def test_the_loss_of_ddn_has_the_direction_of_the_cross_entropy():
    scores = torch.randn(5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_(True)
    y = torch.arange(5)
    (ours,) = torch.autograd.grad(-rivals_ahead(scores, y).sum(), scores)
    (theirs,) = torch.autograd.grad(nn.functional.cross_entropy(scores, y, reduction="sum"), scores)
    torch.testing.assert_close(nn.functional.normalize(ours), nn.functional.normalize(theirs))


@pytest.mark.parametrize(
    ("kind", "within"),
    [(DDN, 1.02), (ALMA, 1.02), *((lambda steps, n=n: FMN(n, steps), 1.7) for n in ("l1", "l2", "linf"))],
)
def test_where_there_is_no_gradient_the_first_step_depends_on_the_key_of_the_sample(kind, within):
    norm = kind(steps=3).norm

    def plateau(x):  # no gradient within .2 of the middle, another class from .3 on
        beyond = torch.relu((x - 0.5).square().sum(1).sqrt() - 0.2)
        return torch.stack([0.1 - beyond, torch.zeros_like(beyond)], 1)

    x = np.stack([np.full(6, 0.5), np.linspace(0.45, 0.55, 6)]).astype(np.float32)
    found, model = measured_and_confirmed(Formula(plateau), x, kind(steps=60), classes=2)
    if norm is Norm.L2:
        truth = np.array([0.3, 0.3 - np.linalg.norm(x[1] - 0.5)])
        assert (found.values <= within * truth).all()
    assert np.isfinite(found.values).all()
    runs = [measure(model, x, [0, 0], kind(steps=3), seed=seed).values for seed in (0, 0, 1)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert (runs[0] != runs[2]).any()
    assert measure(model, x[1:], [0], kind(steps=3)).values == runs[0][1]


@pytest.mark.parametrize("estimator", [DDN(radius=1e5), *(FMN(norm) for norm in Norm)], ids=repr)
def test_it_returns_from_where_the_scores_overflow(estimator):
    def scores(x):  # so flat at the start that a straight boundary would lie at 3000
        lead = torch.where(x.sum(1) < 1, 3 - 0.001 * x.sum(1), 4 - x.sum(1))
        away = torch.where(x.abs().amax(1) > 50, torch.nan, 0.0)
        return torch.stack([lead, torch.zeros(len(x))], 1) + away[:, None]

    found, _ = measured_and_confirmed(Formula(scores), np.zeros((2, 2), np.float32), estimator, 2, Domain())
    assert (found.values < 5).all()


@pytest.mark.parametrize("name", ["deepfool", "ddn", "fmn", "alma", "carlini_wagner"])  # `plumb` sees no plane to try
def test_where_nothing_can_be_found_it_says_how_far_it_searched(name):
    model = of_formula(lambda x: torch.stack([1 + x[:, 0], 0 * x[:, 0]], 1))
    found = measure(model, np.full((1, 4), 0.5, np.float32), [0], small(name, Norm.L2))
    assert found.values.tolist() == [np.inf]
    assert 0.01 <= found.tried[0] <= 1 + 1e-6


@every_search
def test_finds_the_boundary_wherever_there_is_a_gradient(name, norm):
    weight = np.array([1.5, -1.3, 0.6, 1.0])

    def saturated(x):  # constant in float32 where |tanh| is 1
        side = torch.tanh(60 * (x - 0.5) @ torch.tensor(weight, dtype=x.dtype))
        return torch.stack([side, -side], dim=1)

    x = np.random.default_rng(3).uniform(size=(12, 4)).astype(np.float32)
    flat = saturated(torch.tensor(x))[:, 0].abs() == 1
    found, _ = measured_and_confirmed(Formula(saturated), x, small(name, norm), classes=2)
    assert found.bound is Bound.UPPER
    assert np.isfinite(found.values[~flat.numpy()]).all()


@every_search
def test_finds_a_boundary_among_a_thousand_classes_and_with_features_that_cannot_move(name, norm):
    layer, rng = random_layer(6, 1000)
    found, _ = measured_and_confirmed(layer, rng.uniform(size=(5, 6)), small(name, norm), 1000)
    assert np.isfinite(found.values).all()
    layer, rng = random_layer(7, 3, seed=2)
    low, high = np.array([0.0, 0, 0, -np.inf, -np.inf, 0, -1]), np.array([1.0, 1, 0, np.inf, np.inf, 2, np.inf])
    domain = Domain(low, high, np.array([1.0, 0.1, 1.0, 5.0, 0.0, 2.0, 0.5]))
    found, _ = measured_and_confirmed(layer, rng.uniform(size=(8, 7)), small(name, norm), 3, domain)
    assert np.isfinite(found.values).mean() >= 0.5


def test_numbers_too_large_for_single_precision_become_infinity_without_a_warning(recwarn):
    model = from_torch(nn.Sequential(nn.Linear(2, 3), nn.Hardtanh()), device="cpu")
    with model.network((2,)) as network:
        found = started(network, np.array([[1e300, 0.5], [0.5, 0.5]]), np.array([0, 1]))
    assert torch.isinf(found.x[0, 0])
    assert torch.isfinite(found.x[1]).all()
    assert not recwarn.list
