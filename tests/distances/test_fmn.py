import foolbox
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from fairmargin.core.domain import Domain
from fairmargin.core.norm import Norm
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.distances.searches.fmn import FMN, on_sphere, projected
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from tests.distances.confirmation import Formula, measured_and_confirmed
from tests.distances.peer_distances import assert_as_good, of_foolbox, of_inputs
from tests.oracles import random_problem
from tests.peers import peer
from tests.perturbation.networks import cnn, mlp, test_digits

NORMS = pytest.mark.parametrize("norm", list(Norm), ids=str)
NETWORKS = pytest.mark.parametrize("network", [cnn, mlp], ids=["cnn", "mlp"])
PEERS = {
    Norm.L1: (1, foolbox.attacks.L1FMNAttack),
    Norm.L2: (2, foolbox.attacks.L2FMNAttack),
    Norm.LINF: (float("inf"), foolbox.attacks.LInfFMNAttack),
}


def exact(model, x, norm):
    return measure(model, x, model.predict(x), ExactLinear(norm)).values


@NORMS
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 9))
def test_is_close_to_exact_for_two_linear_classes_without_limits(norm, seed, d):
    rng = np.random.default_rng(seed)
    scale = rng.choice([0.0, 0.3, 1.0, 4.0], size=d)  # 0: the feature cannot move
    model, x = random_problem(rng, n=6, d=d, classes=2, domain=Domain(scale=scale))
    truth, values = exact(model, x, norm), measure(model, x, model.predict(x), FMN(norm, steps=60)).values
    np.testing.assert_array_equal(np.isinf(values), np.isinf(truth))
    reached = np.isfinite(truth)
    assert (values[reached] >= truth[reached] * (1 - 1e-9)).all()
    # Steps are of Euclidean length: they come slowly to a corner of the other balls if slopes are alike (L1) or small.
    tolerance = 0.001 if norm is Norm.L2 else 0.1
    assert (values[reached] <= truth[reached] * (1 + tolerance) + 1e-12).all()
    assert not reached.any() or np.median(values[reached] / truth[reached]) < 1 + tolerance / 2


@NORMS
def test_in_a_box_it_reaches_what_can_be_reached_within_a_tenth(norm):
    model, x = random_problem(np.random.default_rng(8), n=150, d=12, classes=4, domain=Domain(0, 1))
    truth, values = exact(model, x, norm), measure(model, x, model.predict(x), FMN(norm)).values
    reached = np.isfinite(truth)
    assert np.isfinite(values[reached]).mean() > 0.98
    both = reached & np.isfinite(values)
    assert np.median(values[both] / truth[both]) < 1.005
    assert values[both].mean() < 1.1 * truth[both].mean()


@NORMS
@NETWORKS
def test_is_on_average_no_farther_than_foolbox_and_adv_lib_with_as_many_steps(network, norm):
    module, (x, y) = network(), test_digits(64)
    order, attack = PEERS[norm]
    for steps in (15, 40):
        ours = measure(module, x, y, FMN(norm, steps=steps)).values
        assert np.isfinite(ours).all()
        assert_as_good(ours, of_foolbox(module, x, y, attack(steps=steps), norm), 1.01)
        theirs = peer("adv_lib.attacks").fmn(module, torch.tensor(x), torch.tensor(y), norm=order, steps=steps)
        assert_as_good(ours, of_inputs(module, x, y, theirs, norm), 1.01)


@pytest.mark.parametrize("norm", [Norm.L1, Norm.L2], ids=str)
def test_it_crosses_the_boundary_even_where_limits_cut_its_steps_short(norm):
    # As published, steps aim at the boundary itself, are clipped, and never arrive: so adv-lib's version fails here.
    module, (x, y) = mlp(), test_digits(60)
    order, _ = PEERS[norm]
    theirs = peer("adv_lib.attacks").fmn(module, torch.tensor(x), torch.tensor(y), norm=order, steps=30)
    right = as_classifier(module).predict(x) == y
    assert np.isinf(of_inputs(module, x, y, theirs, norm)[right]).mean() > 0.3
    found = measure(module, x, y, FMN(norm, steps=30)).values[right]
    assert found.max() < 3 * np.median(found)  # nobody had to fall back


