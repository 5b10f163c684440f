import pickle

import numpy as np
import pytest

from fairmargin.core.domain import Domain
from fairmargin.errors import InputError

INF = np.inf


def test_a_domain_is_unlimited_with_scale_one_by_default() -> None:
    domain = Domain()
    low, high, scale = domain.flat(3)
    assert (low == -INF).all()
    assert (high == INF).all()
    assert (scale == 1).all()
    assert not domain.is_bounded
    assert domain.movable(3).all()


def test_a_scalar_applies_to_every_feature() -> None:
    low, high, scale = Domain(0, 1, 0.5).flat(4)
    assert low.tolist() == [0] * 4
    assert high.tolist() == [1] * 4
    assert scale.tolist() == [0.5] * 4


def test_an_image_shaped_domain_is_flattened_in_the_images_order() -> None:
    low = np.arange(6.0).reshape(1, 2, 3)
    assert Domain(low, low + 1).flat(6)[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_feature_is_immutable_by_equal_limits_or_by_scale_zero() -> None:
    domain = Domain(low=[0, 2, 0], high=[1, 2, 1], scale=[1, 1, 0])
    assert domain.movable(3).tolist() == [True, False, False]


def test_contains_returns_a_value_for_each_sample() -> None:
    x = np.array([[0.0, 1.0], [0.5, 0.5], [-0.1, 0.5], [0.5, 1.1]])
    assert Domain(0, 1).contains(x).tolist() == [True, True, False, False]


def test_contains_allows_for_rounding_only() -> None:
    x = np.array([[1 + 1e-7], [1 + 1e-5]])
    assert Domain(0, 1).contains(x).tolist() == [True, False]
    assert Domain(0, 1).contains(x, slack=1e-4).tolist() == [True, True]


def test_contains_ignores_immutable_features() -> None:
    domain = Domain(low=[0, 5, 0], high=[1, 5, 1], scale=[1, 1, 0])
    assert domain.contains(np.array([[0.5, 99.0, -7.0], [1.5, 5.0, 0.5]])).tolist() == [True, False]


def test_contains_flattens_images() -> None:
    x = np.zeros((2, 3, 4, 4))
    x[1, 2, 3, 3] = 2
    assert Domain(0, 1).contains(x).tolist() == [True, False]


@pytest.mark.parametrize("domain", [Domain(0, 1), Domain(low=0), Domain(high=[INF, 3])])
def test_a_finite_limit_of_a_mutable_feature_makes_a_domain_bounded(domain: Domain) -> None:
    assert domain.is_bounded


@pytest.mark.parametrize("domain", [Domain([-INF, 3], [INF, 3]), Domain([-INF, 0], [INF, 1], scale=[1, 0])])
def test_limits_of_immutable_features_do_not_make_a_domain_bounded(domain: Domain) -> None:
    assert not domain.is_bounded


@pytest.mark.parametrize("name", ["low", "high", "scale"])
def test_nan_is_refused_with_the_name_of_the_field(name: str) -> None:
    with pytest.raises(InputError, match=f"`{name}` of a Domain holds NaN"):
        Domain(**{name: [0.0, np.nan]})


@pytest.mark.parametrize("scale", [-1.0, INF, [1.0, -1e-9]])
def test_a_scale_must_be_finite_and_not_negative(scale: object) -> None:
    with pytest.raises(InputError, match="`scale` of a Domain must be finite and not negative"):
        Domain(scale=scale)  # type: ignore[arg-type]


def test_swapped_limits_are_refused() -> None:
    with pytest.raises(InputError, match="Did you swap them"):
        Domain(low=[0, 2], high=[1, 1])


def test_limits_of_different_shapes_are_refused() -> None:
    with pytest.raises(InputError, match=r"one shape; given \[\(2,\), \(3,\)\]"):
        Domain(low=[0, 0], high=[1, 1, 1])


def test_a_domain_with_another_number_of_features_is_refused_with_both_counts() -> None:
    with pytest.raises(InputError, match="`low` of the Domain has 2 entries but a sample has 3 features"):
        Domain([0, 0], 1).contains(np.zeros((1, 3)))


def test_a_domain_does_not_change_with_the_callers_array() -> None:
    low = np.zeros(2)
    domain = Domain(low, 1)
    low[:] = -9
    assert domain.low.tolist() == [0, 0]


def test_a_domain_is_frozen_and_its_arrays_are_read_only() -> None:
    domain = Domain([0.0], [1.0])
    with pytest.raises(AttributeError):
        domain.low = np.zeros(1)  # type: ignore[misc]
    for array in (domain.low, domain.high, domain.scale):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 5


def test_the_fingerprint_depends_on_every_number_and_on_nothing_else() -> None:
    domain = Domain([0, 0], [1, 1], [1, 2])
    assert domain.fingerprint() == Domain(np.zeros(2, np.float32), (1, 1), [1.0, 2.0]).fingerprint()
    others = [Domain([0, 0.1], [1, 1], [1, 2]), Domain([0, 0], [1, 2], [1, 2]), Domain([0, 0], [1, 1], [2, 1])]
    assert len({d.fingerprint() for d in (domain, *others)}) == 4


def test_the_fingerprint_survives_pickling() -> None:
    domain = Domain([0, 0], [1, INF], 0.5)
    assert pickle.loads(pickle.dumps(domain)).fingerprint() == domain.fingerprint()


def test_repr_is_short_for_any_number_of_features() -> None:
    assert repr(Domain(0, 1)) == "Domain(low=0, high=1, scale=1)"
    assert repr(Domain(np.zeros(1000), np.arange(1000.0))) == "Domain(low=0, high=<1000 numbers>, scale=1)"
