"""Rows of Nanda's claims 3 to 7 and 11 on logistic regressions: medians, bias of groups, and estimated signs."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin.inference.shares import binomial_interval
from fairmargin_papers.nanda.settings import (
    CARLINI,
    DEEPFOOL,
    EXACT,
    OLD_CARLINI,
    OLD_DEEPFOOL,
    SMOOTHING,
    Setting,
    settings,
)
from fairmargin_papers.nanda.signs import NEGLIGIBLE, Agreement, Measured, agreement, biased, decided, sigma_of, sigmas
from fairmargin_papers.shared.claims import Claim, Decision, Interval, Verdict, by_number, interval_of, near
from fairmargin_papers.shared.measures import Over

WARNING = (
    "Bounds by attacks are about the network f, and smoothing is about the vote g: their agreement should be "
    "read with caution (a warning of the paper)."
)
NO_FACES = "the data of this scale are no faces"
FEW_FACES = "Adience: only 1,586 of some 19,500 faces are available, of 93 people in 3 albums."
_CLOSE = 0.25  # relative difference from the printed median within which a median counts as equal
_TOLERANCE = 0.05  # difference from a printed mean difference that counts as none
_MANNERS = {
    DEEPFOOL: "On a linear model the search back to the boundary makes it nearly exact.",
    CARLINI: "It ends with a search back to the boundary, too.",
    OLD_DEEPFOOL: "Every step overshoots by 5 %, and there is no search back.",
    OLD_CARLINI: "There is neither a search back nor a fallback.",
}
# Printed mean differences and their variances.
_DIFFERENCES = {DEEPFOOL: (0.17, 0.07), CARLINI: (0.19, 0.06), OLD_DEEPFOOL: (0.17, 0.07), OLD_CARLINI: (0.19, 0.06)}


def linear_rows(
    claims: Mapping[int, Claim], chosen: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """Return the rows of claims 3 to 7 and 11."""
    return [
        *median_rows(claims[3], chosen, found, missing),
        *face_rows(claims[4], found, missing),
        *sign_rows(claims[5], found, (DEEPFOOL, OLD_DEEPFOOL)),
        *sign_rows(claims[6], found, (CARLINI, OLD_CARLINI)),
        *difference_rows(claims[7], found),
        *smoothing_rows(claims[11], found),
    ]


def exact_agreement(found: Sequence[Measured], by: str, over: Over = "all") -> Agreement:
    """Return how often an estimator's σ has the sign of the exact one, on logistic regressions."""
    return agreement(
        {
            each.title: [
                (
                    sigmas(each.linear(seed, EXACT), each.linear_partitions, over),
                    sigmas(each.linear(seed, by), each.linear_partitions, over),
                )
                for seed in each.seeds
            ]
            for each in found
        }
    )


