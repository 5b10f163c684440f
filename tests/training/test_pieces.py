"""Parts of a training: orders, schedules, augmentation and weights of groups."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.errors import InputError
from fairmargin.study.schedule import Schedule, parse_schedule
from fairmargin.training.loop.data import augmented, orders_of
from fairmargin.training.parts.batch import Losses
from fairmargin.training.parts.controllers import RaisedWhereWorse
from fairmargin.training.plan import TrainingPlan


@settings(max_examples=100, deadline=None)
@given(sizes=st.lists(st.integers(0, 60), min_size=1, max_size=3), batch=st.integers(1, 20), seed=st.integers(0, 5))
def test_samples_of_the_largest_pool_are_drawn_once_and_those_of_smaller_pools_repeatedly(sizes, batch, seed):
    total = sum(sizes)
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    pools = [
        (torch.arange(max(total, 1)) >= s) & (torch.arange(max(total, 1)) < s + n)
        for s, n in zip(starts, sizes, strict=True)
    ]
    if not total:
        with pytest.raises(InputError, match="the data have none"):
            orders_of(pools, batch, (seed,))
        return
    orders = orders_of(pools, batch, (seed,))
    steps = {len(order) for order in orders}
    assert len(steps) == 1
    for size, start, order in zip(sizes, starts, orders, strict=True):
        drawn = torch.cat(order)
        counts = torch.bincount(drawn, minlength=total + 1)[start : start + size]
        lengths = [len(step) for step in order]
        assert len(drawn) == counts.sum()  # only samples of this pool
        if size == max(sizes):
            assert (counts == 1).all()
        if size:
            assert counts.max() - counts.min() <= 1  # each time all of them
            assert max(lengths) - min(lengths) <= 1
            assert max(lengths) <= max(batch, 3)
            assert min(lengths) > 1 or batch == 1 or size == 1
        else:
            assert lengths == [0] * len(order)


def test_orders_depend_on_their_place_in_the_training_only():
    pool = [torch.ones(20, dtype=torch.bool)]
    one, same, other = (torch.cat(orders_of(pool, 4, place)[0]) for place in ((0, 1), (0, 1), (0, 2)))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


def test_the_schedules_of_the_papers():
    ma = parse_schedule("steps:0.5,0.667")
    assert [ma.factor(epoch, 120) for epoch in range(120)] == [1.0] * 60 + [0.1] * 20 + [0.01] * 40
    assert ma.factor(79.99, 120) == 0.1
    assert parse_schedule("constant").factor(3, 4) == Schedule().factor(0, 1) == 1
    assert [parse_schedule("cosine").factor(epoch, 4) for epoch in (0, 2, 4)] == pytest.approx([1, 0.5, 0])
    assert TrainingPlan(schedule="steps:0.5,0.75").schedule == Schedule("steps", (0.5, 0.75))


@pytest.mark.parametrize("kind", ["none", "flip", "crop_flip"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_augmentation_keeps_shape_and_dtype_and_depends_on_the_seed_only(kind, dtype):
    x = torch.rand(6, 3, 8, 10, dtype=dtype)
    before = x.clone()
    one, same, other = (augmented(x, kind, torch.Generator().manual_seed(seed)) for seed in (0, 0, 1))
    assert one.shape == x.shape
    assert one.dtype == dtype
    assert torch.equal(one, same)
    assert torch.equal(one, other) == (kind == "none")
    assert torch.equal(x, before)


def test_images_are_moved_by_up_to_four_pixels_in_all_directions():
    x = torch.zeros(200, 2, 9, 9)
    x[:, 0, 4, 4], x[:, 1, 4, 4] = 1.0, 2.0
    found = augmented(x, "crop_flip", torch.Generator().manual_seed(0))
    places = found[:, 0].flatten(1).argmax(dim=1)
    assert (found[:, 0].flatten(1).sum(dim=1) == 1).all()
    assert torch.equal(2 * found[:, 0], found[:, 1])  # channels move together
    assert len(set(places.tolist())) > 50
    assert {int(p) // 9 for p in places} == set(range(9))


def test_about_half_of_the_images_are_mirrored():
    x = torch.arange(6.0).reshape(1, 1, 2, 3).expand(400, 1, 2, 3)
    found = augmented(x, "flip", torch.Generator().manual_seed(0))
    mirrored = (found == x.flip(-1)).flatten(1).all(dim=1)
    assert ((found == x).flatten(1).all(dim=1) | mirrored).all()
    assert 150 < mirrored.sum() < 250


def test_the_weight_of_a_group_can_grow_again_after_it_underflowed():
    keeper, names = RaisedWhereWorse(step=1.0), ("a", "b")
    state = keeper.begin(2)
    for _ in range(3000):
        state = keeper.after_losses(state, Losses(torch.tensor([0.0, 1.0]), torch.tensor([0, 1]), names))
    assert state["log_weights"].exp().tolist() == [0.0, 1.0]
    for _ in range(3010):
        state = keeper.after_losses(state, Losses(torch.tensor([1.0, 0.0]), torch.tensor([0, 1]), names))
    assert state["log_weights"].exp()[0] > 0.99


def test_the_weights_of_groups_that_a_batch_lacks_change_by_normalisation_only():
    keeper = RaisedWhereWorse(step=0.5)
    state = keeper.after_losses(keeper.begin(3), Losses(torch.tensor([2.0]), torch.tensor([1]), ("a", "b", "c")))
    expected = [1, math.e, 1]
    assert state["log_weights"].exp().tolist() == pytest.approx([e / sum(expected) for e in expected])
