import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairmargin.core.norm import Norm
from fairmargin.perturbation.lengths import in_units, length, norm_of, steepest

LENGTHS = {
    Norm.L1: lambda row: sum(map(abs, row)),
    Norm.L2: lambda row: math.hypot(*row),
    Norm.LINF: lambda row: max(map(abs, row)),
}
rows = arrays(np.float64, (3, 5), elements=st.floats(-1e3, 1e3, allow_subnormal=False))


@pytest.mark.parametrize("norm", Norm, ids=str)
@given(rows)
def test_agrees_with_plain_python_in_every_norm(norm, delta):
    expected = [LENGTHS[norm](row) for row in delta.tolist()]
    np.testing.assert_allclose(norm_of(torch.tensor(delta), norm).numpy(), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("norm", Norm, ids=str)
def test_a_length_is_in_units_of_the_scale_and_in_double_precision(norm):
    delta, scale = torch.tensor([[3.0, -8.0, 0.5]]), torch.tensor([1.0, 2.0, 0.1])
    found = length(delta, norm, scale)
    assert length(torch.tensor([[7.0, 0.0]]), norm, torch.tensor([0.0, 1.0])).item() == 0  # immutable features
    assert in_units(torch.tensor([[7.0, 6.0]]), torch.tensor([0.0, 2.0])).tolist() == [[0.0, 3.0]]
    assert found.dtype == torch.float64
    expected = LENGTHS[norm](delta.numpy().astype(float)[0] / scale.numpy().astype(float))
    assert found.item() == pytest.approx(expected, rel=1e-15)


@pytest.mark.parametrize("size", [1e-30, 1e-19, 1e19, 1e37])
def test_squares_of_small_and_large_numbers_neither_underflow_nor_overflow(size):
    row = torch.tensor([[3 * size, 4 * size]], dtype=torch.float32)
    assert norm_of(row, Norm.L2).item() == pytest.approx(5 * size, rel=1e-6)


@pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
@given(rows)
def test_the_steepest_direction_has_length_1_and_attains_the_dual_norm(norm, gain):
    direction = steepest(torch.tensor(gain), norm).numpy()
    moving = np.abs(gain).max(axis=1) > 0
    np.testing.assert_allclose([LENGTHS[norm](row) for row in direction[moving]], 1, rtol=1e-12)
    dual = [LENGTHS[norm.dual](row) for row in gain.tolist()]
    np.testing.assert_allclose((gain * direction).sum(axis=1), dual, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("norm", [Norm.L2, Norm.LINF], ids=str)
def test_the_steepest_direction_of_a_zero_gradient_is_zero(norm):
    assert steepest(torch.zeros(1, 3), norm).tolist() == [[0.0, 0.0, 0.0]]