def median_rows(
    claim: Claim, chosen: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """Compare the median distance on each dataset, and the order of the datasets, with the paper."""
    known = {each.name: each for each in found}
    rows, limits = [], {}
    for setting in chosen:
        text = f"{claim.text[:-1]}, {setting.title}."
        printed = "" if np.isnan(setting.median) else f"{setting.median:.2f}"
        if setting.name not in known:
            rows.append(claim.untested(missing[setting.name], text=text, printed=printed))
            continue
        exact = [known[setting.name].linear(seed, EXACT) for seed in known[setting.name].seeds]
        right = [each.values[each.correct] for each in exact]
        low, high = zip(*map(median_interval, right), strict=True)
        interval = min(low), max(high)
        if comparable(setting):
            limits[setting.name] = interval
        accuracy = np.mean([each.correct.mean() for each in exact])
        verdicts = {
            by_number((s * interval[0], s * interval[1]), setting.median, _CLOSE * setting.median)
            for s in (1.0, 1 / setting.std)
        }
        decided = bool(printed) and comparable(setting) and len(verdicts) == 1
        rows.append(
            claim.found(
                f"accuracy {accuracy:.1%}, median {np.mean([np.median(values) for values in right]):.3f}",
                Decision(verdicts.pop() if decided else "undecided", interval),
                text=text,
                printed=printed,
                remark=f"Of samples that are classified correctly; the interval spans those of {len(right)} seeds. "
                + _how_compared(setting),
            )
        )
    return [*rows, _order_row(claim, chosen, limits)]


def _how_compared(setting: Setting) -> str:
    said = [
        f"It counts as equal to the printed one within {_CLOSE:.0%}; the paper does not say how long it trains, "
        "on which the median depends."
    ]
    if setting.std != 1:
        said.append(
            "It does not say either whether its distances are of pixels, or of pictures divided by "
            f"{setting.std:g}, in which ours are {1 / setting.std:g} times as large: the verdict must be the "
            "same for both."
        )
    if not comparable(setting):
        said.append(
            "Distances grow with the number of pixels: pictures of another size than the paper's decide nothing."
        )
    return " ".join([*said, *([FEW_FACES] if setting.name == "adience" else [])])


def _order_row(claim: Claim, chosen: Sequence[Setting], limits: Mapping[str, Interval]) -> Claim:
    there = [setting for setting in chosen if setting.name in limits and setting.median > 0]
    ranked = sorted(there, key=lambda setting: -setting.median)
    text = "The order of the datasets by that median, of those with pictures of the paper's size."
    if len(ranked) < 2:
        return claim.untested("fewer than two of the paper's datasets are here", text=text, printed="")
    ours = sorted(ranked, key=lambda setting: -sum(limits[setting.name]))
    return claim.found(
        " > ".join(setting.title for setting in ours),
        by_order([limits[setting.name] for setting in ranked]),
        text=text,
        printed=" > ".join(f"{setting.title} {setting.median:.2f}" for setting in ranked),
        remark="Decided only where the intervals of neighbours in the printed order do not overlap.",
    )


def comparable(setting: Setting) -> bool:
    """Return whether pictures have the size of the paper's, because distances grow with the number of pixels."""
    paper = {each.name: each.linear.get("size") for each in settings("paper")}
    return setting.name in paper and setting.linear.get("size") == paper[setting.name]


def median_interval(values: Floats) -> Interval:
    """Return the 95 % interval of a median by order statistics.

    >>> median_interval(np.arange(1.0, 101.0))
    (40.0, 62.0)
    """
    if not len(values):
        return np.nan, np.nan
    ordered, size = np.sort(values), len(values)
    low, high = binomial_interval(size / 2, size, 0.95)
    return float(ordered[int(low * size)]), float(ordered[min(int(np.ceil(high * size)), size - 1)])


def by_order(intervals: Sequence[Interval]) -> Verdict:
    """Decide whether numbers fall from one to the next; one step that certainly rises refutes it.

    >>> by_order([(3, 4), (1, 2)]), by_order([(1, 2), (3, 4)]), by_order([(1, 3), (2, 4)])
    ('holds', 'does not hold', 'undecided')
    """
    steps = list(pairwise(intervals))
    if any(first[1] < second[0] for first, second in steps):
        return "does not hold"
    return "holds" if all(first[0] > second[1] for first, second in steps) else "undecided"


def face_rows(claim: Claim, found: Sequence[Measured], missing: Mapping[str, str]) -> list[Claim]:
    """Test whether logistic regression on UTKFace is biased for Black, and not for Female."""
    faces = next((each for each in found if each.name == "utkface"), None)
    if faces is None:
        return [claim.untested(missing.get("utkface", NO_FACES))]
    rows = []
    for attribute, group, wanted in (("race", "Black", True), ("gender", "female", False)):
        partition = next(each for each in faces.linear_partitions if each.name == attribute)
        mask = dict(iter(partition))[group]
        value = sigma_of([faces.linear(seed, EXACT) for seed in faces.seeds], mask)
        answer = biased(value.interval)
        verdict: Verdict = "undecided" if answer is None else "holds" if answer == wanted else "does not hold"
        rows.append(
            claim.found(
                f"σ({group}) = {value.mean:.3f}".replace("-", "−"),
                Decision(verdict, interval_of(value)),
                text=f"Logistic regression on UTKFace is {'' if wanted else 'not '}biased for {group}.",
                remark=f"{int(mask.sum()):,} of {len(mask):,} faces; seeds and samples are both in the interval. "
                f"Biased: it excludes 0, however small σ is. Not biased: it does not, and lies within ±{NEGLIGIBLE:g}.",
            )
        )
    return rows


def sign_rows(claim: Claim, found: Sequence[Measured], names: Sequence[str]) -> list[Claim]:
    """Test how often the sign of σ is that of the exact σ, with our estimator and with the published one."""
    rows = []
    for name in names:
        both, narrow = exact_agreement(found, name), exact_agreement(found, name, "correct")
        rows.append(
            claim.found(
                counted(both),
                decided(both, narrow),
                text=f"The sign of σ by {name} is that of the exact σ.",
                remark=f"{explained(both, narrow, 125 / 151)} {_MANNERS[name]}",
            )
        )
    return rows


def difference_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """Compare the mean difference of exact and estimated σ with the paper, one row per attack."""
    rows = []
    for name, (printed, variance) in _DIFFERENCES.items():
        both = exact_agreement(found, name)
        rows.append(
            claim.found(
                f"{both.difference.text()} (variance {both.variance:.4f})",
                near(both.difference, printed, _TOLERANCE),
                text=f"Mean over groups of the exact σ less σ by {name}.",
                printed=f"{printed:.2f} (variance {variance:.2f})",
                remark=f"Interval over {both.units}. σ has no unit, so that the number is compared: it counts as the "
                f"printed one within ±{_TOLERANCE:g}.",
            )
        )
    return rows


def smoothing_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """Compare σ by smoothing with the exact σ: signs, and the mean difference."""
    both, narrow = exact_agreement(found, SMOOTHING), exact_agreement(found, SMOOTHING, "correct")
    return [
        claim.found(
            counted(both),
            decided(both, narrow),
            text="The sign of σ by smoothing is that of the exact σ.",
            printed="101 of 151 = 66.9 %",
            remark=f"{explained(both, narrow, 101 / 151)} {WARNING}",
        ),
        claim.found(
            f"{both.difference.text()} (variance {both.variance:.3f})",
            near(both.difference, 0.08, _TOLERANCE),
            text="Mean over groups of the exact σ less σ by smoothing.",
            printed="0.08 (variance 0.19)",
            remark=f"Interval over {both.units}. It counts as equal to the printed one within ±{_TOLERANCE:g}.",
        ),
    ]


def counted(both: Agreement) -> str:
    """Return the agreement as text: the count, as in the paper, and the mean over datasets."""
    if not both.groups:
        return "no group has a σ in both ways"
    return f"{both.agreeing:.1f} of {both.groups} groups; mean over {both.units} {both.share:.1%}"


def explained(both: Agreement, narrow: Agreement, printed: float | None = None) -> str:
    """Describe an agreement: shares by dataset and over correct samples, and whether the printed share is in it."""
    shares = ", ".join(f"{name} {share:.1%} (chance {chance:.1%})" for name, (share, chance) in both.by.items())
    said = f"{shares}. Over correct samples only: {narrow.share:.1%} (chance {narrow.chance:.1%})."
    low, high = both.interval
    if printed is not None and not low <= printed <= high:
        said += f" The printed share, {printed:.1%}, lies outside of the interval."
    return said
