"""A small synthetic table, and checks of classifiers that were read from models of such tables."""

import numpy as np
import pandas as pd

from fairmargin.models.tables.classifier import LinearHead, TableClassifier
from fairmargin.models.tables.features import SEVERAL
from fairmargin.models.tables.reading import read_table_model
from fairmargin.models.trees.ensemble import TreeEnsemble

JOBS = ("cook", "guard", "nurse", "sales", "tech")


def people(rows=240, seed=0, missing=False):
    """Return a table with numbers, categories and booleans, and two classes of text."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(17, 80, rows),
            "gain": np.where(rng.random(rows) < 0.6, 0.0, rng.integers(100, 9000, rows) / 4),
            "job": rng.choice(JOBS, rows, p=[0.3, 0.03, 0.27, 0.2, 0.2]),
            "member": rng.random(rows) < 0.5,
            "height": rng.normal(1.7, 0.1, rows),
            "grade": rng.choice([1, 2, 3, 7], rows),
        }
    )
    score = frame["age"] / 20 + (frame["job"] == "tech") * 2 + frame["gain"] / 800 + frame["member"]
    y = np.where(score + rng.normal(size=rows) > score.median(), "rich", "poor")
    if missing:
        for name in ("gain", "height", "job"):
            frame[name] = frame[name].mask(rng.random(rows) < 0.1)
    return frame, y


def decided(head, features):
    """Return the positions of the classes that the last step chooses by its features."""
    if isinstance(head, LinearHead):
        return (features @ head.weight.T + head.bias).argmax(axis=1)
    scores = head.scores(features)
    if not isinstance(head, TreeEnsemble):
        return scores.argmax(axis=1)
    scores = scores / head.divisor
    best = np.zeros(len(scores), dtype=int)
    for place in range(1, scores.shape[1]):
        lead = scores[:, place] - scores[np.arange(len(scores)), best]
        best = np.where((lead > head.lead) | ((lead == 0) & head.last_wins_ties), place, best)
    return best


def check(model, x, training_data=None, *, rules=None, ties=0, claims=True):
    """Check predictions, the decisions of the last step, and what is claimed about its features.

    Parameters
    ----------
    model
        A fitted model.
    x
        Rows that it accepts.
    training_data
        Rows from which rules are taken; `x` if omitted.
    rules
        Rules of columns.
    ties
        Number of rows in which the last step may decide differently because of rounding.
    claims
        Whether to check what is claimed about features too.
    """
    classifier = read_table_model(model, rules, training_data=x if training_data is None else training_data, data=x)
    rows = classifier.encode(x)
    expected = pd.Index(classifier.classes).get_indexer(np.asarray(model.predict(x)).tolist())
    assert (classifier.predict(rows) == expected).all()
    features = classifier.features_map.transform(rows)
    assert (decided(classifier.head, features) != expected).sum() <= ties
    if claims:
        check_features(classifier, rows)
    return classifier


def check_features(classifier: TableClassifier, rows):
    """Check that features depend on their own column only, and as it is claimed, by changing one value at a time."""
    features, columns = classifier.features_map, classifier.coding.columns
    precision = 1e-12 if all(layout.dtype != np.float32 for layout in classifier.coding.layouts) else 1e-6
    base = rows[np.isnan(rows).sum(axis=1).argsort(kind="stable")[:2]]
    tried = []
    for place in range(len(columns)):
        values = _values(classifier, place, rows[:, place])
        for row in base:
            changed = np.repeat(row[None], len(values), axis=0)
            changed[:, place] = values
            # Fractions in a column of integers turn all numbers to double precision.
            tried.append((place, row, changed[classifier.coding.alike(changed)[0]]))
    every = features.transform(np.concatenate([base, *(changed for _, _, changed in tried)]))
    before = {row.tobytes(): found for row, found in zip(base, every, strict=False)}
    limits = len(base) + np.cumsum([len(changed) for _, _, changed in tried])[:-1]
    for (place, row, changed), found in zip(tried, np.split(every[len(base) :], limits - len(base)), strict=True):
        own = features.features_of(place)
        others = np.setdiff1d(np.flatnonzero(features.source != SEVERAL), own)
        expected = np.repeat(before[row.tobytes()][None, others], len(changed), axis=0)
        np.testing.assert_array_equal(found[:, others], expected)
        if columns[place].is_number:
            for feature in own:
                _check_shape(features, feature, changed[:, place], found[:, feature], precision)


def _values(classifier, place, observed):
    column = classifier.coding.columns[place]
    if not column.is_number:
        return np.append(np.arange(len(column.categories) + 1), np.nan)
    low, high = max(column.low, -1e6), min(column.high, 1e6)
    breaks = [classifier.features_map.breaks[feature] for feature in classifier.features_map.features_of(place)]
    joints = np.concatenate([*breaks, [low]])
    some = [joints, np.nextafter(joints, -np.inf), np.linspace(low, high, 60), observed[~np.isnan(observed)][:40]]
    return np.unique(np.concatenate(some))


def _check_shape(features, feature, numbers, found, precision):
    kept = ~np.isnan(found)
    numbers, found = numbers[kept], found[kept]
    steps, shape = np.diff(found), features.shape[feature]
    slack = precision * max(1.0, np.abs(found).max())  # transformers that are not affine round
    if shape == "rising":
        assert (steps >= -slack).all()
    elif shape == "falling":
        assert (steps <= slack).all()
    else:
        piece = np.searchsorted(features.breaks[feature], numbers, side="right")
        assert (steps[np.diff(piece) == 0] == 0).all()
    if features.affine[feature] and len(numbers) > 2:
        slope = (found[-1] - found[0]) / (numbers[-1] - numbers[0])
        np.testing.assert_allclose(
            found, found[0] + slope * (numbers - numbers[0]), rtol=1e3 * precision, atol=1e3 * precision
        )
