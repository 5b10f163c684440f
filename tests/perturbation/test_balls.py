import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from fairmargin.core.norm import Norm
from fairmargin.perturbation.balls import Ball, draws_for
from fairmargin.perturbation.lengths import length

NORMS = (Norm.L2, Norm.LINF)
both_norms = pytest.mark.parametrize("norm", NORMS)


def cases(rng, rows=5, features=4, dtype=torch.float64):
    """Return samples, radii and a box, some of whose features are near a limit, unlimited or immutable."""
    center = torch.tensor(rng.normal(size=(rows, features)))
    radius = torch.tensor(rng.uniform(0.2, 2.0, size=rows))
    low, high = torch.tensor(rng.uniform(-2, -0.5, size=features)), torch.tensor(rng.uniform(0.5, 2, size=features))
    low[0], scale = -torch.inf, torch.tensor(rng.uniform(0.3, 3.0, size=features))
    scale[-1] = 0.0
    center = torch.minimum(torch.maximum(center, low), high)
    return [each.to(dtype) for each in (center, radius, low, high, scale)]


@pytest.mark.parametrize("seed", range(8))
@both_norms
def test_projects_to_the_nearest_point_of_ball_and_box_that_a_solver_finds(norm, seed):
    rng = np.random.default_rng(seed)
    center, radius, low, high, scale = cases(rng, rows=2)
    x = center + torch.tensor(rng.normal(size=center.shape)) * 3
    ours = Ball.around(center, norm, radius, low, high, scale).project(x).numpy()
    free = scale.numpy() != 0
    for i in range(len(x)):
        unit, start, goal = scale.numpy()[free], center[i].numpy()[free], x[i].numpy()[free]
        lowest, highest = ((limit.numpy()[free] - start) / unit for limit in (low, high))
        reach = float(radius[i])
        if norm is Norm.LINF:
            lowest, highest = lowest.clip(-reach, reach), highest.clip(-reach, reach)
        inside = {"type": "ineq", "fun": lambda u, reach=reach: reach**2 - u @ u} if norm is Norm.L2 else ()
        wanted = (goal - start) / unit
        answer = minimize(
            lambda u, wanted=wanted: ((u - wanted) ** 2).sum(),
            np.zeros(free.sum()),
            bounds=list(zip(lowest, highest, strict=True)),
            constraints=inside,
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        np.testing.assert_allclose((ours[i][free] - start) / unit, answer.x, atol=1e-5)
        np.testing.assert_array_equal(ours[i][~free], center[i].numpy()[~free])


@both_norms
def test_projection_is_idempotent_and_does_not_move_points_inside(norm):
    rng = np.random.default_rng(1)
    center, radius, low, high, scale = cases(rng, rows=40)
    ball = Ball.around(center, norm, radius, low, high, scale)
    once = ball.project(center + torch.tensor(rng.normal(size=center.shape)) * 3 * (scale != 0))
    torch.testing.assert_close(ball.project(once), once, rtol=0, atol=1e-12)
    halfway = center + 0.5 * (once - center)
    torch.testing.assert_close(ball.project(halfway), halfway, rtol=0, atol=1e-12)


@both_norms
def test_samples_of_any_shape_give_the_same_result_as_flat_ones(norm):
    rng = np.random.default_rng(2)
    center, x = torch.tensor(rng.uniform(size=(3, 1, 2, 4))), torch.tensor(rng.normal(size=(3, 1, 2, 4)))
    radius = torch.tensor([0.1, 0.5, 2.0])
    shaped, flat = (Ball.around(each, norm, radius, 0, 1) for each in (center, center.flatten(1)))
    torch.testing.assert_close(shaped.project(x).flatten(1), flat.project(x.flatten(1)))
    torch.testing.assert_close(shaped.steepest(x).flatten(1), flat.steepest(x.flatten(1)))
    draws = draws_for(center, norm, torch.Generator().manual_seed(0))
    torch.testing.assert_close(shaped.random_start(draws).flatten(1), flat.random_start(draws))
    assert shaped.admissible(x.float()).shape == x.shape
    wide = Ball.around(center, norm, 0.3, 0, 1)  # one radius for all
    assert wide.project(x).shape == wide.admissible(x.float()).shape == x.shape


@both_norms
def test_no_step_of_length_1_increases_a_function_more_than_the_steepest(norm):
    rng = np.random.default_rng(3)
    scale, gradient = torch.tensor([1.0, 0.5, 3.0, 0.0]).double(), torch.tensor(rng.normal(size=(6, 4)))
    step = Ball.around(torch.zeros(6, 4).double(), norm, 1.0, scale=scale).steepest(gradient)
    torch.testing.assert_close(length(step, norm, scale), torch.ones(6).double())
    assert (step[:, 3] == 0).all()
    others = torch.tensor(rng.normal(size=(200, 1, 4)))
    others = others / length(others[:, 0], norm, scale)[:, None, None] * (scale != 0)
    assert ((others * gradient).sum(dim=2) <= (step * gradient).sum(dim=1) + 1e-12).all()


@both_norms
def test_random_starts_are_uniform_in_the_ball(norm):
    center = torch.zeros(20_000, 3, dtype=torch.float64)
    scale = torch.tensor([1.0, 2.0, 0.0]).double()  # two features are mutable
    ball = Ball.around(center, norm, 0.5, scale=scale)
    starts = ball.random_start(draws_for(center, norm, torch.Generator().manual_seed(0)))
    sizes = length(starts, norm, scale) / 0.5
    assert sizes.max() <= 1
    # In two dimensions the fraction within r times the radius is r², for discs and squares.
    for part in (0.3, 0.6, 0.9):
        assert abs(float((sizes <= part).double().mean()) - part**2) < 0.015
    assert starts.mean(dim=0).abs().max() < 0.02
    assert (starts[:, 2] == 0).all()


def test_draws_depend_on_the_generator_and_do_not_use_the_global_one():
    center, before = torch.zeros(4, 3), torch.get_rng_state()
    first, second = (draws_for(center, Norm.L2, torch.Generator().manual_seed(5)) for _ in range(2))
    assert torch.equal(first, second)
    assert torch.equal(torch.get_rng_state(), before)


@both_norms
def test_a_ball_of_radius_0_contains_only_the_sample(norm):
    center = torch.tensor([[0.1, 0.7]])
    ball = Ball.around(center, norm, 0.0, 0, 1)
    assert torch.equal(ball.project(torch.tensor([[5.0, -5.0]])), center)
    assert torch.equal(ball.random_start(draws_for(center, norm)), center)


@both_norms
def test_a_sample_outside_of_the_box_by_rounding_belongs_to_its_ball(norm):
    center = torch.tensor([[1.0000001, 0.5]])
    ball = Ball.around(center, norm, 0.1, 0, 1)
    assert torch.equal(ball.project(center), center)
    assert ball.project(center + 1)[0, 0] <= center[0, 0]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    norm=st.sampled_from(NORMS),
    exponent=st.integers(-17, 2),
    dtype=st.sampled_from([torch.float16, torch.float32, torch.float64]),
    stretch=st.sampled_from([0.3, 1.0, 1.0 + 1e-7, 50.0]),
)
def test_admissible_points_lie_in_ball_and_box_in_every_precision_of_the_model(seed, norm, exponent, dtype, stretch):
    rng = np.random.default_rng(seed)
    center, radius, low, high, scale = cases(rng, rows=6, features=5)
    radius = radius * 10.0**exponent
    ball = Ball.around(center, norm, radius, low, high, scale)
    way = torch.tensor(rng.normal(size=center.shape)) * scale
    way = way / length(way, norm, scale)[:, None]
    x = (center + stretch * radius[:, None] * way).to(dtype)
    x[0, 0], x[1, 1] = torch.nan, torch.inf
    found = ball.admissible(x)
    assert found.dtype == dtype
    moved = found != center.to(dtype)
    there = torch.where(moved, found.double(), center).numpy()
    assert ((there >= low.numpy()) & (there <= high.numpy()) | ~moved.numpy()).all()
    assert not moved[:, -1].any()
    free = scale.numpy() != 0
    delta = (there - center.numpy())[:, free] / scale.numpy()[free]
    sizes = np.linalg.norm(delta, np.inf if norm is Norm.LINF else 2, axis=1)
    assert (sizes <= radius.numpy()).all()


