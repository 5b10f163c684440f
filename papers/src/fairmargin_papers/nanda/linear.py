"""Nanda's logistic regressions: medians, bias by race and gender, and what estimates make of the exact signs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from string import ascii_lowercase

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
from fairmargin_papers.nanda.signs import (
    NEGLIGIBLE,
    Agreement,
    Measured,
    above_chance,
    agreement,
    biased,
    sigma_of,
    sigmas,
    verdict_of,
)
from fairmargin_papers.shared.claims import Claim, Interval, Verdict, by_number
from fairmargin_papers.shared.measures import Over

WARNING = (
    "Bounds by attacks speak of the network f, smoothing of the vote g: too much should not be read into their "
    "agreement (the paper's own warning)."
)
OVERS: tuple[Over, Over] = ("all", "correct")
NO_FACES = "the data of this scale are no faces"
_CLOSE = 0.25  # a median within so much of the printed one counts as that one
_TOLERANCE = 0.05  # of a printed mean difference
_MANNERS = {
    DEEPFOOL: "On a linear model the search back to the boundary makes it all but exact.",
    CARLINI: "It ends with a search back to the boundary, too.",
    OLD_DEEPFOOL: "Every step overshoots by 5 %, and there is no search back.",
    OLD_CARLINI: "There is neither a search back nor a fallback.",
}
FEW_FACES = "Adience: only 1,586 of some 19,500 faces are at hand, of 93 people in 3 albums."


def linear_rows(
    claims: Mapping[int, Claim], chosen: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """Rows 3 to 7 and 11."""
    return [
        *median_rows(claims[3], chosen, found, missing),
        *face_rows(claims[4], found, missing),
        *sign_rows(claims[5], found, (DEEPFOOL, OLD_DEEPFOOL)),
        *sign_rows(claims[6], found, (CARLINI, OLD_CARLINI)),
        *difference_rows(claims[7], found),
        *smoothing_rows(claims[11], found),
    ]


def exact_agreement(found: Sequence[Measured], by: str, over: Over = "all") -> Agreement:
    """How often an estimator's σ has the sign of the exact one, on logistic regressions."""
    return agreement(
        {
            each.title: [
                tuple(sigmas(each.linear(seed, name), each.linear_partitions, over) for name in (EXACT, by))  # type: ignore[misc]
                for seed in each.seeds
            ]
            for each in found
        }
    )


