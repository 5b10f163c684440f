"""Which adequacy belongs to which audit: to that of the same groups and the very same distances, or to none."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from fairmargin.analyses.adequacy import Adequacy
from fairmargin.analyses.audit import AuditResult
from fairmargin.errors import InputError

_Kind = TypeVar("_Kind")

_ROUNDING = 1e-6
_FEWEST_SHARED = (
    0.5  # other references, or another seed, may have changed a few distances; another estimator changes all
)


def as_list(given: Any, kind: type[_Kind], name: str, maker: str) -> list[_Kind]:
    """One thing or several as a list, or a sentence that says what was given instead."""
    if isinstance(given, kind):
        return [given]
    several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for each in several:
        if not isinstance(each, kind):
            kinds = f"`{name}` must be what `{maker}` returned, or a list of such"
            raise InputError(f"{kinds}; given {'' if each is given else 'a list with '}a {type(each).__name__}.")
    return several


def matched(audits: Sequence[AuditResult], adequacies: Sequence[Adequacy]) -> list[Adequacy | None]:
    """For each audit its adequacy, None where there is none; one that belongs nowhere is refused.

    An audit does not know the estimator's name, but it holds all distances: those that the adequacy looked at must be
    among them.
    """
    left, found = list(adequacies), []
    for result in audits:
        own = next((adequacy for adequacy in left if not _mismatch(result, adequacy)), None)
        left = [adequacy for adequacy in left if adequacy is not own]
        found.append(own)
    if left:
        raise InputError(_nowhere(left[0], audits))
    return found


def _mismatch(result: AuditResult, found: Adequacy) -> str:
    """Why an adequacy is not of this audit; empty if it is."""
    if found.partition != result.partition:
        return f"the audit is by {result.partition!r}"
    if (found.norm, found.bound) != (result.norm, result.bound):
        return f"the audit is of {result.bound.words} in {result.norm}"
    if found.groups and {row.group: row.of for row in found} != {row.group: len(row.curve) for row in result}:
        return "the audit has other groups, or other numbers of samples in them"
    if found.groups and _shared(result, found) < _FEWEST_SHARED:
        return "the audit is of other distances, as of another estimator, model or data"
    return ""


def _shared(result: AuditResult, found: Adequacy) -> float:
    """The share of the distances that adequacy looked at that are among those of the audit."""
    hits = []
    for row in found:
        known, looked = result[row.group].curve.values, np.array(row.distances)
        looked = looked[np.isfinite(looked) & (looked > 0)]  # 0 and ∞ tell no two estimators apart
        nearest = known[np.searchsorted(known, looked * (1 - _ROUNDING)).clip(max=len(known) - 1)]
        hits.append(np.abs(nearest - looked) <= _ROUNDING * looked)
    every = np.concatenate(hits)
    return float(every.mean()) if every.size else 1.0


def _nowhere(found: Adequacy, audits: Sequence[AuditResult]) -> str:
    reasons = [_mismatch(result, found) for result in audits]
    same = [reason for result, reason in zip(audits, reasons, strict=True) if result.partition == found.partition]
    why = (same or reasons or ["there is no audit"])[0] or "its audit has another adequacy already"
    return (
        f"The adequacy by {found.partition!r} of {found.estimator or 'an estimator'} ({found.norm}, "
        f"{found.bound.words}) belongs to none of the audits: {why}. Pass the audit of the same distances too."
    )
