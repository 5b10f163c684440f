"""Measure networks on the rows of a table by estimators that follow gradients.

Overview
--------
A row of a table has numbers, which move by steps, and categories, which are switched as a whole. A gradient only leads
numbers. `OnTable` therefore enumerates promising sets of switches, lets the estimator search the numbers within each,
rounds what it finds to values that the rules of the columns allow, shortens it column by column, and keeps what the
user's own model confirms. All distances are upper bounds. Rows are independent: all counts of the search are per row.

The features of the network are functions of single columns, so the sums of its first layer are sums of one contribution
per column (`fairmargin.models.tables.first_layer`). Contributions are computed once, through the fitted transformers; a
changed row then costs a few additions and the rest of the network.

All constants are fields of `TableSchedule` (in `schedule.py`), written in capitals below. The length of a changed row
is the norm of the costs of its columns. `nearest` is the length of the shortest row found so far.

Pseudo-code
-----------
For one row whose class is to be left::

    # 1. Numbers alone (rays.py), and all columns by the slopes (prices.py).
    ray(no switch)
    L1, L2: PRICE_ROUNDS times: with the slopes at the last row found, let each column take the change that lowers the
        lead most beyond λ times its cost, for PRICES falling prices λ; halve between the last two HALVINGS times

    # 2. Sets of switches (switches.py).
    for size = 1, …, SWITCHES:
        of all sets of this size that extend one of the EXTENDED best of the last size and are shorter than nearest,
            evaluate the LOOKED_AT best by the gradient at the smaller set; a set that leaves the class is a row found
        keep the COMBINATIONS best: those for which length, and what numbers still have to change, are together small

    # 3. Numbers within sets shorter than nearest.
    ray(set)                                               # for every set kept
    the estimator, for the SEARCHED best sets (displaced.py): its samples are displacements of the numbers in units;
        beyond the limits of a column the scores do not change
        round what it finds away from the row; and move from the set in its direction by allowed numbers only

    # 4. If nothing was found: values of references, or of REFERENCES random rows, as the rules allow; from the row and
    #    the DESCENTS best of these, change one column after the other so that the lead falls most (descent.py).

    # 5. Shorten (prices.py, shortening.py).
    step 1 by prices again, with the slopes at the REFINED shortest rows found
    for the REFINED shortest rows, and what the estimator found:
        L∞: move all numbers by the same cost, with the slopes at the row found
        take back changes that are not needed, the longest first; make the change of each number as small as possible,
            first of the number that lowers the lead least for its cost; take back again
    for the shortest, and each number: let it move farther, and all others less

    # 6. Offer the KEPT shortest rows to the original model; if it confirms none, again with numbers that move farther
    #    by STRETCHES.

    ray(set):
        move each single number up and down; in L∞ also all numbers together by the same cost, as the slopes say
        by allowed numbers only: look at RAY_POINTS points up to nearest, then halve HALVINGS times
"""
