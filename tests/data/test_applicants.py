"""The synthetic table of loan applicants."""

import pandas as pd

from fairmargin.data.sets.applicants import make_applicants


def test_the_same_seed_gives_the_same_table_and_another_seed_another() -> None:
    pd.testing.assert_frame_equal(make_applicants(50, seed=1), make_applicants(50, seed=1))
    assert not make_applicants(50, seed=1).equals(make_applicants(50, seed=2))


def test_the_table_has_numbers_text_booleans_and_missing_values() -> None:
    table = make_applicants(400)
    assert {"int64", "float64", "bool"} <= set(map(str, table.dtypes))
    assert pd.api.types.is_string_dtype(table["occupation"])
    assert table["savings"].isna().any()
    assert not table.drop(columns="savings").isna().any().any()


def test_women_are_granted_fewer_loans() -> None:
    shares = make_applicants(4000).groupby("sex")["granted"].apply(lambda column: (column == "yes").mean())
    assert shares["female"] < shares["male"] - 0.1
