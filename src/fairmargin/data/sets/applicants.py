"""A synthetic table of loan applicants, with numbers, categories, booleans and missing values."""

import numpy as np
import pandas as pd

from fairmargin.errors import InputError

_OCCUPATIONS = ("care", "craft", "office", "sales", "technology")
_SALARIES = (31.0, 36.0, 42.0, 39.0, 58.0)  # mean income of an occupation, in thousands
_EDUCATIONS = ("school", "apprenticeship", "bachelor", "master")


def make_applicants(rows: int = 1000, seed: int = 0) -> pd.DataFrame:
    """Return a table of invented loan applicants.

    In this table women earn less than men on average, so that those who are granted a loan lie closer to the decision
    boundary of a model that looks at incomes. Nobody in the table exists.

    Parameters
    ----------
    rows
        Number of applicants.
    seed
        The same seed gives the same table.

    Returns
    -------
    pandas.DataFrame
        The columns age, sex, occupation, education, income and savings (in dollars; some savings are missing), debts,
        employed_years, owns_home, and the label granted, "yes" or "no".

    >>> make_applicants(3)[["age", "sex", "occupation", "granted"]]
       age     sex occupation granted
    0   20  female      craft      no
    1   23    male      sales     yes
    2   23    male     office     yes
    """
    if isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1:
        raise InputError("must be a whole number, 1 or more", field="rows", given=rows)
    random = np.random.RandomState(seed)  # not Generator: numpy promises that its stream never changes
    sex = random.randint(0, 2, rows)
    age = random.randint(20, 66, rows)
    occupation = random.randint(0, len(_OCCUPATIONS), rows)
    education = random.randint(0, len(_EDUCATIONS), rows)
    employed = np.minimum(random.poisson(6, rows), age - 18)
    noise = random.normal(size=(3, rows))
    income = np.asarray(_SALARIES)[occupation] + 4 * education + 0.4 * employed + 6 * sex + 7 * noise[0]
    savings = np.maximum(0.0, 0.5 * (age - 20) + 8 * noise[1])
    debts = random.poisson(1.5, rows)
    owns_home = random.uniform(size=rows) < (age - 15) / 80
    score = 0.09 * (income - 45) + 0.05 * (savings - 11) - 0.5 * (debts - 1.5) + 0.6 * (owns_home - 0.4)
    granted = score + 0.25 * noise[2] > 0
    table = pd.DataFrame(
        {
            "age": age,
            "sex": np.where(sex == 1, "male", "female"),
            "occupation": np.asarray(_OCCUPATIONS)[occupation],
            "education": np.asarray(_EDUCATIONS)[education],
            "income": 100 * np.rint(10 * np.maximum(income, 12)).astype(np.int64),
            "savings": 100.0 * np.rint(10 * savings),
            "debts": debts,
            "employed_years": employed,
            "owns_home": owns_home,
            "granted": np.where(granted, "yes", "no"),
        }
    )
    table.loc[random.uniform(size=rows) < 0.05, "savings"] = np.nan
    return table
