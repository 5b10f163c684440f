"""A model that knows the names of its features gets the columns of tables in its own order."""

import numpy as np
import pandas as pd
import pyarrow
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import fairmargin as fm
from fairmargin.errors import InputError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.linear import LinearClassifier

NAMES = ["age", "income", "hours", "score"]
SHUFFLED = ["score", "age", "hours", "income"]
TABLE = pd.DataFrame(np.random.default_rng(0).normal(size=(90, 4)), columns=NAMES)
Y = (TABLE["age"] - 2 * TABLE["income"] + 0.3 * TABLE["hours"] > 0).astype(int).to_numpy()
MODEL = make_pipeline(StandardScaler(), LogisticRegression()).fit(TABLE, Y)
GROUPS = fm.Partition.by("y", Y)
EXACT = fm.ESTIMATORS["exact_linear"]()
PGD = fm.ATTACKS["pgd"](steps=3)


class Frame:
    """A frame like that of polars: columns by name, rows by slices, `select` instead of brackets."""

    def __init__(self, table):
        self.table, self.columns, self.shape = table, list(table.columns), table.shape

    def __len__(self):
        return len(self.table)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        return Frame(self.table.iloc[rows])

    def select(self, names):
        return Frame(self.table[names])

    def __array__(self, dtype=None, copy=None):
        return self.table.to_numpy(dtype)


def arrow_table(names):
    return pyarrow.table({name: TABLE[name].to_numpy() for name in names})


FRAMES = {"polars": lambda names: Frame(TABLE[names]), "pyarrow": arrow_table}


def uses_of(x, references=None):
    """Return the uses of samples in the Python interface, by name; each returns plain values."""
    plan = fm.PrecisionPlan(precision=0.5, reference=fm.ESTIMATORS["plumb"](steps=12))
    model = as_classifier(MODEL)
    return {
        "predict": lambda: model.predict(x),
        "scores": lambda: model.scores(x),
        "measure": lambda: fm.measure(MODEL, x, Y, EXACT).values,
        "search": lambda: fm.measure(MODEL, x, Y, plan.reference, references=references).values,
        "robust_accuracy": lambda: [row.withstood for row in fm.robust_accuracy(MODEL, x, Y, PGD, GROUPS, radius=0.3)],
        "attack": lambda: PGD(MODEL, x, Y, radius=0.3, keys=np.arange(90, dtype=np.uint64)),
        "precision": lambda: [r.robustness.value for r in fm.audit_to_precision(MODEL, x, Y, GROUPS, plan)],
        "adequacy": lambda: fm.adequacy(MODEL, x, Y, GROUPS, plan.reference).to_frame()["mean"],
    }


@pytest.mark.parametrize("use", list(uses_of(TABLE)))
def test_columns_in_another_order_are_put_in_the_order_of_the_model(use):
    given = uses_of(TABLE[SHUFFLED], TABLE[SHUFFLED])[use]()
    np.testing.assert_array_equal(given, uses_of(TABLE.to_numpy(), TABLE.to_numpy())[use]())


@pytest.mark.parametrize("use", ["predict", "measure", "search", "robust_accuracy"])
@pytest.mark.parametrize("kind", FRAMES)
def test_frames_of_other_packages_are_put_in_the_model_s_order_too(kind, use):
    given = uses_of(FRAMES[kind](SHUFFLED), FRAMES[kind](SHUFFLED))[use]()
    np.testing.assert_array_equal(given, uses_of(TABLE.to_numpy(), TABLE.to_numpy())[use]())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="hours"), r"Missing: hours\."),
        (lambda t: t.assign(label=1.0), r"Unknown to the model: label\."),
        (lambda t: t.rename(columns={"age": "Age"}), r"Missing: age\. Unknown to the model: Age\."),
        (lambda t: pd.concat([t, t[["age"]]], axis=1), r"Given more than once: age\."),
        (lambda t: t.set_axis([("a", i) for i in range(4)], axis=1), r"Missing: age, income, hours, score\."),
    ],
)
@pytest.mark.parametrize("use", ["predict", "measure", "search", "robust_accuracy", "precision", "adequacy"])
def test_other_columns_are_refused_by_name(change, words, use):
    with pytest.raises(InputError, match=words):
        uses_of(change(TABLE))[use]()
    if use == "search":
        with pytest.raises(InputError, match=rf"`references`.*{words}"):
            uses_of(TABLE, change(TABLE))[use]()


def test_columns_are_taken_in_order_if_the_frame_or_the_model_has_no_names():
    expected = MODEL.predict(TABLE).tolist()
    assert as_classifier(MODEL).predict(pd.DataFrame(TABLE.to_numpy())).tolist() == expected
    unnamed = as_classifier(make_pipeline(StandardScaler(), LogisticRegression()).fit(TABLE.to_numpy(), Y))
    assert unnamed.predict(TABLE).tolist() == expected


def test_a_linear_classifier_may_have_names_even_of_equal_spelling():
    model = LinearClassifier([[0.0, 0.0], [1.0, -1.0]], [0.0, 0.0], feature_names=("a", "b"))
    assert model.predict(pd.DataFrame({"b": [0.0, 2.0], "a": [1.0, 1.0]})).tolist() == [1, 0]
    model = LinearClassifier([[0.0, 0.0], [1.0, -1.0]], [0.0, 0.0], feature_names=("a=b", "a_b"))
    with pytest.raises(InputError, match=r"Missing: a_b\."):  # one column is not two features
        model.predict(pd.DataFrame({"a=b": [1.0, 2.0]}))


def test_numbers_for_each_feature_and_columns_in_another_order_are_refused():
    model = as_classifier(MODEL, domain=fm.Domain(scale=TABLE[SHUFFLED].std()))
    with pytest.raises(InputError, match=r"order of the domain's numbers is not known.*x\[\['age', 'income'"):
        fm.measure(model, TABLE[SHUFFLED], Y, EXACT)
    assert len(fm.measure(model, TABLE, Y, EXACT)) == 90


def test_the_nearest_points_are_those_of_the_table_in_the_model_s_order():
    model, keys = as_classifier(MODEL), np.arange(90, dtype=np.uint64)
    np.testing.assert_array_equal(EXACT.closest(model, TABLE[SHUFFLED], Y), EXACT.closest(model, TABLE.to_numpy(), Y))
    found = EXACT(model, TABLE[SHUFFLED], Y, keys=keys).values
    np.testing.assert_array_equal(found, EXACT(model, TABLE.to_numpy(), Y, keys=keys).values)
