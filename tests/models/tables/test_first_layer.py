"""Contributions of columns to the first layer of a network, against the features of the fitted transformers."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    KBinsDiscretizer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)

import fairmargin as fm
from fairmargin.models.tables.first_layer import FirstLayer

pytestmark = pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
RULES = {"age": fm.Column(step=1), "pay": fm.Column(step=0, low=500, high=9000), "sex": fm.Column(immutable=True)}
BINS = KBinsDiscretizer(4, strategy="uniform", quantile_method="averaged_inverted_cdf")


def people(rows=120, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(18, 70, rows),
            "pay": np.where(rng.random(rows) < 0.1, np.nan, np.round(rng.lognormal(7.5, 0.5, rows), 2)),
            "job": rng.choice(["cook", "nurse", "tech"], rows),
            "sex": rng.choice(["F", "M"], rows),
        }
    )
    return frame, frame["age"] + frame["pay"].fillna(2000) / 90 > 70


def layer_of(step):
    """Return the contributions of a network whose numbers pass a step, and coded rows."""
    frame, y = people()
    steps = make_column_transformer(
        (make_pipeline(SimpleImputer(), step), ["age", "pay"]),
        (OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["job", "sex"]),
    )
    model = make_pipeline(steps, MLPClassifier((6,), max_iter=5, random_state=0)).fit(frame, y)
    classifier = fm.as_classifier(model, columns=RULES, training_data=frame)
    rows = classifier.encode(frame)
    rows[:4, 2] = [3, np.nan, 0, 1]  # an unknown and a missing category
    return FirstLayer.of(classifier, rows), rows


def moved(layer, rows, seed=1):
    """Return rows with other values, and the sums that contributions give them."""
    rng, new, sums = np.random.default_rng(seed), rows.copy(), layer.sums(rows)
    values = {0: rng.integers(18, 69, len(rows)).astype(float), 1: rng.uniform(500, 9000, len(rows))}
    values[2] = np.where(np.isnan(rows[:, 2]), np.nan, rng.integers(0, 3, len(rows)).astype(float))
    for column, after in values.items():
        after = np.where(np.isnan(rows[:, column]), np.nan, after)
        sums += layer.change(column, rows[:, column], after)
        new[:, column] = after
    return new, sums


def test_contributions_of_affine_numbers_and_of_categories_are_exact():
    layer, rows = layer_of(StandardScaler())
    assert set(layer.slopes) == {0, 1}
    assert set(layer.places) == {2}, "the immutable column has none"
    new, sums = moved(layer, rows)
    np.testing.assert_allclose(sums, layer.sums(new), rtol=0, atol=1e-10)


@pytest.mark.parametrize("step", [PowerTransformer(), QuantileTransformer(n_quantiles=50)], ids=["power", "quantile"])
def test_contributions_of_other_numbers_are_interpolated(step):
    layer, rows = layer_of(step)
    assert set(layer.curves) == {0, 1}
    new, sums = moved(layer, rows)
    away = np.abs(sums - layer.sums(new)) / np.ptp(layer.sums(new))
    assert (away < 5e-3).mean() > 0.98
    assert away.max() < 0.05


def test_contributions_of_bins_jump_where_the_bins_end():
    layer, rows = layer_of(BINS)
    new, sums = moved(layer, rows)
    np.testing.assert_allclose(sums, layer.sums(new), rtol=0, atol=1e-10)


def test_contributions_of_values_beyond_the_range_of_a_column_are_those_of_the_transformer():
    layer, rows = layer_of(PowerTransformer())
    own = np.array([9500.0, 12_000.0])
    rows[:2, 1] = own
    again = FirstLayer.of(layer.model, rows)
    back, there = rows[:2].copy(), again.sums(rows[:2])
    back[:, 1] = 8_000.0
    changed = there + again.change(1, own, back[:, 1])
    np.testing.assert_allclose(changed, again.sums(back), rtol=0, atol=1e-3)


def test_sums_and_contributions_of_a_row_do_not_depend_on_other_rows():
    layer, rows = layer_of(PowerTransformer())
    order, sums = np.random.default_rng(0).permutation(len(rows)), layer.sums(rows)
    np.testing.assert_array_equal(layer.sums(rows[order]), sums[order])
    np.testing.assert_array_equal(layer.sums(rows[5:6]), sums[5:6])
    few, one = FirstLayer.of(layer.model, rows[10:11]), rows[10:11]
    for column, to in ((0, 44.0), (1, 4321.0), (2, 2.0)):
        changes = [each.change(column, one[:, column], np.array([to])) for each in (few, layer)]
        np.testing.assert_array_equal(*changes)
        assert changes[0].any()
