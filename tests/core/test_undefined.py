import copy
import math
import pickle

import numpy as np
import pandas as pd
import pytest

from fairmargin.core.undefined import Undefined, reason_of

VALUE = Undefined("no correct sample in group 'F'")


def test_an_undefined_value_is_nan_in_arithmetic_and_comparisons():
    assert math.isnan(VALUE + 1)
    assert np.isnan(np.array([VALUE, 1.0])).tolist() == [True, False]
    assert pd.Series([VALUE, 1.0]).isna().tolist() == [True, False]
    assert VALUE != VALUE
    assert not VALUE < 0.05
    assert not VALUE >= 0.05


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf, np.float64(1.0)])
def test_only_an_undefined_value_has_a_reason(number):
    assert reason_of(number) == ""
    assert reason_of(VALUE) == "no correct sample in group 'F'"
    assert repr(VALUE) == "Undefined(\"no correct sample in group 'F'\")"


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_the_reason_survives_pickling_and_copying(protocol):
    for again in (pickle.loads(pickle.dumps(VALUE, protocol)), copy.copy(VALUE), copy.deepcopy([VALUE])[0]):
        assert isinstance(again, Undefined)
        assert reason_of(again) == VALUE.reason