@NORMS
def test_projected_rows_are_the_nearest_of_the_ball(norm):
    rng = np.random.default_rng(0)
    rows, radius = (
        torch.tensor(rng.normal(size=(20, 9))),
        torch.tensor(rng.uniform(0.1, 1.5, size=20) * norm.length(np.ones(9))),
    )
    found = projected(rows, radius, norm)
    lengths = norm.length(found.numpy())
    assert (lengths <= radius.numpy() + 1e-12).all()
    inside = norm.length(rows.numpy()) <= radius.numpy()
    assert 0 < inside.sum() < 20
    torch.testing.assert_close(found[inside], rows[inside])
    np.testing.assert_allclose(lengths[~inside], radius[~inside], rtol=1e-12)
    for row, point, size in zip(rows.numpy(), found.numpy(), radius.numpy(), strict=True):
        if norm is Norm.L1 and abs(row).sum() > size:  # all shrink by one amount, found by a solver
            cut = brentq(lambda t, row=row, size=size: np.maximum(abs(row) - t, 0).sum() - size, 0, abs(row).max())
            np.testing.assert_allclose(point, np.sign(row) * np.maximum(abs(row) - cut, 0), atol=1e-9)
        for _ in range(20):  # no other point of the ball is nearer
            other = rng.normal(size=9)
            other *= size * rng.uniform() / norm.length(other)
            assert np.linalg.norm(row - point) <= np.linalg.norm(row - other) + 1e-12


@NORMS
def test_rows_on_the_sphere_have_its_radius_and_0_and_no_limit_stay(norm):
    rows = torch.tensor([[3.0, -1.0], [0.01, 0.02], [0.0, 0.0], [5.0, 2.0]])
    found = on_sphere(rows, torch.tensor([2.0, 2.0, 2.0, torch.inf]), norm)
    np.testing.assert_allclose(norm.length(found[:2].numpy()), [2, 2], rtol=1e-6)
    assert found[2].tolist() == [0, 0]
    assert found[3].tolist() == [5, 2]


@NORMS
def test_from_where_there_is_no_gradient_it_goes_a_way_of_its_own_key(norm):
    def plateau(x):
        beyond = torch.relu((x - 0.5).abs().sum(1) - 0.2)
        return torch.stack([0.1 - beyond, torch.zeros_like(beyond)], 1)

    x = np.stack([np.full(6, 0.5), np.linspace(0.48, 0.52, 6)]).astype(np.float32)
    found, model = measured_and_confirmed(Formula(plateau), x, FMN(norm, steps=40), classes=2)
    assert (found.values < 0.5).all()
    runs = [measure(model, x, [0, 0], FMN(norm, steps=3), seed=seed).values for seed in (0, 0, 1)]
    assert (runs[0] == runs[1]).all()
    assert (runs[0] != runs[2]).any()


@NORMS
def test_it_comes_back_from_where_the_scores_overflow(norm):
    def scores(x):  # so flat at the start that a straight boundary would lie at 3000
        lead = torch.where(x.sum(1) < 1, 3 - 0.001 * x.sum(1), 4 - x.sum(1))
        away = torch.where(x.abs().amax(1) > 50, torch.nan, 0.0)
        return torch.stack([lead, torch.zeros(len(x))], 1) + away[:, None]

    found, _ = measured_and_confirmed(Formula(scores), np.zeros((2, 2), np.float32), FMN(norm), 2, Domain())
    assert np.isfinite(found.values).all()
    assert (found.values < 5).all()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("steps", 0, "must be at least 1; given 0"),
        ("step_size", 0.0, "must be a positive number; given 0.0"),
        ("radius_change", 1.5, "must lie between 0 and 1; given 1.5"),
    ],
)
def test_refuses_settings_that_lead_nowhere(field, value, message):
    with pytest.raises(InputError, match=f"`{field}` of FMN {message}"):
        FMN(**{field: value})
