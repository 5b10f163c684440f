import copy
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.undefined import Undefined, reason_of

VALUE = Undefined("no correct sample in group 'F'")


def test_an_undefined_value_is_nan_in_arithmetic() -> None:
    assert math.isnan(VALUE)
    assert math.isnan(VALUE + 1)
    assert np.isnan(np.array([VALUE, 1.0])).tolist() == [True, False]
    assert pd.Series([VALUE, 1.0]).isna().tolist() == [True, False]


def test_an_undefined_value_compares_like_nan() -> None:
    assert VALUE != 0
    assert not VALUE < 0.05
    assert not VALUE >= 0.05
    assert VALUE != VALUE


def test_an_undefined_value_has_a_reason() -> None:
    assert reason_of(VALUE) == "no correct sample in group 'F'"
    assert repr(VALUE) == "Undefined(\"no correct sample in group 'F'\")"


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf, np.float64(1.0)])
def test_a_plain_number_has_no_reason(number: float) -> None:
    assert reason_of(number) == ""


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_reason_survives_pickling(protocol: int) -> None:
    again = pickle.loads(pickle.dumps(VALUE, protocol))
    assert isinstance(again, Undefined)
    assert reason_of(again) == VALUE.reason


def test_the_reason_survives_copying() -> None:
    assert reason_of(copy.copy(VALUE)) == reason_of(copy.deepcopy([VALUE])[0]) == VALUE.reason


def test_strict_json_refuses_an_undefined_value() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        json.dumps({"sigma": VALUE}, allow_nan=False)
