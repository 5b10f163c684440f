"""The nearest rows that leave a set of several classes: the rival must lead all of them at once.

Leading one of the classes is necessary, so the largest of these distances is a lower bound, and the nearest row for
that class is often past the others, too. Otherwise a branch and bound follows, whose relaxations are linear programs:
numbers may take any value between two limits, and lists any mixture of their values. In L2, squares are bounded from
below by tangents, which are added until they are as large as the squares.
"""

import heapq
import itertools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.norm import Norm
from fairmargin.distances.linear_tables.curves import grids_of
from fairmargin.distances.linear_tables.solver import Search
from fairmargin.distances.linear_tables.values import lengths, neighbours, settled
from fairmargin.errors import FairmarginError, ModelError
from fairmargin.models.tables.additive import ROUNDING, Curve, Line
from fairmargin.models.tables.classifier import TableClassifier

NODES = 1000
"""Maximum number of nodes that are examined per row and rival."""
_CLOSE = 1e-10  # relative difference at which tangents are as large as squares; tolerance of the programs
_AHEAD = 1e-9  # lead of a rival, relative to the size of scores, where programs miss it by rounding
_TANGENTS = 40  # maximum number of programs of one node


def leaving_several(
    model: TableClassifier, rows: Floats, kept: tuple[int, ...], norm: Norm
) -> tuple[Floats, Floats, Floats]:
    """Return distances, lower bounds and rows found, for rows whose class is one of those to keep."""
    values, lower, points = np.full(len(rows), np.inf), np.full(len(rows), np.inf), np.full(rows.shape, np.nan)
    rivals = [place for place in range(len(model.classes)) if place not in kept]
    bounds = np.zeros((len(rivals), len(rows)))
    for rank, rival in enumerate(rivals):
        bounds[rank], found = _past_the_hardest(model, rows, kept, rival, norm)
        reached = np.flatnonzero(~np.isnan(found).all(axis=1))
        reached = reached[~np.isin(model.predict(found[reached]), kept)]
        costs = lengths(model.coding.columns, norm, rows[reached], found[reached])
        better = costs < values[reached]
        values[reached[better]], points[reached[better]] = costs[better], found[reached[better]]
    for i in range(len(rows)):
        least = np.inf
        for rank in np.argsort(bounds[:, i], kind="stable"):
            bound = bounds[rank, i]
            if bound < values[i] * (1 - _CLOSE):
                further, value, point = _Problem.of(model, rows[i], kept, rivals[rank], norm).solved(values[i])
                bound = max(bound, further)
                if value < values[i]:
                    values[i], points[i] = value, point
            least = min(least, bound)
        lower[i] = values[i] if least >= values[i] * (1 - 10 * _AHEAD) - _AHEAD else min(least, values[i])
    return values, lower, points


def _past_the_hardest(
    model: TableClassifier, rows: Floats, kept: tuple[int, ...], rival: int, norm: Norm
) -> tuple[Floats, Floats]:
    """Return the largest of the distances at which a rival leads single classes to keep, and the row found there."""
    bounds, points = np.full(len(rows), -1.0), np.full(rows.shape, np.nan)
    for own in kept:
        pair = model.additive.of_classes([own, rival])
        search = Search.of(pair, rows, np.zeros(len(rows), dtype=np.int64), norm)
        found, _, cost = search.nearest(1.0)
        _, least, _ = search.nearest(-pair.rounding / ROUNDING)
        reached, harder = np.isfinite(cost), least > bounds
        found[reached] = settled(model.coding.columns, rows[reached], found[reached])
        found[~reached] = np.nan
        bounds[harder], points[harder] = least[harder], found[harder]
    return bounds, points


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """What one column can do: values between two limits, or listed values.

    Parameters
    ----------
    column
        Position of the column.
    values, costs, gains
        Listed values, what they cost, and their gains over each class to keep; for a number with an affine contribution
        its limits, (), and the gain of a change by 1.
    is_line
        Whether it is such a number.
    """

    column: int
    values: Floats
    costs: Floats
    gains: Floats
    is_line: bool


@dataclass(frozen=True, slots=True)
class _Node:
    """Limits of lines, and the values of lists that are left, of each column."""

    parts: tuple[Floats | Bools, ...]


