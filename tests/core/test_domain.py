import pickle

import numpy as np
import pytest

from fairmargin.core.domain import Domain

INF = np.inf


def test_a_domain_is_unlimited_with_scale_one_by_default():
    domain = Domain()
    assert [part.tolist() for part in domain.flat(2)] == [[-INF, -INF], [INF, INF], [1, 1]]
    assert not domain.is_bounded
    assert domain.movable(3).all()


def test_a_scalar_applies_to_every_feature_and_an_image_is_flattened_in_its_order():
    assert [part.tolist() for part in Domain(0, 1, 0.5).flat(2)] == [[0, 0], [1, 1], [0.5, 0.5]]
    low = np.arange(6.0).reshape(1, 2, 3)
    assert Domain(low, low + 1).flat(6)[0].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_feature_with_equal_limits_or_scale_zero_is_immutable_and_ignored_by_contains():
    domain = Domain(low=[0, 5, 0], high=[1, 5, 1], scale=[1, 1, 0])
    assert domain.movable(3).tolist() == [True, False, False]
    assert domain.contains(np.array([[0.5, 99.0, -7.0], [1.5, 5.0, 0.5]])).tolist() == [True, False]


def test_contains_returns_a_value_for_each_sample_of_any_shape_and_allows_for_rounding():
    x = np.zeros((6, 3, 4, 4))
    x[1:, 2, 3, 3] = 1.0, 2.0, -0.1, 1 + 1e-7, 1 + 1e-5
    assert Domain(0, 1).contains(x).tolist() == [True, True, False, False, True, False]
    assert Domain(0, 1).contains(x, slack=1e-4).tolist() == [True, True, False, False, True, True]


@pytest.mark.parametrize(
    ("domain", "is_bounded"),
    [
        (Domain(0, 1), True),
        (Domain(low=0), True),
        (Domain(high=[INF, 3]), True),
        (Domain([-INF, 3], [INF, 3]), False),
        (Domain([-INF, 0], [INF, 1], scale=[1, 0]), False),
    ],
)
def test_a_domain_is_bounded_by_the_finite_limits_of_mutable_features(domain, is_bounded):
    assert domain.is_bounded == is_bounded


def test_a_domain_is_read_only_and_independent_of_the_callers_array():
    low = np.zeros(2)
    domain = Domain(low, 1)
    low[:] = -9
    assert domain.low.tolist() == [0, 0]
    with pytest.raises(AttributeError):
        domain.low = np.zeros(1)
    for array in (domain.low, domain.high, domain.scale):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 5


def test_the_fingerprint_depends_on_every_number_and_on_nothing_else():
    domain = Domain([0, 0], [1, 1], [1, 2])
    assert domain.fingerprint() == Domain(np.zeros(2, np.float32), (1, 1), [1.0, 2.0]).fingerprint()
    assert domain.fingerprint() == pickle.loads(pickle.dumps(domain)).fingerprint()
    others = [Domain([0, 0.1], [1, 1], [1, 2]), Domain([0, 0], [1, 2], [1, 2]), Domain([0, 0], [1, 1], [2, 1])]
    assert len({d.fingerprint() for d in (domain, *others)}) == 4


def test_repr_is_short_for_any_number_of_features():
    assert repr(Domain(0, 1)) == "Domain(low=0, high=1, scale=1)"
    assert repr(Domain(np.zeros(1000), np.arange(1000.0))) == "Domain(low=0, high=<1000 numbers>, scale=1)"
