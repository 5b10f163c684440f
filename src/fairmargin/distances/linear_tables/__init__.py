"""Exact distances of a linear model on raw table rows, by branch and bound.

The score of a class is a sum of one contribution per column (`models/tables/additive.py`). For a given row and rival, a
change of one column has a cost, and a gain: what it adds to the rival's lead. The rival wins once the gains add up to
the row's margin. Options of a column that cost more and gain no more than another one are left out; the rest are

- for a number with an affine contribution, the values in one direction that its rules allow (a range, multiples of a
  step, listed values, or a range with a gap), whose gain is proportional to their cost;
- for a category or a number with another contribution, a list.

In L∞ each column takes its best option within a radius, and the smallest radius is found by bisection. In L1 and L2::

    nodes = [all options of all columns]
    while nodes:
        node = nodes.pop()
        replace the options of each column by their concave envelope, and take the cheapest changes with enough gain:
        in L1 the pieces with the largest gain per cost; in L2 each column as far as one common factor says
        discard the node if this costs as much as the best solution, or if the gains cannot add up to the margin
        if every column is at one of its options: this is the best solution so far
        else: raise columns to their next options, which is a solution; split the node at a column between two options
"""
