from fractions import Fraction

import numpy as np
import pytest

from fairmargin.core.radius import as_radii, parse_radius


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


def test_a_radius_applies_to_all_samples_or_to_one_each():
    np.testing.assert_array_equal(as_radii("1/4", 3), [0.25, 0.25, 0.25])
    np.testing.assert_array_equal(as_radii(["1/4", 0, 2.0], 3), [0.25, 0.0, 2.0])
    np.testing.assert_array_equal(as_radii(np.array(0.5), 2), [0.5, 0.5])
    assert as_radii(np.array([0.1, 0.2], np.float32), 2).dtype == np.float64
