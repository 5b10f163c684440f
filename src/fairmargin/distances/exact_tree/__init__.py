"""Exact distances of tree ensembles by branch and bound.

The thresholds of a feature cut its values into cells, in which no tree changes its answer. For a given row, the cost of
a cell is the distance from the row's value to the nearest admissible value of the cell. A point is a choice of one cell
per feature, and its distance is the norm of their costs. The search works on boxes, which are one interval of cells per
feature::

    for radius = smallest cost, × 1.5, … until a point is found or all cells are included:
        boxes = [all cells with cost ≤ radius]
        while boxes:
            box = boxes.pop()
            discard the box if the distance of its nearest point is not below the best one found
            remove cells of the box that would make the distance too large
            discard the box if Σ over trees (largest margin of a reachable leaf) does not let the rival win
            if the rival wins at the nearest point of the box: this is the best point so far
            else: split the box at the first undecided split of the tree with the largest difference between that
                  margin and its margin at the nearest point
"""
