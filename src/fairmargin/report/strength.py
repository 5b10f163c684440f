"""Whether attacks were strong enough, in sentences for people who build no models: plain text, not escaped."""

from collections.abc import Sequence

from fairmargin.analyses.adequacy import (
    NOT_SETTLED,
    SETTLED,
    UNDECIDED,
    Adequacy,
    more_of,
)
from fairmargin.analyses.alarms import ANOTHER_IS_NEARER
from fairmargin.presentation.formatting import listed, plain, quoted


def strength(found: Sequence[Adequacy]) -> str:
    """What attack adequacy adds to a page's opening; empty where nothing was checked that could have been too weak."""
    checked = [adequacy for adequacy in found if adequacy.groups]
    moving = _partitions([a for a in checked if a.verdict == NOT_SETTLED])
    unsure = _partitions([a for a in checked if a.verdict == UNDECIDED and not a.no_gap])
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