@both_norms
def test_admissible_points_are_close_to_the_given_points(norm):
    rng = np.random.default_rng(4)
    center, radius, low, high, scale = cases(rng, rows=30)
    ball = Ball.around(center, norm, radius, low, high, scale)
    x = (center + torch.tensor(rng.normal(size=center.shape)) * 3).float()
    torch.testing.assert_close(ball.admissible(x).double(), ball.project(x.double()), rtol=0, atol=2e-6)
    halfway = (center + 0.4 * (ball.project(x.double()) - center)).float()
    inside = torch.where(scale == 0, center.float(), halfway)
    assert torch.equal(ball.admissible(inside), inside)  # bit by bit


def test_a_radius_that_is_representable_is_used_entirely():
    ball = Ball.around(torch.tensor([[0.5, 0.25]]).double(), Norm.LINF, 0.25, 0, 1)
    assert torch.equal(ball.admissible(torch.tensor([[9.0, -9.0]])), torch.tensor([[0.75, 0.0]]))


@pytest.mark.parametrize("seed", range(20))
def test_no_point_next_to_zero_is_farther_than_the_radius(seed):
    rng = np.random.default_rng(seed)
    radius, scale = torch.tensor(rng.uniform(0.01, 2, size=500)), torch.tensor(rng.uniform(0.1, 5, size=7))
    # One step of the length of the radius leads almost to 0.
    center = -radius[:, None] * scale * (1 + 10.0 ** -rng.uniform(4, 17) * torch.tensor(rng.normal(size=(500, 7))))
    moved = Ball.around(center, Norm.LINF, radius, -50, 50, scale).admissible(-9 * center)
    away = ((moved - center) / scale).abs()
    assert (away <= radius[:, None]).all()
    assert (away >= radius[:, None] * (1 - 1e-12)).all()
