"""Exact distances of tree ensembles, on features or on the columns of a table, by branch and bound.

The thresholds of a number cut its values into *cells*, in which no tree changes its answer; a cell of a category is one
of its values. For a given row, the *atom* of a cell is the admissible value in it that costs least, by all rules of the
column. A point is a choice of one atom per column, and its distance is the norm of their costs. A *box* is an interval
of atoms per number and a set of atoms per category; its nearest point has the cheapest atom of each column.

The *reach* of a box in a tree are the leaves on whose paths each column has an atom of the box left, and whose steps
aside together cost less than the best distance. The sum over trees of the largest margin in reach, which is that of a
rival class over the row's own class, is an upper bound of the margin in the box::

    radius = largest cost at which the bound of the box of all atoms up to that cost does not let the rival win
    until a point is found or all atoms are included:
        radius = next cost (step by step further in L∞; at least 1.3 times as far in L1 and L2)
        boxes = [all atoms with cost ≤ radius, and the part of each tree in its reach]
        while boxes:
            box = boxes.pop()
            cut what the box does not reach from the trees of the larger box that it was split from
            split the box at the root of the tree that stands to lose most
            for each half:
                remove atoms that would make the distance of a point too large
                discard the half if the distance of its nearest point is not below the best one
                discard the half if its bound does not let the rival win
                if the library decides for another class at the nearest point: this is the best point so far
                else: boxes.push(half), the one with the larger bound last

Trees are cut in memory that boxes share: a part of a tree that does not ask for the column that was split is kept as it
is. A row that exceeds its budget of boxes gets the largest lower and the smallest upper bound that are known, the last
tenth of the budget being spent on finding any point at all.
"""
