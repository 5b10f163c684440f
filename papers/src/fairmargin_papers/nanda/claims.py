"""Nanda's networks: do attacks, smoothing and epochs agree, who is weak in all of them, and what does noise cost?"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from string import ascii_lowercase

import numpy as np

from fairmargin.core.distances import Distances
from fairmargin.inference.shares import binomial_interval
from fairmargin_papers.nanda.linear import FEW_FACES, NO_FACES, OVERS, WARNING, counted, explained
from fairmargin_papers.nanda.settings import (
    CARLINI,
    DEEPFOOL,
    FIRST,
    LAST,
    LESS_NOISE,
    LITTLE_NOISE,
    MIDDLE,
    NOISE,
    SMOOTHING,
    Setting,
)
from fairmargin_papers.nanda.signs import (
    Agreement,
    Measured,
    above_chance,
    agreement,
    counting,
    mean_of_both,
    named,
    sigma_of,
    sigmas,
)
from fairmargin_papers.shared.claims import Claim, Interval, Side, Verdict, by_all, by_direction, by_number
from fairmargin_papers.shared.measures import Over
from fairmargin_papers.shared.trained import SeedMean

Look = tuple[str, str]  # estimator, epoch
_PRINTED = {"cifar10": ("75.00", "76.67"), "utkface": ("74.24", "72.73"), "cifar100": ("53.83", "54.00"),
            "cifar100-super": ("65.83", "66.67"), "adience": ("83.33", "79.63")}  # fmt: skip
_DIVIDED = "The paper adds 0.125 after dividing CIFAR by 0.5, which is 0.0625 of the pixels. "
_SURE = 20  # robust samples that a sign needs: limits of so many comparisons lie far out
_ON_PAR = 2.0  # points of accuracy
_WEAK_AND_STRONG: tuple[tuple[str, str, Side], ...] = (
    ("class", "40–59", "below"), ("race", "Black", "below"), ("class", "0–14", "above"), ("race", "Asian", "above"),
)  # fmt: skip


def network_rows(
    claims: Mapping[int, Claim],
    settings: Sequence[Setting],
    found: Sequence[Measured],
    missing: Mapping[str, str],
    what: str,
) -> list[Claim]:
    """Rows 8 to 10, 12, 13, 15 and 16; `what` says with which networks."""
    trained = [each for each in found if each.networks]
    if not trained:
        reason = next(iter(missing.values()), "no network was trained")
        return [claims[number].untested(reason) for number in (8, 9, 10, 12, 13, 15, 16)]
    epochs = "Epochs of one training are not independent."
    return [
        _signs_row(claims[8], trained, (DEEPFOOL, LAST), (CARLINI, LAST), "", f"{what} Both bounds are of f."),
        _signs_row(claims[9], trained, (DEEPFOOL, FIRST), (DEEPFOOL, LAST), "a", f"{what} {epochs}", "637 of 755"),
        _signs_row(claims[9], trained, (CARLINI, FIRST), (CARLINI, LAST), "b", f"{what} {epochs}", "621 of 755"),
        _signs_row(claims[10], trained, (DEEPFOOL, MIDDLE), (DEEPFOOL, LAST), "a", f"{what} {epochs}", "671 of 755"),
        _signs_row(claims[10], trained, (CARLINI, MIDDLE), (CARLINI, LAST), "b", f"{what} {epochs}", "665 of 755"),
        *smoothing_rows(claims[12], settings, trained, missing),
        *face_rows(claims[13], trained, missing),
        *noise_rows(claims[15], trained),
        *model_rows(claims[16], trained),
    ]


def network_agreement(found: Sequence[Measured], first: Look, second: Look, over: Over = "all") -> Agreement:
    """How often σ has the same sign in two looks at the same networks."""
    return agreement(
        {
            each.title: [
                tuple(sigmas(each.distances(network, seed, *look), each.partitions, over) for look in (first, second))  # type: ignore[misc]
                for network in each.networks
                for seed in each.seeds
            ]
            for each in found
        }
    )


def _signs_row(
    claim: Claim, found: Sequence[Measured], first: Look, second: Look, letter: str, remark: str, printed: str = ""
) -> Claim:
    both, narrow = (network_agreement(found, first, second, over) for over in OVERS)
    text = claim.text if not letter else f"{claim.text[:-1]}, by {first[0]}."
    return claim.found(
        counted(both),
        above_chance(both, narrow),
        interval=both.interval,
        chance=both.level,
        letter=letter,
        text=text,
        printed=printed or claim.printed,
        remark=f"{explained(both, narrow, _share(printed or claim.printed))} {remark}",
    )


def _share(printed: str) -> float | None:
    """ "637 of 755" as a share."""
    words = printed.split()
    return int(words[0]) / int(words[2]) if words[1:2] == ["of"] else None


def smoothing_rows(
    claim: Claim, settings: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """Smoothing against both attacks, on each dataset; intervals over its networks."""
    known = {each.name: each for each in found}
    rows: list[Claim] = []
    for setting in settings:
        for by, printed in zip((DEEPFOOL, CARLINI), _PRINTED.get(setting.name, ("", "")), strict=True):
            letter = ascii_lowercase[len(rows)]
            text = f"Smoothing agrees with {by} on the sign of σ, {setting.title}."
            shown = f"{printed} %" if printed else ""
            if setting.name not in known:
                reason = missing.get(setting.name, "no network is trained on it here")
                rows.append(replace(claim.untested(reason), letter=letter, text=text, printed=shown))
                continue
            both, narrow = (
                network_agreement([known[setting.name]], (SMOOTHING, LAST), (by, LAST), over) for over in OVERS
            )
            rows.append(
                claim.found(
                    f"{both.share:.1%} of {both.groups} groups" if both.groups else counted(both),
                    above_chance(both, narrow),
                    interval=both.interval,
                    chance=both.level,
                    letter=letter,
                    text=text,
                    printed=shown,
                    remark=f"Over {both.units}, which were measured on the same samples. "
                    f"{explained(both, narrow, float(printed) / 100 if printed else None)} {WARNING}"
                    + (f" {FEW_FACES}" if setting.name == "adience" else ""),
                )
            )
    return rows


def face_rows(claim: Claim, found: Sequence[Measured], missing: Mapping[str, str]) -> list[Claim]:
    """Groups of UTKFace that are less, or more, robust in all networks, by smoothing as in the paper."""
    faces = next((each for each in found if each.name == "utkface"), None)
    if faces is None:
        return [claim.untested(missing.get("utkface", NO_FACES))]
    rows = []
    for letter, (attribute, group, side) in zip(ascii_lowercase, _WEAK_AND_STRONG, strict=False):
        mask = dict(iter(next(each for each in faces.partitions if each.name == attribute)))[group]
        by = {
            name: {
                network: sigma_of([faces.distances(network, seed, name) for seed in faces.seeds], mask)
                for network in faces.networks
            }
            for name in (SMOOTHING, DEEPFOOL)
        }
        said, attack = ([f"{network} {_between(value)}" for network, value in by[name].items()] for name in by)
        verdict = in_all([value.interval for value in by[SMOOTHING].values()], side)
        rows.append(
            claim.found(
                "; ".join(said),
                verdict,
                letter=letter,
                text=f"UTKFace, {group}: {'less' if side == 'below' else 'more'} robust in all models.",
                remark=f"σ by smoothing; {int(mask.sum()):,} of {len(mask):,} faces; seeds and samples are both in "
                f"each interval (none where fewer than five faces of the group, or of the rest, are robust). It holds "
                f"if all lie on that side of 0, and does not if one lies on the other. "
                f"By DeepFool: {'; '.join(attack)}.",
            )
        )
    return rows


def _between(value: SeedMean) -> str:
    """ "−0.84 [−0.90, −0.76]"; the number alone where there is no interval."""
    if not np.isfinite(value.interval).all():
        return f"{value.mean:.2f}".replace("-", "−")
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]".replace("-", "−")


def in_all(intervals: Sequence[Interval], side: Side) -> Verdict:
    """Whether all numbers lie on one side of 0: one that surely does not decides against it.

    >>> in_all([(0.1, 0.2), (0.3, 0.4)], "above"), in_all([(0.1, 0.2), (-0.4, -0.3)], "above")
    ('holds', 'does not hold')
    """
    return by_all([by_direction(interval, side) for interval in intervals])


def noise_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """What the vote under noise loses in accuracy, by network; with the paper's number as noise of pixels, and half."""
    rows: list[Claim] = []
    for each in found:
        normalised = each.name.startswith("cifar")  # the paper divides these by 0.5, and adds noise after that
        for by, noise in ((SMOOTHING, NOISE), (LESS_NOISE, LITTLE_NOISE)):
            lost = {network: _lost(each, network, by) for network in each.networks}
            text = f"The smoothed classifier is as accurate as the plain one: {each.title}, noise {noise:g}."
            rows.append(
                claim.found(
                    "; ".join(f"{network} {change.text(digits=1)} points" for network, change in lost.items()),
                    by_all([by_number(change.interval, 0.0, _ON_PAR) for change in lost.values()]),
                    letter=ascii_lowercase[len(rows)],
                    text=text if normalised == (by == LESS_NOISE) else f"(ours) {text}",
                    remark="Noise of pixels in [0, 1]; the networks were not trained with noise. "
                    + (_DIVIDED if normalised else "")
                    + f"On par: within ±{_ON_PAR:g} points in every network; seeds and samples are in the intervals.",
                )
            )
    return rows


