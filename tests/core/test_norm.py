import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairmargin.core.norm import Norm

law = settings(max_examples=60, deadline=None, derandomize=True)
norms = st.sampled_from(list(Norm))
vectors = arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))
ORDER = {Norm.L1: 1, Norm.L2: 2, Norm.LINF: np.inf}
every = pytest.mark.parametrize("norm", Norm)


@law
@given(norms, vectors)
def test_length_equals_numpys_norm(norm, delta):
    assert float(norm.length(delta)) == pytest.approx(np.linalg.norm(delta, ORDER[norm]), rel=1e-12)


@law
@given(norms, vectors, vectors)
def test_the_dual_norm_bounds_the_inner_product(norm, a, b):
    assert abs(float(a @ b)) <= float(norm.length(a) * norm.dual.length(b)) * (1 + 1e-9) + 1e-9


@every
def test_the_dual_of_the_dual_is_the_norm(norm):
    assert norm.dual.dual is norm
    assert 1 / ORDER[norm] + 1 / ORDER[norm.dual] == 1


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e200, 1e308])
def test_l2_neither_overflows_nor_underflows(size):
    assert float(Norm.L2.length(np.array([0.0, size]))) == size
    if size < 1e308:
        expected = pytest.approx(math.sqrt(2) * size, rel=1e-12, abs=5e-324)
        assert float(Norm.L2.length(np.array([size, -size]))) == expected


@every
def test_length_is_taken_along_any_axis_in_double_precision(norm):
    delta = np.random.default_rng(0).normal(size=(3, 4, 5))
    for axis in (0, 1, 2, -1):
        expected = np.linalg.norm(delta, ORDER[norm], axis=axis)
        np.testing.assert_allclose(norm.length(delta, axis=axis), expected, rtol=1e-12)
    single = np.full(10_000, 0.1, dtype=np.float32)
    assert norm.length(single).dtype == np.float64
    assert float(norm.length(single)) == pytest.approx(np.linalg.norm(single.astype(float), ORDER[norm]), rel=1e-12)


@every
def test_no_entry_has_length_zero_and_an_infinite_one_is_infinitely_long(norm):
    assert norm.length(np.zeros((2, 0))).tolist() == [0.0, 0.0]
    assert float(norm.length(np.zeros(5))) == 0.0
    assert float(norm.length(np.array([np.inf, 1.0]))) == np.inf


@pytest.mark.parametrize(
    "spelling", ["linf", "Linf", "L_inf", " LINF ", "inf", "L∞", "∞", "Norm.LINF", Norm.LINF, np.inf]
)
def test_linf_is_accepted_in_common_spellings(spelling):
    assert Norm.parse(spelling) is Norm.LINF


@every
def test_a_norm_is_parsed_from_its_value_name_and_text(norm):
    for text in (str(norm), norm.value, norm.name, repr(norm)[1:].split(":")[0]):
        assert Norm.parse(text) is norm