@dataclass(slots=True)
class _Problem:
    """The nearest row at which one rival leads all classes to keep."""

    model: TableClassifier
    row: Floats
    kept: tuple[int, ...]
    norm: Norm
    choices: tuple[_Choice, ...]
    needed: Floats
    size: float
    tangents: list[Floats] = field(default_factory=list)

    @classmethod
    def of(cls, model: TableClassifier, row: Floats, kept: tuple[int, ...], rival: int, norm: Norm) -> "_Problem":
        """Return the problem of one row."""
        additive = model.additive
        terms = additive.contributions(row[None])
        scores, size = terms[0].sum(axis=0) + additive.start, float(additive.sizes(terms)[0])
        choices = []
        for place, (column, part) in enumerate(zip(model.coding.columns, additive.parts, strict=True)):
            value = row[place]
            if column.immutable or np.isnan(value):
                continue
            if isinstance(part, Line):
                ends = [neighbours(column, value, end)[side] for side, end in ((1, -np.inf), (0, np.inf))]
                limits = [column.low if np.isneginf(ends[0]) else ends[0], ends[1]]
                slope = part.slope[rival] - part.slope[list(kept)]
                choices.append(_Choice(place, np.array(limits), np.empty(0), slope, True))
                continue
            if isinstance(part, Curve):
                (grid,) = grids_of(additive, [place], row[None])[place]
                if grid.between.any():
                    raise ModelError(
                        f"`exact_linear` cannot keep several classes if column {column.name!r}, which enters the model "
                        "by a function that is not affine, may take so many values. Give it a larger `step`."
                    )
                values = grid.values
            else:
                values = np.flatnonzero(np.isfinite(part.scores).all(axis=1)).astype(np.float64)
            values = np.unique(np.append(values, value))
            values = values[column.allows(np.full(len(values), value), values)]
            each = additive.at({place: values})[place] - terms[0, place]
            gains = each[:, [rival]] - each[:, list(kept)]
            choices.append(_Choice(place, values, column.cost_of(np.full(len(values), value), values), gains, False))
        return cls(model, row, kept, norm, tuple(choices), scores[list(kept)] - scores[rival], size)

    def solved(self, best: float) -> tuple[float, float, Floats]:
        """Return a lower bound of the distance, the distance of the row found, below `best` if finite, and the row."""
        point, found, least = self.row, np.inf, np.inf
        first = _Node(tuple(each.values if each.is_line else np.ones(len(each.values), bool) for each in self.choices))
        counter = itertools.count()
        waiting = [(0.0, next(counter), first)]
        for _ in range(NODES):
            if not waiting:
                break
            bound, _, node = heapq.heappop(waiting)
            if bound >= best * (1 - _CLOSE):
                return min(least, bound, best), found, point
            bound, solution = self._relaxed(node, 0.0)
            if solution is None or bound >= best * (1 - _CLOSE):
                continue
            tried = [self._rounded(solution)]
            split = self._split(node, solution)
            if split is None:  # all columns take one of their values
                again = self._relaxed(node, _AHEAD * self.size)[1]
                tried += [] if again is None else [self._rounded(again)]
            value = np.inf
            for each in tried:
                length = float(lengths(self.model.coding.columns, self.norm, self.row[None], each[None])[0])
                if length < min(best, value) and self.model.predict(each[None])[0] not in self.kept:
                    point, value = each, length
            if value < best:
                best = found = value
            if split is None:
                if value <= bound * (1 + 10 * _AHEAD) + _AHEAD:
                    least = min(least, bound)
                    continue
                split = self._apart(node, solution)
            for part in split:
                heapq.heappush(waiting, (bound, next(counter), part))
        return min([least, best, *(bound for bound, *_ in waiting)]), found, point

    def _relaxed(self, node: _Node, ahead: float) -> tuple[float, list[Floats] | None]:
        """Return a lower bound of the length in a node, and what the columns do in the relaxation.

        Of a line it is the value, of a list the share of each value.
        """
        from scipy import sparse
        from scipy.optimize import linprog

        lows, highs, prices, gains, owner = [], [], [], [], []
        for j, (choice, part) in enumerate(zip(self.choices, node.parts, strict=True)):
            if choice.is_line:
                change = (part - self.row[choice.column]) / (unit := self.model.coding.columns[choice.column].unit)
                lows += [max(change[0], 0.0), max(-change[1], 0.0)]
                highs += [max(change[1], 0.0), max(-change[0], 0.0)]
                prices += [1.0, 1.0]
                gains += [choice.gains * unit, -choice.gains * unit]
                owner += [j, j]
            else:
                lows += [0.0] * len(choice.values)
                highs += list(part.astype(np.float64))
                prices += list(choice.costs)
                gains += list(choice.gains)
                owner += [j] * len(choice.values)
        count, columns = len(lows), len(self.choices)
        if not count:
            return np.inf, None
        scale = np.abs(np.array(gains)).max(initial=0.0, where=np.isfinite(gains)) or 1.0
        spends = sparse.csr_array((prices, (owner, range(count))), shape=(columns, count))
        lead = sparse.csr_array(-np.array(gains).T / scale)
        needed = -(self.needed + ahead) / scale
        lists = [j for j, each in enumerate(self.choices) if not each.is_line]
        shares = sparse.csr_array((np.ones(count), (owner, range(count))), shape=(columns, count))[lists]
        extra = {Norm.L1: 0, Norm.LINF: 1, Norm.L2: columns}[self.norm]
        none = sparse.csr_array((len(needed), extra))
        cost: Any = np.concatenate([prices if self.norm is Norm.L1 else np.zeros(count), np.ones(extra)])
        bounds: Any = np.stack([[*lows, *[0.0] * extra], [*highs, *[np.inf] * extra]], axis=1)
        one: Any = sparse.hstack([shares, sparse.csr_array((len(lists), extra))]) if lists else None
        exactly: Any = {"primal_feasibility_tolerance": _CLOSE, "dual_feasibility_tolerance": _CLOSE}
        for _ in range(_TANGENTS):
            rows: list[Any] = [sparse.hstack([lead, none])]
            limits: list[Any] = [needed]
            if self.norm is Norm.LINF:
                rows.append(sparse.hstack([spends, sparse.csr_array(-np.ones((columns, 1)))]))
                limits.append(np.zeros(columns))
            if self.norm is Norm.L2:
                for at in self.tangents:  # t² ≥ 2 · at · t − at²
                    terms: list[Any] = [sparse.diags_array(2 * at) @ spends, -sparse.eye_array(columns)]
                    rows.append(sparse.hstack(terms))
                    limits.append(at**2)
            answer: Any = linprog(
                cost,
                A_ub=sparse.vstack(rows),
                b_ub=np.concatenate(limits),
                A_eq=one,
                b_eq=None if one is None else np.ones(len(lists)),
                bounds=bounds,
                method="highs-ds",
                options=exactly,
            )
            if answer.status == 2:
                return np.inf, None
            if answer.status != 0:
                raise FairmarginError(f"The linear program of a distance was not solved ({answer.message}).")
            taken = answer.x[:count]
            spent = spends @ taken
            if self.norm is not Norm.L2 or (spent**2).sum() <= answer.fun * (1 + _CLOSE) + _CLOSE**2:
                break
            self.tangents.append(spent)
        bound = float(np.sqrt(max(answer.fun, 0.0)) if self.norm is Norm.L2 else answer.fun)
        return bound * (1 - _CLOSE), self._taken(taken)

    def _taken(self, taken: Floats) -> list[Floats]:
        """Return what the columns do from the variables of a program."""
        found, begin = [], 0
        for choice in self.choices:
            size = 2 if choice.is_line else len(choice.values)
            part = taken[begin : begin + size]
            if choice.is_line:
                unit = self.model.coding.columns[choice.column].unit
                part = np.array([self.row[choice.column] + (part[0] - part[1]) * unit])
            found.append(part)
            begin += size
        return found

    def _rounded(self, solution: list[Floats]) -> Floats:
        """Return the row with the values that are nearest to a relaxation, those farther from the row first."""
        point = self.row.copy()
        for choice, part in zip(self.choices, solution, strict=True):
            column, value = self.model.coding.columns[choice.column], self.row[choice.column]
            if not choice.is_line:
                point[choice.column] = choice.values[int(part.argmax())]
                continue
            below, above = neighbours(column, value, float(part[0]))
            near = min((below, above), key=lambda each: abs(each - part[0]))
            far = above if part[0] > value else below
            is_near = abs(near - part[0]) <= 1e-7 * column.unit
            point[choice.column] = near if is_near or not np.isfinite(far) else far
        return point

    def _split(self, node: _Node, solution: list[Floats]) -> list[_Node] | None:
        """Return two parts of a node, split at the column that is farthest from its values; None if all are at one."""
        widest, width, parts = -1, 1e-7, []
        for j, (choice, part) in enumerate(zip(self.choices, solution, strict=True)):
            column, value = self.model.coding.columns[choice.column], self.row[choice.column]
            if choice.is_line:
                below, above = neighbours(column, value, float(part[0]))
                apart = min(part[0] - below, above - part[0]) / column.unit
                sides: list[Floats | Bools] = [
                    np.array([node.parts[j][0], below]),
                    np.array([above, node.parts[j][1]]),
                ]
            else:
                apart = float(1 - part.max())
                largest = np.arange(len(part)) == part.argmax()
                sides = [np.asarray(largest & node.parts[j]), np.asarray(~largest & node.parts[j])]
            if apart > width:
                widest, width, parts = j, apart, sides
        return None if widest < 0 else self._halves(node, widest, parts)

    def _apart(self, node: _Node, solution: list[Floats]) -> list[_Node]:
        """Return the parts of a node without a solution in which all columns take one of their values."""
        for j, (choice, part) in enumerate(zip(self.choices, solution, strict=True)):
            column, value = self.model.coding.columns[choice.column], self.row[choice.column]
            if not choice.is_line:
                largest = np.arange(len(part)) == part.argmax()
                if (node.parts[j] & ~largest).any():
                    sides = [np.asarray(largest & node.parts[j]), np.asarray(~largest & node.parts[j])]
                    return self._halves(node, j, sides)
                continue
            here = min(neighbours(column, value, float(part[0])), key=lambda each: abs(each - part[0]))
            low, high = node.parts[j]
            least = 1e-6 * (column.step or column.unit)
            below, above = neighbours(column, value, here - least)[0], neighbours(column, value, here + least)[1]
            if high > low and (column.step or column.allowed is not None):
                sides = [np.array([low, below]), np.array([here, here]), np.array([above, high])]
                return self._halves(node, j, sides)
        return []

    def _halves(self, node: _Node, place: int, sides: list[Floats | Bools]) -> list[_Node]:
        """Return parts of a node with other limits or values of one column, without empty ones."""
        kept = []
        for side in sides:
            empty = side[0] > side[1] if self.choices[place].is_line else not side.any()
            if not empty:
                kept.append(_Node((*node.parts[:place], side, *node.parts[place + 1 :])))
        return kept