def _lost(each: Measured, network: str, by: str) -> SeedMean:
    """Points of accuracy that the vote gains over the network."""
    plain, voted = (
        np.array([each.distances(network, seed, name).correct for seed in each.seeds], dtype=np.float64)
        for name in (DEEPFOOL, by)
    )
    return _at_least(mean_of_both(100 * (voted - plain)), plain.shape[1])


def _at_least(found: SeedMean, samples: int) -> SeedMean:
    """No difference among so many samples is no certainty: never narrower than that of 0 hits, in points."""
    least = 100 * binomial_interval(0, samples, 0.95)[1]
    return SeedMean(found.mean, min(found.low, found.mean - least), max(found.high, found.mean + least))


def model_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """In how many groups all architectures have the same sure sign, and in how many two have opposite ones."""
    same, opposite, groups = [], [], 0
    for each in found:
        signs = sure_signs(each, lambda network, seed, each=each: each.distances(network, seed, DEEPFOOL))  # type: ignore[misc]
        groups += len(signs)
        for group, of in signs.items():
            if 0 not in of and len(set(of)) == 1:
                same.append(f"{each.title} {group}")
            if {-1, 1} <= set(of):
                opposite.append(f"{each.title} {group}")
    remark = (
        "σ by DeepFool. A network's sign is sure if the interval of σ over samples, corrected for all groups and "
        "networks of the dataset, excludes 0 for every seed, with at least "
        f"{_SURE} robust samples on both sides. That no group is found decides nothing."
    )
    return [
        claim.found(
            f"{len(names)} of {groups} groups{': ' + _some(names) if names else ''}",
            "holds" if names else "undecided",
            letter=letter,
            text=text,
            remark=remark,
        )
        for letter, names, text in (
            ("a", same, "Bias depends on data: in some groups σ has the same sign in all models."),
            ("b", opposite, "Bias depends on the model: in some groups σ has different signs."),
        )
    ]


def sure_signs(each: Measured, look: Callable[[str, int], Distances]) -> dict[str, tuple[int, ...]]:
    """For each group the sign of σ in each network, 0 where it is not sure for every seed."""
    masks = {
        named(part.name, label): mask for part in each.partitions for label, mask in part if label in counting(part)
    }
    confidence = 1 - 0.05 / (len(masks) * len(each.networks) * len(each.seeds))
    found = {}
    for group, mask in masks.items():
        signs = []
        for network in each.networks:
            limits = [sigma_of([look(network, seed)], mask, confidence, _SURE).interval for seed in each.seeds]
            signs.append(1 if all(low > 0 for low, _ in limits) else -1 if all(high < 0 for _, high in limits) else 0)
        found[group] = tuple(signs)
    return found


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
