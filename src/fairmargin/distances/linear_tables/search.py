"""Branch and bound over the options of columns, compiled by numba. The package's docstring is its pseudo-code.

All compiled functions are in one file, because numba keeps machine code until the file of a function changes.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from numba import njit

from fairmargin.core.arrays import Bools, Floats, Ints

Function = TypeVar("Function", bound=Callable[..., Any])

LINF, L1, L2 = 0, 1, 2
FIXED, LINE, SWITCH, LIST = 0, 1, 2, 3
"""Kinds of columns: one that keeps its value, a number with an affine contribution, a category without an order, and
values with an order and a list of contributions."""

_ON_GRID, _LARGEST = 1e-9, 1e-2  # parts of a step that count as rounding, at least and at most
_ALMOST = 1e-12  # relative difference that is rounding
_UNCHOSEN = 1e-6  # slope of a number that was not chosen, relative to that of one that was
_CHEAPEST = 1e-100  # cost of values that are almost equal: no change is free
_DEPTH = 4096  # most nodes that wait at a time
_FEW = 64  # numbers that are sorted by insertion


def compiled(function: Function) -> Function:
    """Compile a function with numba and keep the machine code on disk, without losing its type."""
    return cast(Function, njit(cache=True)(function))


class Rules(NamedTuple):
    """The rules of all columns, and what they contribute to the score of each class.

    Parameters
    ----------
    kind
        Of each column: `FIXED`, `LINE`, `SWITCH` or `LIST`.
    unit
        Change that costs 1; for a category without an order, the inverse of the cost of a switch.
    low, high, step, gap
        Rules of numbers, as in `TableColumn`.
    rounding
        Relative rounding error of numbers.
    up, down
        Whether values may rise, and fall.
    allowed, first_allowed, last_allowed
        Values to which a number may change, sorted, one column after the other; an empty part means all values.
    slope
        Of each column and class: what a change by 1 adds to the score.
    """

    kind: Ints
    unit: Floats
    low: Floats
    high: Floats
    step: Floats
    gap: Floats
    rounding: Floats
    up: Bools
    down: Bools
    allowed: Floats
    first_allowed: Ints
    last_allowed: Ints
    slope: Floats


class Samples(NamedTuple):
    """Rows, and the values that columns of the kinds `SWITCH` and `LIST` can take.

    Parameters
    ----------
    rows, own
        Coded rows, and the position of the class that each row must leave.
    terms, scores
        Contribution of each column to each class, and the score of each class.
    first, last
        Of each row and column: the part of `value` with the values that the column can take.
    value, score
        These values, sorted in each part, and their contributions to each class.
    lead, goal, slack
        Of each row: the lead that a rival must have; the lead up to which numbers that may take any value are moved
        further; and a lead that does not count.
    """

    rows: Floats
    own: Ints
    terms: Floats
    scores: Floats
    first: Ints
    last: Ints
    value: Floats
    score: Floats
    lead: Floats
    goal: Floats
    slack: Floats


# The options of one column of a row against a rival are a record, and so are the values of a list and the pieces of an
# envelope: numba passes records as pointers, whereas tuples of arrays would take longer to pass than the work takes.

OPTION = np.dtype(
    [
        ("column", np.int64),  # position of the column
        ("value", np.float64),  # the row's own value
        ("is_line", np.bool_),
        ("unit", np.float64),  # change that costs 1
        # of a line: the direction in which it gains, its gain per change by 1, its step and how many steps count as
        # rounding, the part of the listed values with those of this column, and up to three intervals of changes
        ("sign", np.float64),
        ("rate", np.float64),
        ("step", np.float64),
        ("tolerance", np.float64),
        ("first_allowed", np.int64),
        ("last_allowed", np.int64),
        ("parts", np.int64),
        ("begin", np.float64, (3,)),
        ("end", np.float64, (3,)),
        # of a list: the part of all lists with its options that are not dominated, the row's own value first
        ("offset", np.int64),
        ("size", np.int64),
        ("most", np.float64),  # the last option: a change of a line, a place in a list
        # working memory: the cost in a relaxation, the rate at which the gain rises there, the options around it, and
        # the choice of a solution
        ("level", np.float64),
        ("rise", np.float64),
        ("down", np.float64),
        ("up", np.float64),
        ("chosen", np.float64),
    ],
    align=True,
)
LISTED = np.dtype([("cost", np.float64), ("gain", np.float64), ("value", np.float64)])
PIECE = np.dtype([("slope", np.float64), ("begin", np.float64), ("end", np.float64), ("column", np.int64)], align=True)


class Memory(NamedTuple):
    """Working memory of relaxations, and the nodes that wait.

    Parameters
    ----------
    pieces
        The pieces of all envelopes, records of the type `PIECE`.
    order, key
        For sorting.
    hull
        For the envelope of a list.
    nodes
        Of each waiting node and column: the first and the last option.
    bound
        Of each waiting node: a lower bound of its costs.
    """

    pieces: Any
    order: Ints
    key: Floats
    hull: Ints
    nodes: Floats
    bound: Floats


def nearest_rows(rules: Rules, samples: Samples, norm: int, nodes: int) -> tuple[Floats, Floats, Floats]:
    """Return the nearest row in which a rival leads for each row, and a lower bound of its distance.

    Parameters
    ----------
    rules, samples
        The columns and the rows.
    norm
        `LINF`, `L1` or `L2`.
    nodes
        Maximum number of nodes that are examined per row.

    Returns
    -------
    The rows found; lower bounds; and the costs of the rows found, which are `inf` if there is none.
    """
    columns = samples.rows.shape[1]
    longest = int((samples.last - samples.first).sum(axis=1).max(initial=0)) + columns
    most, depth = longest + columns, _DEPTH if norm != LINF else 1
    memory = Memory(
        pieces=np.zeros(most, PIECE),
        order=np.zeros(2 * most, np.int64),
        key=np.zeros(2 * most),
        hull=np.zeros(most, np.int64),
        nodes=np.zeros((depth, 2, columns)),
        bound=np.zeros(depth),
    )
    options, lists = np.zeros(columns, OPTION), np.zeros(longest, LISTED)
    points, lower, upper = _nearest_rows(rules, samples, options, lists, memory, norm, nodes)
    return points, lower, upper


@compiled
def _nearest_rows(
    rules: Rules, samples: Samples, options: Any, lists: Any, memory: Memory, norm: int, nodes: int
) -> Any:
    total = len(samples.rows)
    classes = samples.scores.shape[1]
    points = samples.rows.copy()
    lower, upper = np.full(total, np.inf), np.full(total, np.inf)
    allowed = rules.allowed
    for i in range(total):
        own = samples.own[i]
        best, least, left = np.inf, np.inf, nodes
        for rival in range(classes):
            if rival == own:
                continue
            used = _fill_options(options, lists, rules, samples, i, own, rival)
            margin = samples.scores[i, own] - samples.scores[i, rival]
            target = margin + samples.lead[i]
            enough = target - samples.slack[i]
            some = options[:used]
            if norm == LINF:
                cost = _smallest_radius(some, lists, allowed, enough, best)
                bound = cost
            else:
                cost, bound, left = _branch_and_bound(
                    some, lists, allowed, memory, norm == L2, target, enough, best, left
                )
            least = min(least, bound)
            if cost < best:
                best = cost
                _extend(some, lists, margin + samples.goal[i])
                points[i] = samples.rows[i]
                for option in some:
                    if option.chosen > 0:
                        points[i, option.column] = _value_of(option, lists)
        upper[i] = best
        lower[i] = min(least, best)
    if norm == L2:
        lower, upper = np.sqrt(lower), np.sqrt(upper)
    return points, lower, upper


# --- the options of a row ---


@compiled
def _fill_options(options: Any, lists: Any, rules: Rules, samples: Samples, i: int, own: int, rival: int) -> int:
    """Write the options of all columns of a row that can gain, and return the number of these columns."""
    used, offset = 0, 0
    for column in range(len(rules.kind)):
        value = samples.rows[i, column]
        if rules.kind[column] == FIXED or np.isnan(value):
            continue
        option = options[used]
        option.column, option.value, option.unit = column, value, rules.unit[column]
        if rules.kind[column] == LINE:
            slope = rules.slope[column, rival] - rules.slope[column, own]
            if slope == 0 or not (rules.up[column] if slope > 0 else rules.down[column]):
                continue
            option.is_line = True
            option.sign, option.rate, option.step = (1.0 if slope > 0 else -1.0), abs(slope), rules.step[column]
            option.tolerance = 0.0
            if option.step > 0:
                option.tolerance = min(_LARGEST, _ON_GRID + rules.rounding[column] * abs(value) / option.step)
            option.first_allowed, option.last_allowed = rules.first_allowed[column], rules.last_allowed[column]
            _fill_parts(option, rules.low[column], rules.high[column], rules.gap[column])
            option.most = _at_most(option, rules.allowed, np.inf)
            if option.most > 0:
                used += 1
            continue
        option.is_line, option.offset = False, offset
        size = _fill_list(option, lists, rules, samples, i, own, rival)
        option.size, option.most = size, float(size - 1)
        if size > 1:
            offset += size
            used += 1
    return used


@compiled
def _fill_parts(option: Any, low: float, high: float, gap: float) -> None:
    """Write the intervals of changes that are allowed; everything is mirrored if the number falls."""
    step, value = option.step, option.sign * option.value
    if option.sign < 0:
        low, high = -high, -low
    found = 0
    for part in range(3 if gap > 0 else 1):
        begin, end = low, high
        if gap > 0:
            if part == 0:
                end = min(end, -gap)
            elif part == 1:
                begin, end = max(begin, 0.0), min(end, 0.0)
            else:
                begin = max(begin, gap)
        if begin > end or end < value:
            continue
        first, last = max(begin - value, 0.0), end - value
        if step > 0:
            first = max(np.ceil(first / step - option.tolerance), 1.0) * step
            last = np.floor(last / step + option.tolerance) * step
            if first > last * (1 + _ALMOST):
                continue
        elif last <= 0:
            continue
        option.begin[found], option.end[found] = first, last
        found += 1
    option.parts = found


@compiled
def _fill_list(option: Any, lists: Any, rules: Rules, samples: Samples, i: int, own: int, rival: int) -> int:
    """Write the options of a list that are not dominated, by increasing cost, and return their number."""
    column, value, unit, offset = option.column, option.value, option.unit, option.offset
    base = samples.terms[i, column, rival] - samples.terms[i, column, own]
    first, last = samples.first[i, column], samples.last[i, column]
    lists[offset].cost, lists[offset].gain, lists[offset].value = 0.0, 0.0, value
    size = 1
    if rules.kind[column] == SWITCH:
        highest = 0.0
        for j in range(first, last):
            gain = samples.score[j, rival] - samples.score[j, own] - base
            if samples.value[j] != value and gain > highest:
                highest, size = gain, 2
                switched = lists[offset + 1]
                switched.cost, switched.gain, switched.value = 1.0 / unit, gain, samples.value[j]
        return size
    above = first
    while above < last and samples.value[above] <= value:
        above += 1
    below = above - 1
    while below >= first and samples.value[below] >= value:
        below -= 1
    if not rules.up[column]:
        above = last
    if not rules.down[column]:
        below = first - 1
    while above < last or below >= first:
        upwards = above < last and (below < first or samples.value[above] - value <= value - samples.value[below])
        j = above if upwards else below
        if upwards:
            above += 1
        else:
            below -= 1
        gain = samples.score[j, rival] - samples.score[j, own] - base
        if not gain > lists[offset + size - 1].gain:
            continue
        cost = max(abs(samples.value[j] - value) / unit, _CHEAPEST)
        if size > 1 and cost <= lists[offset + size - 1].cost:
            size -= 1  # the same cost in the other direction
        added = lists[offset + size]
        added.cost, added.gain, added.value = cost, gain, samples.value[j]
        size += 1
    return size


# --- choices: the change of a line, or the place in a list ---


@compiled
def _gain_of(option: Any, lists: Any, choice: float) -> float:
    if option.is_line:
        return float(option.rate * choice)
    return float(lists[option.offset + int(choice)].gain)


@compiled
def _cost_of(option: Any, lists: Any, choice: float) -> float:
    if option.is_line:
        return float(choice / option.unit)
    return float(lists[option.offset + int(choice)].cost)


@compiled
def _value_of(option: Any, lists: Any) -> float:
    """Return the value of a column with its choice."""
    if option.is_line:
        return float(option.value + option.sign * option.chosen)
    return float(lists[option.offset + int(option.chosen)].value)


@compiled
def _up_to(option: Any, lists: Any, first: float, last: float, cost: float) -> float:
    """Return the last place of a list between two places that costs at most so much."""
    low, high = int(first), int(last) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if lists[option.offset + middle].cost <= cost:
            low = middle
        else:
            high = middle
    return float(low)


@compiled
def _at_most(option: Any, allowed: Floats, change: float) -> float:
    """Return the largest allowed change of a line up to this one."""
    for part in range(option.parts - 1, -1, -1):
        begin, end = option.begin[part], option.end[part]
        if change < begin * (1 - _ALMOST):
            continue
        found = min(change, end)
        if option.last_allowed > option.first_allowed:
            found = _listed(option, allowed, begin, found, 0.0, False)
            if found > 0:
                return float(found)
            continue
        if option.step > 0:
            found = np.floor(found / option.step * (1 + _ALMOST)) * option.step
        return float(max(found, begin))
    return 0.0


@compiled
def _above(option: Any, allowed: Floats, change: float) -> float:
    """Return the smallest allowed change of a line that is larger than this one; `inf` if there is none.

    A change inside of an interval of any changes is itself.
    """
    for part in range(option.parts):
        begin, end = option.begin[part], option.end[part]
        if change >= end * (1 - _ALMOST):
            continue
        if option.last_allowed > option.first_allowed:
            found = _listed(option, allowed, max(begin, change), end, change, True)
            if found > 0:
                return float(found)
            continue
        if change < begin * (1 - _ALMOST):
            return float(begin)
        if option.step > 0:
            return float((np.floor(change / option.step * (1 + _ALMOST)) + 1.0) * option.step)
        return float(change)
    return np.inf


@compiled
def _listed(option: Any, allowed: Floats, begin: float, end: float, more_than: float, smallest: bool) -> float:
    """Return the smallest or largest change to a listed value in an interval of changes; 0 if there is none."""
    value, sign, step = option.value, option.sign, option.step
    slack = 4e-16 * abs(value)
    lowest, highest = value + sign * begin - slack, value + sign * end + slack
    if sign < 0:
        lowest, highest = value + sign * end - slack, value + sign * begin + slack
    values = allowed[option.first_allowed : option.last_allowed]
    start, stop = np.searchsorted(values, lowest, side="left"), np.searchsorted(values, highest, side="right")
    for turn in range(stop - start):
        j = start + turn if smallest == (sign > 0) else stop - 1 - turn
        change = sign * (values[j] - value)
        if change <= more_than:
            continue
        if step > 0:
            steps = change / step
            if abs(steps - np.rint(steps)) > option.tolerance:
                continue
        return float(change)
    return 0.0


@compiled
def _free_part(option: Any, change: float) -> int:
    """Return the interval in which a line may take any change from this one on; -1 if there is none."""
    if option.is_line and option.step == 0 and option.last_allowed == option.first_allowed:
        for part in range(option.parts):
            if option.begin[part] <= change < option.end[part]:
                return part
    return -1


@compiled
def _extend(options: Any, lists: Any, goal: float) -> None:
    """Move numbers that may take any value slightly further until the gain reaches a goal, if possible.

    The steepest number per cost moves first, because one with almost no slope would have to move far. Others than those
    that were chosen already move only if they are much steeper.
    """
    total = 0.0
    for option in options:
        total += _gain_of(option, lists, option.chosen)
    last, latest = np.inf, -1
    while total < goal:
        steepest, best = -1, 0.0
        for a in range(len(options)):
            option = options[a]
            slope = option.rate * option.unit * (1.0 if option.chosen > 0 else _UNCHOSEN)
            left = slope < last or (slope == last and a > latest)
            if left and slope > best and _free_part(option, option.chosen) >= 0:
                steepest, best = a, slope
        if steepest < 0:
            return
        last, latest, option = best, steepest, options[steepest]
        before = option.chosen
        option.chosen = min(
            before + (goal - total) / option.rate * (1 + _ALMOST), option.end[_free_part(option, before)]
        )
        total += (option.chosen - before) * option.rate


# --- L∞ ---


@compiled
def _within(option: Any, lists: Any, allowed: Floats, radius: float) -> float:
    """Return the best choice of a column within a radius."""
    if option.is_line:
        return _at_most(option, allowed, radius * option.unit * (1 + 4e-16))
    return _up_to(option, lists, 0.0, option.most, radius)


@compiled
def _gain_within(options: Any, lists: Any, allowed: Floats, radius: float) -> float:
    """Return the largest gain of all columns within a radius."""
    total = 0.0
    for option in options:
        total += _gain_of(option, lists, _within(option, lists, allowed, radius))
    return total


@compiled
def _smallest_radius(options: Any, lists: Any, allowed: Floats, enough: float, best: float) -> float:
    """Choose the options that are cheapest in L∞; return their cost, or `inf` if none are cheaper than `best`."""
    if enough <= 0:
        for option in options:
            option.chosen = 0.0
        return 0.0 if best > 0 else np.inf
    high = 0.0
    for option in options:
        high = max(high, _cost_of(option, lists, option.most))
    high = min(high, best)
    if np.isinf(high):  # numbers without limits: some finite radius is large enough
        high = 1.0
        while high < 1e300 and _gain_within(options, lists, allowed, high) < enough:
            high *= 4.0
    if _gain_within(options, lists, allowed, high) < enough:
        return np.inf
    low = 0.0
    while high - low > 1e-15 * high:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            break
        if _gain_within(options, lists, allowed, middle) >= enough:
            high = middle
        else:
            low = middle
    total = 0.0
    for option in options:
        option.chosen = _within(option, lists, allowed, high)
        total += _gain_of(option, lists, option.chosen)
    # Changes that are not needed are undone, the least useful ones first.
    for _ in range(len(options)):
        least, smallest = -1, np.inf
        for a in range(len(options)):
            gain = _gain_of(options[a], lists, options[a].chosen)
            if options[a].chosen > 0 and total - gain >= enough and gain < smallest:
                least, smallest = a, gain
        if least < 0:
            break
        total -= smallest
        options[least].chosen = 0.0
    cost = 0.0
    for option in options:
        cost = max(cost, _cost_of(option, lists, option.chosen))
    return cost if cost < best else np.inf


# --- L1 and L2 ---


@compiled
def _branch_and_bound(
    options: Any,
    lists: Any,
    allowed: Floats,
    memory: Memory,
    squared: bool,
    target: float,
    enough: float,
    best: float,
    left: int,
) -> Any:
    """Choose the options that are cheapest in L1, or in L2 with squared costs.

    Returns their cost, `inf` if none are cheaper than `best`; a lower bound of all costs, at most `best`; and the
    number of nodes that are left.
    """
    count = len(options)
    if enough <= 0:
        for option in options:
            option.chosen = 0.0
        return (0.0 if best > 0 else np.inf), 0.0, left
    pieces, order, key, hull = memory.pieces, memory.order, memory.key, memory.hull
    nodes, bounds = memory.nodes, memory.bound
    reach = 0.0
    for a in range(count):
        nodes[0, 0, a], nodes[0, 1, a] = 0.0, options[a].most
        reach += _gain_of(options[a], lists, options[a].most)
    if reach < enough:
        return np.inf, np.inf, left
    solution, low, high = np.zeros(count), np.zeros(count), np.zeros(count)
    found, least, waiting = np.inf, np.inf, 1  # `least`: lower bound of nodes that are given up
    bounds[0] = 0.0
    while waiting > 0:
        waiting -= 1
        bound = bounds[waiting]
        if bound >= best * (1 - _ALMOST):
            continue
        if left <= 0 or waiting + 2 > len(bounds):
            least = min(least, bound)
            continue
        left -= 1
        for a in range(count):
            low[a], high[a] = nodes[waiting, 0, a], nodes[waiting, 1, a]
            if not options[a].is_line and best < np.inf:  # long lists are cut at what the best solution costs
                high[a] = max(low[a], _up_to(options[a], lists, low[a], high[a], np.sqrt(best) if squared else best))
        if squared:
            relaxed = _relaxed_squares(options, lists, pieces, order, key, hull, low, high, target, enough)
        else:
            relaxed = _relaxed_sum(options, lists, pieces, order, key, hull, low, high, target, enough)
        bound = max(bound, relaxed)
        if bound >= best * (1 - _ALMOST):
            continue
        # The options of each column around its level. `widest` is the column with the largest step between them.
        widest, width, total = -1, 0.0, 0.0
        for a in range(count):
            option = options[a]
            _surround(option, lists, allowed, low[a], high[a])
            total += _gain_of(option, lists, option.down)
            if option.up > option.down:
                apart = _cost_of(option, lists, option.up) - _cost_of(option, lists, option.down)
                if apart > width:
                    widest, width = a, apart
        if widest < 0 and total < enough:
            widest = _adjusted(options, lists, allowed, high, total, target)
            if widest < 0:
                total = 0.0
                for option in options:
                    total += _gain_of(option, lists, option.down)
                if total < enough:
                    continue
        cost = _rounded(options, lists, squared, enough)
        if cost < best:
            best = found = cost
            for a in range(count):
                solution[a] = options[a].chosen
        if widest < 0:
            continue
        for turn in range(2):
            for a in range(count):
                nodes[waiting, 0, a], nodes[waiting, 1, a] = low[a], high[a]
            bounds[waiting] = bound
            if turn == 0:
                nodes[waiting, 0, widest] = options[widest].up
            else:
                nodes[waiting, 1, widest] = options[widest].down
            waiting += 1
    if found < np.inf:
        for a in range(count):
            options[a].chosen = solution[a]
    return found, min(least, best), left


@compiled
def _surround(option: Any, lists: Any, allowed: Floats, low: float, high: float) -> None:
    """Write the options of a column just below and above its level; both are equal if it is at an option."""
    if not option.is_line:
        option.down = option.up = _up_to(option, lists, low, high, option.level * (1 + _ALMOST))
        if option.down < high and _cost_of(option, lists, option.down) < option.level * (1 - _ALMOST):
            option.up = option.down + 1.0
        return
    change = min(max(option.level * option.unit, low), high)
    if change >= high * (1 - _ALMOST):
        option.down = option.up = high
    elif change <= low * (1 + _ALMOST):
        option.down = option.up = low
    else:
        option.down = option.up = max(_at_most(option, allowed, change), low)
        if option.down < change * (1 - _ALMOST):
            option.up = min(_above(option, allowed, change), high)


@compiled
def _adjusted(options: Any, lists: Any, allowed: Floats, high: Floats, total: float, target: float) -> int:
    """Correct a relaxation in which all columns are at an option, but the gain is too small because of rounding.

    Numbers that may take any value make up for it; then -1 is returned. If there are none, the column is returned whose
    next option is nearest.
    """
    for _ in range(len(options)):
        steepest, most = -1, 0.0  # one with almost no slope would have to move far
        for a in range(len(options)):
            slope = options[a].rate * options[a].unit
            if _free_part(options[a], options[a].down) >= 0 and options[a].down < high[a] and slope > most:
                steepest, most = a, slope
        if steepest < 0 or total >= target:
            break
        option = options[steepest]
        change = min(option.down + (target - total) / option.rate, high[steepest])
        total += (change - option.down) * option.rate
        option.down = option.up = change
    nearest, width = -1, np.inf
    if total >= target:
        return nearest
    for a in range(len(options)):
        option = options[a]
        if option.down >= high[a] or _free_part(option, option.down) >= 0:
            continue
        up = _above(option, allowed, option.down) if option.is_line else option.down + 1.0
        if up <= high[a] * (1 + _ALMOST):
            option.up = up
            apart = _cost_of(option, lists, up) - _cost_of(option, lists, option.down)
            if apart < width:
                nearest, width = a, apart
    return nearest


@compiled
def _rounded(options: Any, lists: Any, squared: bool, enough: float) -> float:
    """Choose the options above, or those below where the gain remains large enough; return the cost."""
    total = 0.0
    for option in options:
        option.chosen = option.up
        total += _gain_of(option, lists, option.up)
    for _ in range(len(options)):
        largest, most, lost = -1, 0.0, 0.0
        for a in range(len(options)):
            option = options[a]
            if option.chosen > option.down:
                loss = _gain_of(option, lists, option.up) - _gain_of(option, lists, option.down)
                above, below = _cost_of(option, lists, option.up), _cost_of(option, lists, option.down)
                saved = above * above - below * below if squared else above - below
                if total - loss >= enough and saved > most:
                    largest, most, lost = a, saved, loss
        if largest < 0:
            break
        total -= lost
        options[largest].chosen = options[largest].down
    cost = 0.0
    for option in options:
        part = _free_part(option, option.chosen)
        if part >= 0 and option.chosen > 0 and total > enough:  # gives back what is too much
            before = option.chosen
            option.chosen = max(option.begin[part], before - (total - enough) / option.rate)
            total -= (before - option.chosen) * option.rate
        each = _cost_of(option, lists, option.chosen)
        cost += each * each if squared else each
    return cost if total >= enough * (1 - 1e-15) else np.inf


# --- relaxations ---


@compiled
def _fill_pieces(options: Any, lists: Any, pieces: Any, hull: Ints, low: Floats, high: Floats) -> int:
    """Write the pieces of the envelopes of all columns between two options, and return their number."""
    size = 0
    for a in range(len(options)):
        option = options[a]
        if high[a] <= low[a]:
            continue
        if option.is_line:
            piece = pieces[size]
            piece.slope, piece.column = option.rate * option.unit, a
            piece.begin, piece.end = low[a] / option.unit, high[a] / option.unit
            size += 1
            continue
        corners = 0
        for j in range(option.offset + int(low[a]), option.offset + int(high[a]) + 1):
            new = lists[j]
            while corners > 1:
                last, before = lists[hull[corners - 1]], lists[hull[corners - 2]]
                rise = (last.gain - before.gain) * (new.cost - last.cost)
                if (new.gain - last.gain) * (last.cost - before.cost) < rise:
                    break
                corners -= 1
            hull[corners] = j
            corners += 1
        for corner in range(corners - 1):
            begin, end, piece = lists[hull[corner]], lists[hull[corner + 1]], pieces[size]
            piece.slope, piece.column = (end.gain - begin.gain) / (end.cost - begin.cost), a
            piece.begin, piece.end = begin.cost, end.cost
            if corner > 0:  # pieces on one line, whose slopes are rounded
                piece.slope = min(piece.slope, pieces[size - 1].slope)
            size += 1
    return size


@compiled
def _sort(order: Ints, key: Floats, size: int) -> None:
    """Sort `order` by `key`, stably."""
    if size > _FEW:
        order[:size] = np.argsort(key[:size], kind="mergesort")
        return
    for j in range(size):
        place = j
        while place > 0 and key[order[place - 1]] > key[j]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = j


@compiled
def _relaxed_sum(
    options: Any,
    lists: Any,
    pieces: Any,
    order: Ints,
    key: Floats,
    hull: Ints,
    low: Floats,
    high: Floats,
    target: float,
    enough: float,
) -> float:
    """Return the smallest sum of costs on the envelopes with enough gain, and write the cost of each column."""
    total, cost = 0.0, 0.0
    for a in range(len(options)):
        option = options[a]
        option.level = _cost_of(option, lists, low[a])
        cost += float(option.level)
        total += _gain_of(option, lists, low[a])
    if total >= enough:
        return cost
    size = _fill_pieces(options, lists, pieces, hull, low, high)
    for j in range(size):
        key[j] = -pieces[j].slope
    _sort(order, key, size)
    for place in range(size):
        piece = pieces[order[place]]
        width = piece.end - piece.begin
        if total + width * piece.slope >= target:
            part = min((target - total) / piece.slope, width)
            options[piece.column].level = piece.begin + part
            return float(cost + part)
        total += width * piece.slope
        cost += float(width)
        options[piece.column].level = piece.end
    return cost if total >= enough else np.inf


@compiled
def _relaxed_squares(
    options: Any,
    lists: Any,
    pieces: Any,
    order: Ints,
    key: Floats,
    hull: Ints,
    low: Floats,
    high: Floats,
    target: float,
    enough: float,
) -> float:
    """Return the smallest sum of squared costs on the envelopes with enough gain, and write the cost of each column.

    Each piece is used up to the cost `factor · slope`; the factor is found from the factors at which pieces begin and
    end, between which the gain rises linearly.
    """
    total = 0.0
    for a in range(len(options)):
        option = options[a]
        option.level = _cost_of(option, lists, low[a])
        total += _gain_of(option, lists, low[a])
    if total < enough:
        size = _fill_pieces(options, lists, pieces, hull, low, high)
        for j in range(size):
            key[2 * j], key[2 * j + 1] = pieces[j].begin / pieces[j].slope, pieces[j].end / pieces[j].slope
        _sort(order, key, 2 * size)
        for option in options:
            option.rise = 0.0
        rate, factor, reached = 0.0, 0.0, False
        for place in range(2 * size):
            event = order[place]
            if rate > 0 and (np.isinf(key[event]) or total + rate * (key[event] - factor) >= target):
                factor += (target - total) / rate
                reached = True
                break
            if rate > 0:
                total += rate * (key[event] - factor)
            factor = key[event]
            slope = pieces[event // 2].slope
            options[pieces[event // 2].column].rise = 0.0 if event % 2 else slope * slope
            rate = 0.0  # added again, since subtraction would leave a remainder of very different slopes
            for option in options:
                rate += option.rise
        if not reached and total < enough:
            return np.inf
        for j in range(size):
            piece = pieces[j]
            level = factor * piece.slope
            if level > piece.begin:
                options[piece.column].level = min(level, piece.end)
    cost = 0.0
    for option in options:
        cost += float(option.level * option.level)
    return cost
