"""Ensembles of trees whose nodes ask for sets of categories, and whose nodes share children."""

import numpy as np
import pytest

from fairmargin.errors import ModelError
from fairmargin.models.trees.ensemble import LEAF, Tree, TreeEnsemble, joined


def set_tree(missing_left: bool, sets: list[list[int]], value: float = 1.0) -> Tree:
    """A tree of one node, which asks whether feature 0 is in the first set."""
    return Tree(
        np.array([0, LEAF, LEAF]),
        np.zeros(3),
        np.array([missing_left, False, False]),
        np.array([1, 0, 0]),
        np.array([2, 0, 0]),
        np.array([[0.0, 0.0], [0.0, value], [0.0, -value]]),
        np.array(sets, dtype=bool),
        np.array([0, -1, -1]),
    )


VALUES = np.array([[0.0], [1.0], [2.0], [3.0], [-1.0], [np.nan], [1.7], [np.inf]])


@pytest.mark.parametrize("missing_left", [False, True])
def test_values_of_a_set_go_left_and_others_go_where_missing_values_go(missing_left: bool) -> None:
    ensemble = joined([set_tree(missing_left, [[0, 1, 0]])], np.zeros(2), 0.0)
    other = 1.0 if missing_left else -1.0
    expected = [-1.0, 1.0, -1.0, other, other, other, 1.0, other]
    assert ensemble.scores(VALUES)[:, 1].tolist() == expected
    assert ensemble.decisions(VALUES).tolist() == [int(each > 0) for each in expected]


def test_trees_with_sets_of_different_width_keep_their_decisions() -> None:
    trees = [set_tree(True, [[0]]), set_tree(False, [[0, 1, 0, 1]], 10.0), set_tree(True, [[1, 0]], 100.0)]
    parts = [joined([tree], np.zeros(2), 0.0).scores(VALUES) for tree in trees]
    np.testing.assert_array_equal(joined(trees, np.zeros(2), 0.0).scores(VALUES), sum(parts))


def test_sets_are_part_of_the_fingerprint() -> None:
    one, other = (joined([set_tree(False, [sets])], np.zeros(2), 0.0) for sets in ([0, 1], [1, 0]))
    assert one.fingerprint() != other.fingerprint()
    assert one.fingerprint() == joined([set_tree(False, [[0, 1]])], np.zeros(2), 0.0).fingerprint()


def test_thresholds_leave_out_nodes_with_sets() -> None:
    assert joined([set_tree(False, [[0, 1]])], np.zeros(2), 0.0).thresholds(1)[0].tolist() == []


def test_a_set_that_does_not_exist_is_refused() -> None:
    tree = set_tree(False, [[0, 1]])
    with pytest.raises(ModelError, match="name sets of categories, but there are 0"):
        TreeEnsemble(
            tree.feature,
            tree.first_right,
            tree.missing_left,
            tree.left,
            tree.right,
            tree.value,
            np.array([0]),
            np.zeros(2),
            0.0,
            set_of=tree.set_of,
        )


def test_nodes_may_share_children_in_any_order() -> None:
    # 1 ≤ x < 2 goes to one leaf, and all other numbers to another one.
    tree = Tree(
        np.array([0, LEAF, LEAF, 0, LEAF]),
        np.array([1.0, 0.0, 0.0, 2.0, 0.0]),
        np.zeros(5, dtype=bool),
        np.array([2, 0, 0, 1, 0]),
        np.array([3, 0, 0, 2, 0]),
        np.array([[0.0, 0.0], [0.0, 1.0], [0.0, -1.0], [0.0, 0.0], [0.0, 9.0]]),
    )
    ensemble = joined([tree, tree], np.zeros(2), 0.0)
    assert len(ensemble.feature) == 8  # without the leaf that is not reached
    assert ensemble.scores(np.array([[0.0], [1.0], [1.9], [2.0]]))[:, 1].tolist() == [-2.0, 2.0, 2.0, -2.0]


def test_ties_and_leads_decide_as_in_the_library() -> None:
    leaf = Tree(np.array([LEAF]), *[np.zeros(1)] * 2, *[np.zeros(1, dtype=int)] * 2, np.array([[1.0, 1.0, 1.1]]))
    rows = np.zeros((1, 1))
    assert joined([leaf], np.zeros(3), 0.0).decisions(rows).tolist() == [2]
    assert joined([leaf], np.zeros(3), 0.0, lead=0.2).decisions(rows).tolist() == [0]
    assert joined([leaf], np.array([0.0, 0.0, -1.0]), 0.0, last_wins_ties=True).decisions(rows).tolist() == [1]
