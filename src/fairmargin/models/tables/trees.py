"""Ensembles of trees over the features of a last step, expressed over the columns of a table."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fairmargin.core.arrays import Bools, Floats, Ints
from fairmargin.errors import ModelError
from fairmargin.models.tables.features import FeatureMap
from fairmargin.models.tables.inversion import Probe, Range, passes, probe_of
from fairmargin.models.trees.ensemble import LEAF, NO_SET, TreeEnsemble

_OPEN, _RIGHT, _LEFT = -1, 0, 1  # whether a question has one answer for all values, and which
_TO_LEFT, _TO_RIGHT = -1, -2  # children of a chain that are the children of the original node


def of_columns(ensemble: TreeEnsemble, features: FeatureMap) -> TreeEnsemble:
    """Return the ensemble with the same scores that asks for the columns of coded rows, not for features.

    No threshold is converted by a formula. For a number, the smallest double that goes right is found through the
    fitted transformers; for a category, all of its places are pushed through them. A node that asks for a feature of
    several pieces becomes a chain of nodes that share children. A node whose answer does not depend on its column is
    removed.
    """
    asked = np.unique(ensemble.feature[ensemble.feature != LEAF])
    if (features.source[asked] < -1).any():
        raise ModelError(
            "The trees take features that mix several columns, so distances of raw rows cannot be computed exactly. "
            "Only linear classifiers may follow such a step."
        )
    questions, question_of = _questions(ensemble)
    return _rebuilt(ensemble, question_of, _answered(questions, probe_of(features)))


@dataclass(frozen=True, slots=True, eq=False)
class _Questions:
    """The distinct questions of nodes: a feature, a threshold or a set, and where missing values go."""

    feature: Ints
    first_right: Floats
    missing_left: Bools
    set_of: Ints
    sets: Bools

    def go_left(self, which: Ints, z: Floats) -> Bools:
        """Return whether values of the feature go left; `which` gives the question of each value."""
        missing, place = self.missing_left[which], self.set_of[which]
        compared = np.where(np.isnan(z), missing, z < self.first_right[which])
        if not len(self.sets):
            return compared
        inside = (z >= 0) & (z < self.sets.shape[1])
        member = self.sets[place, np.where(inside, z, 0.0).astype(np.int64)]
        return np.where(place == NO_SET, compared, np.where(inside, member, missing))


@dataclass(frozen=True, slots=True)
class _Chain:
    """Several nodes that ask one question of a number: thresholds, children, and where missing values go."""

    first_right: tuple[float, ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    missing_left: tuple[bool, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Answers:
    """How questions of features are asked of columns.

    Parameters
    ----------
    fixed
        The answer, if it does not depend on the column.
    column
        The column of each question.
    first_right, missing_left
        For a number: the threshold, and whether missing values go left, after the children were swapped.
    swapped
        Whether the left child becomes the right one.
    sets, set_of
        The sets of places that go left, and the set of each question.
    chains
        The questions of numbers that need several nodes.
    """

    fixed: Ints
    column: Ints
    first_right: Floats
    missing_left: Bools
    swapped: Bools
    set_of: Ints
    sets: list[Bools] = field(default_factory=list)
    chains: dict[int, _Chain] = field(default_factory=dict)


def _questions(ensemble: TreeEnsemble) -> tuple[_Questions, Ints]:
    """Return the distinct questions, and the question of each node; -1 for a leaf."""
    inner = np.flatnonzero(ensemble.feature != LEAF)
    feature, set_of, missing = (getattr(ensemble, name)[inner] for name in ("feature", "set_of", "missing_left"))
    limit = np.where(set_of == NO_SET, ensemble.first_right[inner], 0.0) + 0.0  # -0.0 becomes 0.0
    one, inverse = _distinct(feature, set_of, limit, missing)
    question_of = np.full(len(ensemble.feature), -1)
    question_of[inner] = inverse
    return _Questions(feature[one], limit[one], missing[one], set_of[one], ensemble.sets), question_of


def _distinct(*keys: Ints | Floats | Bools) -> tuple[Ints, Ints]:
    """Return the place of one of each distinct tuple of keys, and which of them each tuple is.

    This is `numpy.unique` of several arrays, several times as fast as with a structured one.
    """
    order = np.lexsort(keys[::-1])
    begins = np.ones(len(order), dtype=np.bool_)
    if len(order):
        begins[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    inverse = np.empty(len(order), dtype=np.int64)
    inverse[order] = np.cumsum(begins) - 1
    return order[begins], inverse


def _answered(questions: _Questions, probe: Probe) -> _Answers:
    """Return the answers of all questions."""
    features, count = probe.features, len(questions.feature)
    source = features.source[questions.feature]
    is_number = np.array([column.is_number for column in features.coding.columns])[source] & (source >= 0)
    in_pieces = np.array([features.shape[one] == "pieces" for one in questions.feature], dtype=np.bool_)
    answers = _Answers(
        np.full(count, _OPEN),
        source.copy(),
        np.zeros(count),
        np.zeros(count, dtype=np.bool_),
        np.zeros(count, dtype=np.bool_),
        np.full(count, NO_SET),
    )
    constant = np.flatnonzero(source == -1)
    if len(constant):
        z = probe.blocks({0: probe.base[:1]})[0][0][0]
        answers.fixed[constant] = questions.go_left(constant, z[questions.feature[constant]])
    lost, lacks = _missing(questions, probe, source)
    _answer_categories(answers, questions, np.flatnonzero((source >= 0) & ~is_number), probe, lost, lacks)
    _answer_pieces(answers, questions, np.flatnonzero(is_number & in_pieces), probe, lost, lacks)
    _answer_numbers(answers, questions, np.flatnonzero(is_number & ~in_pieces), probe, lost, lacks)
    return answers


def _missing(questions: _Questions, probe: Probe, source: Ints) -> tuple[Bools, Bools]:
    """Return whether a missing value of the column goes left, and whether the transformers accept one at all."""
    blocks = probe.blocks({column: np.array([np.nan]) for column in range(len(probe.features.coding.columns))})
    z = np.stack([blocks[column][0][0] for column in range(len(blocks))])
    accepted = np.array([blocks[column][1][0] for column in range(len(blocks))])
    return questions.go_left(np.arange(len(source)), z[source, questions.feature]), accepted[source]


def _answer_categories(
    answers: _Answers, questions: _Questions, which: Ints, probe: Probe, lost: Bools, lacks: Bools
) -> None:
    """Answer questions of columns of categories: every place, and the place of unknown values, goes left or right."""
    columns = probe.features.coding.columns
    source = answers.column
    used = np.unique(source[which]).tolist()
    places = {column: np.arange(len(columns[column].categories) + 1.0) for column in used}  # the last one is unknown
    here_of = {column: which[source[which] == column] for column in used}
    lefts = {column: np.zeros((len(places[column]), len(here_of[column])), dtype=np.bool_) for column in used}
    accepted = {column: np.zeros(len(places[column]), dtype=np.bool_) for column in used}
    width = max(map(len, places.values()), default=0)
    for start in range(0, width, probe.rows_at_once):
        part = slice(start, start + probe.rows_at_once)
        asked = {column: places[column][part] for column in used if start < len(places[column])}
        for column, (z, valid) in probe.blocks(asked).items():
            here = here_of[column]
            lefts[column][part] = questions.go_left(here[None], z[:, questions.feature[here]])
            accepted[column][part] = valid
    for column in used:
        here, left, valid = here_of[column], lefts[column], accepted[column]
        # The model never answers for values that its transformers refuse: they may go anywhere.
        first = left[valid.argmax()] if valid.any() else lost[here]
        left[~valid] = np.where(lacks[here], lost[here], first)
        missing = np.where(lacks[here], lost[here], first)
        fixed = (left == missing).all(axis=0)
        answers.fixed[here] = np.where(fixed, missing, _OPEN)
        answers.missing_left[here] = missing
        sets = np.repeat(missing[:, None], width, axis=1)
        sets[:, : len(left)] = left.T
        answers.set_of[here[~fixed]] = len(answers.sets) + np.arange((~fixed).sum())
        answers.sets.extend(sets[~fixed])


def _answer_pieces(
    answers: _Answers, questions: _Questions, which: Ints, probe: Probe, lost: Bools, lacks: Bools
) -> None:
    """Answer questions of features that are constant between certain numbers."""
    features = np.unique(questions.feature[which]).tolist()
    source, breaks = probe.features.source, probe.features.breaks
    starts = {one: np.append(np.nextafter(breaks[one][:1], -np.inf), breaks[one]) for one in features}
    starts = {one: each if len(each) else probe.base[[source[one]]] for one, each in starts.items()}
    asked = {
        int(column): np.unique(np.concatenate([starts[one] for one in features if source[one] == column]))
        for column in np.unique(source[features])
    }
    blocks = probe.blocks(asked)
    for one in features:
        column = int(source[one])
        z = blocks[column][0][np.searchsorted(asked[column], starts[one]), one]
        here = which[questions.feature[which] == one]
        left = questions.go_left(here[None], z[:, None])
        for place, question in enumerate(here.tolist()):
            numbers = _merged(breaks[one].tolist(), left[:, place].tolist())
            _answer_number(answers, question, *numbers, bool(lost[question]), bool(lacks[question]))


def _answer_numbers(
    answers: _Answers, questions: _Questions, which: Ints, probe: Probe, lost: Bools, lacks: Bools
) -> None:
    """Answer questions of features that rise or fall with a number."""
    if not len(which):
        return
    sign = np.array([-1.0 if probe.features.shape[one] == "falling" else 1.0 for one in questions.feature[which]])
    is_set = questions.set_of[which] != NO_SET
    # A set is a question of several thresholds: the whole numbers between which the answer changes.
    limits = [
        _changes_of(questions, question) if has else questions.first_right[[question]]
        for question, has in zip(which.tolist(), is_set.tolist(), strict=True)
    ]
    counts = [len(each) for each in limits]
    feature, limit = np.repeat(questions.feature[which], counts), np.concatenate(limits)
    one, inverse = _distinct(feature, limit)
    passed = np.repeat(sign, counts)[one] * limit[one]  # where no number of a feature passes, or all do
    finite = np.isfinite(passed)
    asked = one[finite]
    passed[finite], ranges = passes(probe, feature[asked], limit[asked], np.unique(questions.feature[which]))
    first = passed[inverse]
    begins = np.concatenate([[0], np.cumsum(counts)])
    whole = np.array([ranges[int(one)].is_whole for one in questions.feature[which]])
    plain = np.flatnonzero(whole & ~is_set)
    _answer_thresholds(answers, which[plain], first[begins[plain]], sign[plain] < 0, lost, lacks)
    for place in np.flatnonzero(~whole | is_set).tolist():
        question = int(which[place])
        breaks = first[begins[place] : begins[place + 1]]
        levels = limits[place]
        z = np.append(np.nextafter(levels[:1], -np.inf), levels) if len(levels) else np.array([-1.0])
        left = questions.go_left(np.array([question]), z)
        if sign[place] < 0:
            breaks, left = breaks[::-1], left[::-1]
        allowed = ranges[int(questions.feature[question])]
        numbers = _with_missing(breaks, left, allowed, bool(questions.missing_left[question]))
        _answer_number(answers, question, *numbers, bool(lost[question]), bool(lacks[question]))


def _changes_of(questions: _Questions, question: int) -> Floats:
    """Return the whole numbers at which the answer of a question with a set changes."""
    places = np.arange(-1.0, questions.sets.shape[1] + 1)
    left = questions.go_left(np.array([question]), places)
    return np.asarray(places[1:][left[1:] != left[:-1]])


def _answer_thresholds(answers: _Answers, which: Ints, first: Floats, falls: Bools, lost: Bools, lacks: Bools) -> None:
    """Answer questions with one threshold each: numbers from `first` on go right, or left if the feature falls."""
    alike = np.isinf(first)
    left = (first > 0) != falls  # the answer of all numbers, if they are alike
    same = alike & (~lacks[which] | (lost[which] == left))
    answers.fixed[which] = np.where(same, left, _OPEN)
    answers.first_right[which] = first
    answers.swapped[which] = falls
    answers.missing_left[which] = lost[which] != falls


def _with_missing(breaks: Floats, left: Bools, allowed: Range, missing_left: bool) -> tuple[list[float], list[bool]]:
    """Return the pieces of a number and their answers, where the feature is also missing in some of them."""
    edges = np.unique([*breaks, allowed.begin, *allowed.hole, allowed.end])
    starts = np.append(-np.inf, edges[np.isfinite(edges)])
    missing = (starts < allowed.begin) | (starts >= allowed.end)
    missing |= (starts >= allowed.hole[0]) & (starts < allowed.hole[1])
    answer = np.where(missing, missing_left, left[np.searchsorted(breaks, starts, side="right")])
    return _merged(starts[1:].tolist(), answer.tolist())


def _merged(breaks: Sequence[float], left: Sequence[bool]) -> tuple[list[float], list[bool]]:
    """Return pieces with equal answers as one piece."""
    kept = [place for place in range(len(breaks)) if left[place] != left[place + 1]]
    return [breaks[place] for place in kept], [left[0], *(left[place + 1] for place in kept)]


def _answer_number(
    answers: _Answers, question: int, breaks: list[float], left: list[bool], lost: bool, lacks: bool
) -> None:
    """Answer one question of a number whose pieces go left and right in turns."""
    missing_left = lost if lacks else left[0]
    if not breaks and left[0] == missing_left:
        answers.fixed[question] = left[0]
    elif len(breaks) <= 1:
        answers.first_right[question] = breaks[0] if breaks else np.inf
        answers.swapped[question] = not left[0]
        answers.missing_left[question] = missing_left == left[0]
    else:
        answers.chains[question] = _chain(breaks, left, missing_left)


def _chain(breaks: Sequence[float], left: Sequence[bool], missing_left: bool) -> _Chain:
    """Return a balanced tree of thresholds between pieces; a missing value goes to a piece with its answer."""
    like = list(left).index(missing_left)
    nodes: list[tuple[float, int, int, bool]] = []

    def add(first: int, last: int) -> int:
        if first == last:
            return _TO_LEFT if left[first] else _TO_RIGHT
        middle, node = (first + last) // 2, len(nodes)
        nodes.append((breaks[middle], 0, 0, like <= middle))
        nodes[node] = (breaks[middle], add(first, middle), add(middle + 1, last), like <= middle)
        return node

    add(0, len(left) - 1)
    first_right, lefts, rights, missing = zip(*nodes, strict=True)
    return _Chain(first_right, lefts, rights, missing)


def _rebuilt(ensemble: TreeEnsemble, question_of: Ints, answers: _Answers) -> TreeEnsemble:
    """Return the ensemble with every node replaced by what its question became."""
    inner = question_of >= 0

    def of_nodes(values: Ints | Bools | Floats, otherwise: float) -> Floats:
        of_all: Floats = np.full(len(inner), otherwise, dtype=np.float64)
        of_all[inner] = values[question_of[inner]]
        return of_all

    fixed = of_nodes(answers.fixed, _OPEN)
    # A node with one answer stands for its child, which may stand for its own child.
    stands_for = np.arange(len(inner))
    stands_for = np.where(fixed == _LEFT, ensemble.left, np.where(fixed == _RIGHT, ensemble.right, stands_for))
    while (stands_for[stands_for] != stands_for).any():
        stands_for = stands_for[stands_for]
    length = np.ones(len(answers.fixed), dtype=np.int64)
    length[list(answers.chains)] = [len(chain.left) for chain in answers.chains.values()]
    sizes = of_nodes(length, 1).astype(np.int64)
    place = np.cumsum(sizes) - sizes
    old = np.repeat(np.arange(len(inner)), sizes)
    swapped = of_nodes(answers.swapped, 0.0) > 0
    to_left, to_right = place[stands_for[ensemble.left]], place[stands_for[ensemble.right]]
    left, right = np.where(swapped, to_right, to_left)[old], np.where(swapped, to_left, to_right)[old]
    first_right = of_nodes(answers.first_right, 0.0)[old]
    missing_left = (of_nodes(answers.missing_left, 0.0) > 0)[old]
    for question, chain in answers.chains.items():
        nodes = np.flatnonzero(question_of == question)
        links = place[nodes][:, None] + np.arange(len(chain.left))
        first_right[links], missing_left[links] = chain.first_right, chain.missing_left
        for child, codes in ((left, chain.left), (right, chain.right)):
            code = np.array(codes)
            ends = np.where(code == _TO_LEFT, to_left[nodes][:, None], to_right[nodes][:, None])
            child[links] = np.where(code >= 0, place[nodes][:, None] + code, ends)
    whole = replace(
        ensemble,
        feature=of_nodes(answers.column, LEAF).astype(np.int64)[old],
        first_right=first_right,
        missing_left=missing_left,
        left=np.where(inner[old], left, 0),
        right=np.where(inner[old], right, 0),
        value=ensemble.value[old],
        roots=place[stands_for[ensemble.roots]],
        sets=np.array(answers.sets) if answers.sets else np.zeros((0, 0), dtype=np.bool_),
        set_of=of_nodes(answers.set_of, NO_SET).astype(np.int64)[old],
    )
    return whole.reached()
