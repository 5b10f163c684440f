import math
from fractions import Fraction

import numpy as np
import pytest

from fairmargin.core.radius import as_radii, parse_radius
from fairmargin.errors import InputError


@pytest.mark.parametrize(
    ("given", "radius"),
    [
        ("4/255", 4 / 255),
        (" 8 / 255 ", 8 / 255),
        ("0.1", 0.1),
        ("1e-2", 0.01),
        ("0", 0.0),
        (0.3, 0.3),
        (2, 2.0),
        (np.float32(0.5), 0.5),
        (Fraction(1, 4), 0.25),
    ],
)
def test_a_radius_is_a_number_or_a_fraction_in_any_spelling(given, radius):
    assert parse_radius(given) == radius


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("-0.1", "must not be negative; given '-0.1'"),
        (-1, "must not be negative"),
        ("-1/255", "must not be negative"),
        ("4/0", "cannot be divided by 0; given '4/0'"),
        ("eight", "must be a number such as 0.1 or a fraction such as 4/255; given 'eight'"),
        ("4/255/2", "must be a number"),
        ("/255", "must be a number"),
        ("", "must be a number"),
        (None, "must be a number"),
        (True, "must be a number"),
        ("nan", "must be finite"),
        (math.inf, "must be finite"),
        ([0.1], "must be a number"),
    ],
)
def test_an_invalid_radius_is_refused(given, said):
    with pytest.raises(InputError, match=said):
        parse_radius(given)


def test_a_radius_applies_to_all_samples_or_to_one_each():
    np.testing.assert_array_equal(as_radii("1/4", 3), [0.25, 0.25, 0.25])
    np.testing.assert_array_equal(as_radii(["1/4", 0, 2.0], 3), [0.25, 0.0, 2.0])
    np.testing.assert_array_equal(as_radii(np.array(0.5), 2), [0.5, 0.5])
    assert as_radii(np.array([0.1, 0.2], np.float32), 2).dtype == np.float64


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ([0.1, 0.2], "`radius` has 2 numbers but there are 3 samples"),
        ([0.1] * 4, "`radius` has 4 numbers but there are 3 samples"),
        ([0.1, math.nan, 0.1], "must be finite"),
        ([0.1, -0.2, 0.1], "must not be negative; given -0.2"),
        (np.ones((3, 2)), "must be a number"),
    ],
)
def test_radii_that_do_not_fit_the_samples_are_refused(given, said):
    with pytest.raises(InputError, match=said):
        as_radii(given, 3)
