import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fairmargin.core.norm import Norm
from fairmargin.errors import InputError

law = settings(max_examples=60, deadline=None, derandomize=True)
norms = st.sampled_from(list(Norm))
vectors = arrays(np.float64, 4, elements=st.floats(-1e3, 1e3))
ORDER = {Norm.L1: 1, Norm.L2: 2, Norm.LINF: np.inf}


@law
@given(norms, vectors)
def test_length_equals_numpys_norm(norm: Norm, delta: np.ndarray) -> None:
    assert float(norm.length(delta)) == pytest.approx(np.linalg.norm(delta, ORDER[norm]), rel=1e-12)


@law
@given(norms, vectors, vectors)
def test_length_satisfies_the_triangle_inequality(norm: Norm, a: np.ndarray, b: np.ndarray) -> None:
    assert norm.length(a + b) <= (norm.length(a) + norm.length(b)) * (1 + 1e-12)


@law
@given(norms, vectors, st.floats(-1e3, 1e3))
def test_length_scales_with_the_perturbation(norm: Norm, delta: np.ndarray, factor: float) -> None:
    scaled, expected = float(norm.length(factor * delta)), abs(factor) * float(norm.length(delta))
    assert scaled == pytest.approx(expected, rel=1e-9, abs=1e-300)


@law
@given(norms, vectors, vectors)
def test_the_dual_norm_bounds_the_inner_product(norm: Norm, a: np.ndarray, b: np.ndarray) -> None:
    assert abs(float(a @ b)) <= float(norm.length(a) * norm.dual.length(b)) * (1 + 1e-9) + 1e-9


@pytest.mark.parametrize("norm", Norm)
def test_the_dual_of_the_dual_is_the_norm(norm: Norm) -> None:
    assert norm.dual.dual is norm
    assert 1 / ORDER[norm] + 1 / ORDER[norm.dual] == 1


@pytest.mark.parametrize("size", [5e-324, 1e-200, 1e200, 1e308])
def test_l2_neither_overflows_nor_underflows(size: float) -> None:
    assert float(Norm.L2.length(np.array([0.0, size]))) == size
    if size < 1e308:
        assert float(Norm.L2.length(np.array([size, -size]))) == pytest.approx(
            math.sqrt(2) * size, rel=1e-12, abs=5e-324
        )


@pytest.mark.parametrize("norm", Norm)
def test_length_of_an_empty_array_is_zero(norm: Norm) -> None:
    assert norm.length(np.zeros((3, 0))).tolist() == [0.0, 0.0, 0.0]
    assert float(norm.length(np.zeros(5))) == 0.0


@pytest.mark.parametrize("norm", Norm)
def test_length_is_taken_along_any_axis(norm: Norm) -> None:
    delta = np.random.default_rng(0).normal(size=(3, 4, 5))
    for axis in (0, 1, 2, -1):
        expected = np.linalg.norm(delta, ORDER[norm], axis=axis)
        np.testing.assert_allclose(norm.length(delta, axis=axis), expected, rtol=1e-12)


@pytest.mark.parametrize("norm", Norm)
def test_length_is_computed_in_double_precision(norm: Norm) -> None:
    delta = np.full(10_000, 0.1, dtype=np.float32)
    assert norm.length(delta).dtype == np.float64
    assert float(norm.length(delta)) == pytest.approx(np.linalg.norm(delta.astype(np.float64), ORDER[norm]), rel=1e-12)


def test_a_perturbation_with_an_infinite_entry_is_infinitely_long() -> None:
    assert [float(norm.length(np.array([np.inf, 1.0]))) for norm in (Norm.L1, Norm.LINF, Norm.L2)] == [np.inf] * 3


@pytest.mark.parametrize(
    "spelling", ["linf", "Linf", "L_inf", " LINF ", "inf", "L∞", "∞", "Norm.LINF", Norm.LINF, np.inf]
)
def test_linf_is_accepted_in_common_spellings(spelling: object) -> None:
    assert Norm.parse(spelling) is Norm.LINF  # type: ignore[arg-type]


@pytest.mark.parametrize("norm", Norm)
def test_a_norm_is_parsed_from_its_value_name_and_text(norm: Norm) -> None:
    assert Norm.parse(str(norm)) is norm
    assert Norm.parse(norm.value) is norm
    assert Norm.parse(norm.name) is norm
    assert Norm.parse(repr(norm)[1:].split(":")[0]) is norm


@pytest.mark.parametrize("spelling", ["l3", "", "euclidean", "l0", None])
def test_an_unknown_norm_is_refused_with_the_known_ones(spelling: object) -> None:
    with pytest.raises(InputError, match=r"Unknown norm .*Expected one of l1, l2, linf"):
        Norm.parse(spelling)  # type: ignore[arg-type]