def median_rows(
    claim: Claim, chosen: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """The median distance on each dataset, and the order of the datasets."""
    known = {each.name: each for each in found}
    rows, limits = [], {}
    for letter, setting in zip(ascii_lowercase, chosen, strict=False):
        text = f"{claim.text[:-1]}, {setting.title}."
        printed = "" if np.isnan(setting.median) else f"{setting.median:.2f}"
        if setting.name not in known:
            reason = claim.untested(missing[setting.name])
            rows.append(replace(reason, letter=letter, text=text, printed=printed))
            continue
        measured = known[setting.name]
        right = [exact.values[exact.correct] for exact in (measured.linear(seed, EXACT) for seed in measured.seeds)]
        low, high = zip(*map(median_interval, right), strict=True)
        interval = min(low), max(high)
        if comparable(setting):
            limits[setting.name] = interval
        accuracy = np.mean([measured.linear(seed, EXACT).correct.mean() for seed in measured.seeds])
        verdicts = {
            by_number((s * interval[0], s * interval[1]), setting.median, _CLOSE * setting.median)
            for s in (1.0, 1 / setting.std)
        }
        rows.append(
            claim.found(
                f"accuracy {accuracy:.1%}, median {np.mean([np.median(values) for values in right]):.3f}",
                verdicts.pop() if printed and comparable(setting) and len(verdicts) == 1 else "undecided",
                interval=interval,
                letter=letter,
                text=text,
                printed=printed,
                remark=f"Of samples that are classified correctly; the interval spans those of {len(right)} seeds. "
                + _how_compared(setting),
            )
        )
    rows.append(_order_row(claim, chosen, limits, ascii_lowercase[len(rows)]))
    return rows


def _how_compared(setting: Setting) -> str:
    said = [f"It counts as the printed one within {_CLOSE:.0%}; how long the paper trains is not said, and changes it."]
    if setting.std != 1:
        said.append(
            f"Nor is it said whether its distances are of pixels, or of pictures divided by {setting.std:g}, in which "
            f"ours are {1 / setting.std:g} times as large: decided is what is so in both."
        )
    if not comparable(setting):
        said.append(
            "Distances grow with the number of pixels: pictures of another size than the paper's decide nothing."
        )
    return " ".join([*said, *([FEW_FACES] if setting.name == "adience" else [])])


def _order_row(claim: Claim, chosen: Sequence[Setting], limits: Mapping[str, Interval], letter: str) -> Claim:
    there = [setting for setting in chosen if setting.name in limits and setting.median > 0]
    ranked = sorted(there, key=lambda setting: -setting.median)
    text = "The order of the datasets by that median, of those with pictures of the paper's size."
    printed = " > ".join(f"{setting.title} {setting.median:.2f}" for setting in ranked)
    if len(ranked) < 2:
        reason = "fewer than two of the paper's datasets are here"
        return replace(claim.untested(reason), letter=letter, text=text, printed="")
    ours = sorted(ranked, key=lambda setting: -sum(limits[setting.name]))
    return claim.found(
        " > ".join(setting.title for setting in ours),
        by_order([limits[setting.name] for setting in ranked]),
        letter=letter,
        text=text,
        printed=printed,
        remark="Decided only where the intervals of neighbours in the printed order do not overlap.",
    )


def comparable(setting: Setting) -> bool:
    """Whether pictures have the size that the paper's had: distances grow with the number of pixels."""
    paper = {each.name: each.linear.get("size") for each in settings("paper")}
    return setting.name in paper and setting.linear.get("size") == paper[setting.name]


def median_interval(values: Floats) -> Interval:
    """The 95 % interval of a median by order statistics.

    >>> median_interval(np.arange(1.0, 101.0))
    (40.0, 62.0)
    """
    if not len(values):
        return np.nan, np.nan
    ordered, size = np.sort(values), len(values)
    low, high = binomial_interval(size / 2, size, 0.95)
    return float(ordered[int(low * size)]), float(ordered[min(int(np.ceil(high * size)), size - 1)])


def by_order(intervals: Sequence[Interval]) -> Verdict:
    """Whether numbers fall from one to the next: one step that surely rises decides against it.

    >>> by_order([(3, 4), (1, 2)]), by_order([(1, 2), (3, 4)]), by_order([(1, 3), (2, 4)])
    ('holds', 'does not hold', 'undecided')
    """
    steps = list(pairwise(intervals))
    if any(first[1] < second[0] for first, second in steps):
        return "does not hold"
    return "holds" if all(first[0] > second[1] for first, second in steps) else "undecided"


def face_rows(claim: Claim, found: Sequence[Measured], missing: Mapping[str, str]) -> list[Claim]:
    """Whether logistic regression on UTKFace is biased for Black, and not for Female."""
    faces = next((each for each in found if each.name == "utkface"), None)
    if faces is None:
        return [claim.untested(missing.get("utkface", NO_FACES))]
    rows = []
    for letter, attribute, group, wanted in (("a", "race", "Black", True), ("b", "gender", "female", False)):
        partition = next(each for each in faces.linear_partitions if each.name == attribute)
        mask = dict(iter(partition))[group]
        value = sigma_of([faces.linear(seed, EXACT) for seed in faces.seeds], mask)
        answer = biased(value.interval)
        rows.append(
            claim.found(
                f"σ({group}) = {value.mean:.3f}".replace("-", "−"),
                verdict_of(None if answer is None else answer == wanted),
                interval=value.interval,
                letter=letter,
                text=f"Logistic regression on UTKFace is {'' if wanted else 'not '}biased for {group}.",
                remark=f"{int(mask.sum()):,} of {len(mask):,} faces; seeds and samples are both in the interval. "
                f"Biased: it excludes 0, however small σ is. Not biased: it does not, and lies within ±{NEGLIGIBLE:g}.",
            )
        )
    return rows


def sign_rows(claim: Claim, found: Sequence[Measured], names: Sequence[str]) -> list[Claim]:
    """How often the sign of σ is that of the exact σ: by the estimator as it is here, and as it was published."""
    rows = []
    for letter, name in zip(ascii_lowercase, names, strict=False):
        both, narrow = (exact_agreement(found, name, over) for over in OVERS)
        rows.append(
            claim.found(
                counted(both),
                above_chance(both, narrow),
                interval=both.interval,
                chance=both.level,
                letter=letter,
                text=f"The sign of σ by {name} is that of the exact σ.",
                remark=f"{explained(both, narrow, 125 / 151)} {_MANNERS[name]}",
            )
        )
    return rows


def difference_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """The mean difference of exact and estimated σ, with a row for each attack."""
    rows = []
    known = {DEEPFOOL: (0.17, 0.07), CARLINI: (0.19, 0.06)}
    known |= {OLD_DEEPFOOL: known[DEEPFOOL], OLD_CARLINI: known[CARLINI]}
    for letter, (name, (printed, variance)) in zip(ascii_lowercase, known.items(), strict=False):
        both = exact_agreement(found, name)
        rows.append(
            claim.found(
                f"{both.difference.text()} (variance {both.variance:.4f})",
                by_number(both.difference.interval, printed, _TOLERANCE),
                interval=both.difference.interval,
                letter=letter,
                text=f"Mean over groups of the exact σ less σ by {name}.",
                printed=f"{printed:.2f} (variance {variance:.2f})",
                remark=f"Interval over {both.units}. σ has no unit, so that the number is compared: it counts as the "
                f"printed one within ±{_TOLERANCE:g}.",
            )
        )
    return rows


def smoothing_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """Smoothing against the exact σ: signs, and the mean difference."""
    both, narrow = (exact_agreement(found, SMOOTHING, over) for over in OVERS)
    return [
        claim.found(
            counted(both),
            above_chance(both, narrow),
            interval=both.interval,
            chance=both.level,
            letter="a",
            text="The sign of σ by smoothing is that of the exact σ.",
            printed="101 of 151 = 66.9 %",
            remark=f"{explained(both, narrow, 101 / 151)} {WARNING}",
        ),
        claim.found(
            f"{both.difference.text()} (variance {both.variance:.3f})",
            by_number(both.difference.interval, 0.08, _TOLERANCE),
            interval=both.difference.interval,
            letter="b",
            text="Mean over groups of the exact σ less σ by smoothing.",
            printed="0.08 (variance 0.19)",
            remark=f"Interval over {both.units}. It counts as the printed one within ±{_TOLERANCE:g}.",
        ),
    ]


def counted(both: Agreement) -> str:
    """The agreement as the paper gives it, and as a mean over datasets."""
    if not both.groups:
        return "no group has a σ in both ways"
    return f"{both.agreeing:.1f} of {both.groups} groups; mean over {both.units} {both.share:.1%}"


def explained(both: Agreement, narrow: Agreement, printed: float | None = None) -> str:
    """The shares of each dataset, the same over correct samples, and whether the interval has the printed share."""
    shares = ", ".join(f"{name} {share:.1%} (chance {chance:.1%})" for name, (share, chance) in both.by.items())
    said = f"{shares}. Over correct samples only: {narrow.share:.1%} (chance {narrow.chance:.1%})."
    low, high = both.interval
    if printed is not None and not low <= printed <= high:
        said += f" The printed share, {printed:.1%}, lies outside of the interval."
    return said
