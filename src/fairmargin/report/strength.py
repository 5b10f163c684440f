"""Whether attacks were strong enough, in sentences for people who build no models: plain text, not escaped."""

from collections.abc import Sequence

from fairmargin.analyses.adequacy import NOT_SETTLED, SETTLED, UNDECIDED, Adequacy
from fairmargin.analyses.alarms import ALARMS, ANOTHER_IS_NEARER, MEANINGS, consequence
from fairmargin.analyses.settling_words import FEWEST, STAYS, advice, more_of, no_gap, points
from fairmargin.presentation.formatting import listed, percent, plain, quoted


def strength(found: Sequence[Adequacy]) -> str:
    """What attack adequacy adds to a page's opening; empty where nothing was checked that could have been too weak."""
    checked = [adequacy for adequacy in found if adequacy.groups]
    moving = _partitions([a for a in checked if a.verdict == NOT_SETTLED])
    unsure = _partitions([a for a in checked if a.verdict == UNDECIDED and not no_gap(a.groups)])
    misled, beaten = _misled(checked), _beaten(checked)
    sentences = []
    if moving:
        sentences.append(
            f"But with {_more(checked)} the gaps by {listed(moving)} still moved: in part they are the attack’s, not "
            "the model’s."
        )
    if misled:
        sentences.append(f"There are signs that the attack was misled about {listed(misled)}.")
    if beaten:
        sentences.append(f"Another attack on this page came clearly nearer than {listed(beaten)}: rely on that one.")
    if unsure:
        sentences.append(f"Whether {_more(checked)} would move the gaps by {listed(unsure)} could not be told.")
    if checked and not sentences and all(a.verdict == SETTLED for a in checked):
        more = _more(checked)
        sentences.append(f"{more[0].upper()}{more[1:]} did not move these gaps, and no alarm was raised.")
    return " ".join(sentences)


def strength_headline(found: Adequacy) -> str:
    """Whether the gaps of one partition have settled, in a sentence, and what to do if not."""
    limit, last = f"{points(found.tolerance, signed=False)} points of σ", found.budgets[-1]
    names = listed([quoted(row.group) for row in found if row.verdict == found.verdict])
    todo = advice(found.verdict, found.groups, found.budgets)
    if found.verdict == SETTLED:
        settled = f"Settled: budgets of up to {last} moved no group’s gap by more than {limit}."
        unjudged = [quoted(row.group) for row in found if row.verdict != SETTLED]
        if unjudged:
            settled += f" Of {listed(unjudged)} too few samples were looked at to tell."
        return settled + (f" That alone proves little where an alarm is raised: {STAYS}." if found.alarmed else "")
    if found.verdict == NOT_SETTLED:
        return (
            f"Not settled: budgets of up to {last} still moved the gap of {names} by more than {limit}. The distances "
            f"are not yet those of the model but of the attack. {todo}"
        )
    if found.verdict == UNDECIDED and no_gap(found.groups):
        return f"Undecided: {no_gap(found.groups, quoted)}."
    if found.verdict == UNDECIDED:
        return (
            f"Undecided: for {names} the samples looked at cannot tell whether {more_of(found.budgets)} would move the "
            f"gap by more than {limit}. {todo}"
        )
    return f"Too few samples: every group, or all that is outside it, has fewer than {FEWEST}. {todo}".strip()


def strength_alarms(found: Adequacy) -> tuple[str, ...]:
    """A sentence for every kind of alarm that was raised: what it means, where, at what share, and what follows."""
    sentences = []
    for kind in ALARMS:
        raised = [(row, alarm) for row in found for alarm in row.raised if alarm.kind == kind]
        raised.sort(key=lambda pair: -pair[1].share.value)
        where = [
            f"{quoted(row.group)} at {percent(alarm.share.value)} of the samples ({alarm.hits:,} of {alarm.of:,}; "
            f"{percent(found.confidence)} interval {percent(alarm.share.low)} to {percent(alarm.share.high)})"
            for row, alarm in raised
        ]
        if where:
            what = f"{kind[0].upper()}{kind[1:]} ({MEANINGS[kind]})"
            sentences.append(f"{what}: {listed(where)}. {consequence(kind, len(where))}")
    return tuple(sentences)


def _partitions(some: Sequence[Adequacy]) -> list[str]:
    return list(dict.fromkeys(quoted(adequacy.partition) for adequacy in some))


def _misled(checked: Sequence[Adequacy]) -> list[str]:
    """Groups with an alarm of their own, whatever other attacks found."""
    return list(
        dict.fromkeys(
            f"{quoted(row.group)} of {quoted(adequacy.partition)}"
            for adequacy in checked
            for row in adequacy
            if any(alarm.kind != ANOTHER_IS_NEARER for alarm in row.raised)
        )
    )


def _beaten(checked: Sequence[Adequacy]) -> list[str]:
    """Attacks that another one of the same run beat in some group."""
    return list(
        dict.fromkeys(
            f"{plain(adequacy.estimator)} for {quoted(row.group)} of {quoted(adequacy.partition)}"
            for adequacy in checked
            for row in adequacy
            if any(alarm.kind == ANOTHER_IS_NEARER for alarm in row.raised)
        )
    )


def _more(checked: Sequence[Adequacy]) -> str:
    """What a larger budget is, of one attack or of several."""
    more = more_of([name for adequacy in checked for name in adequacy.budgets])
    several = len({adequacy.estimator for adequacy in checked}) > 1
    return more.replace("this attack", "these attacks") if several else more
