"""Whether pandas objects that are paired by position list the same rows in the same order."""

from typing import Any

import pandas as pd

from fairmargin.errors import InputError


def check_same_order(first: Any, second: Any, first_name: str, second_name: str) -> None:
    """Refuse two pandas objects whose indexes hold the same labels in different orders; others pair by position.

    Labels that differ are not refused: after `reset_index`, rows are numbered anew and keep their order.

    >>> ages = pd.Series([31, 54], index=["ann", "bob"])
    >>> check_same_order(ages, ages.iloc[::-1], "X", "groups")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    fairmargin.errors.InputError: `groups` has the index labels of `X` in another order, ...
    """
    if not isinstance(first, pd.Series | pd.DataFrame) or not isinstance(second, pd.Series | pd.DataFrame):
        return
    ours, theirs = first.index, second.index
    if len(ours) != len(theirs) or ours.equals(theirs) or not (ours.is_unique and theirs.is_unique):
        return
    if set(ours) == set(theirs):
        raise InputError(
            f"has the index labels of `{first_name}` in another order, and rows are paired by position. Give "
            f"`{second_name}.loc[{first_name}.index]`, or `{second_name}.to_numpy()` if the positions are right",
            field=second_name,
        )
