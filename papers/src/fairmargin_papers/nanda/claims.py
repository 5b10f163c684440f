"""Rows of Nanda's claims 8 to 16 on networks: agreement of signs, weak groups, the cost of noise, and pre-training."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fairmargin.core.arrays import Bools
from fairmargin.inference.shares import binomial_interval
from fairmargin_papers.nanda.linear import FEW_FACES, NO_FACES, WARNING, counted, explained
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
    agreement,
    counting,
    decided,
    mean_of_both,
    named,
    sigma_of,
    sigmas,
)
from fairmargin_papers.shared.claims import Claim, Side, Verdict, by_all, by_direction, near
from fairmargin_papers.shared.measures import Over
from fairmargin_papers.shared.trained import SeedMean

Look = tuple[str, str]  # estimator and epoch
OVERS: tuple[Over, Over] = ("all", "correct")
# Printed shares of agreement with DeepFool and with C&W, in per cent.
_PRINTED = {
    "cifar10": ("75.00", "76.67"),
    "utkface": ("74.24", "72.73"),
    "cifar100": ("53.83", "54.00"),
    "cifar100-super": ("65.83", "66.67"),
    "adience": ("83.33", "79.63"),
}
_BOTH = "Both bounds are of f."
_EPOCHS = "Epochs of one training are not independent."
# Claim, the two looks that are compared, whether the text names the attack, printed counts, and remark.
_SIGNS: tuple[tuple[int, Look, Look, bool, tuple[int, int], str], ...] = (
    (8, (DEEPFOOL, LAST), (CARLINI, LAST), False, (708, 755), _BOTH),
    (9, (DEEPFOOL, FIRST), (DEEPFOOL, LAST), True, (637, 755), _EPOCHS),
    (9, (CARLINI, FIRST), (CARLINI, LAST), True, (621, 755), _EPOCHS),
    (10, (DEEPFOOL, MIDDLE), (DEEPFOOL, LAST), True, (671, 755), _EPOCHS),
    (10, (CARLINI, MIDDLE), (CARLINI, LAST), True, (665, 755), _EPOCHS),
)
_DIVIDED = "The paper adds 0.125 after dividing CIFAR by 0.5, which is 0.0625 of the pixels. "
_SURE = 20  # number of robust samples that a sign needs, because the intervals of so many comparisons are wide
_ON_PAR = 2.0  # points of accuracy
_WEAK_AND_STRONG: tuple[tuple[str, str, Side], ...] = (
    ("class", "40–59", "below"),
    ("race", "Black", "below"),
    ("class", "0–14", "above"),
    ("race", "Asian", "above"),
)


def network_rows(
    claims: Mapping[int, Claim],
    settings: Sequence[Setting],
    found: Sequence[Measured],
    missing: Mapping[str, str],
    what: str,
) -> list[Claim]:
    """Return the rows of claims 8 to 10, 12, 13, 15 and 16; `what` describes the networks."""
    rows = []
    for number, first, second, names_attack, (agreeing, of), remark in _SIGNS:
        claim = claims[number]
        both, narrow = (network_agreement(found, first, second, over) for over in OVERS)
        rows.append(
            claim.found(
                counted(both),
                decided(both, narrow),
                text=f"{claim.text[:-1]}, by {first[0]}." if names_attack else "",
                printed=f"{agreeing} of {of}" if names_attack else None,
                remark=f"{explained(both, narrow, agreeing / of)} {what} {remark}",
            )
        )
    return [
        *rows,
        *smoothing_rows(claims[12], settings, found, missing),
        *face_rows(claims[13], found, missing),
        *noise_rows(claims[15], found),
        *model_rows(claims[16], found),
    ]


def network_agreement(found: Sequence[Measured], first: Look, second: Look, over: Over = "all") -> Agreement:
    """Return how often σ has the same sign in two looks at the same networks."""
    return agreement(
        {
            each.title: [
                (
                    sigmas(each.distances(network, seed, *first), each.partitions, over),
                    sigmas(each.distances(network, seed, *second), each.partitions, over),
                )
                for network in each.networks
                for seed in each.seeds
            ]
            for each in found
        }
    )


def smoothing_rows(
    claim: Claim, settings: Sequence[Setting], found: Sequence[Measured], missing: Mapping[str, str]
) -> list[Claim]:
    """Compare signs by smoothing with both attacks on each dataset, with intervals over its networks."""
    known = {each.name: each for each in found}
    rows: list[Claim] = []
    for setting in settings:
        for by, printed in zip((DEEPFOOL, CARLINI), _PRINTED.get(setting.name, ("", "")), strict=True):
            text = f"Smoothing agrees with {by} on the sign of σ, {setting.title}."
            shown = f"{printed} %" if printed else ""
            if setting.name not in known:
                rows.append(claim.untested(missing[setting.name], text=text, printed=shown))
                continue
            both, narrow = (
                network_agreement([known[setting.name]], (SMOOTHING, LAST), (by, LAST), over) for over in OVERS
            )
            rows.append(
                claim.found(
                    f"{both.share:.1%} of {both.groups} groups" if both.groups else counted(both),
                    decided(both, narrow),
                    text=text,
                    printed=shown,
                    remark=f"Over {both.units}, which were measured on the same samples. "
                    f"{explained(both, narrow, float(printed) / 100 if printed else None)} {WARNING}"
                    + (f" {FEW_FACES}" if setting.name == "adience" else ""),
                )
            )
    return rows


def face_rows(claim: Claim, found: Sequence[Measured], missing: Mapping[str, str]) -> list[Claim]:
    """Test whether groups of UTKFace are less (or more) robust in all networks, by smoothing as in the paper."""
    faces = next((each for each in found if each.name == "utkface"), None)
    if faces is None:
        return [claim.untested(missing.get("utkface", NO_FACES))]
    rows = []
    for attribute, group, side in _WEAK_AND_STRONG:
        mask = dict(iter(next(each for each in faces.partitions if each.name == attribute)))[group]
        by = {
            name: {
                network: sigma_of([faces.distances(network, seed, name) for seed in faces.seeds], mask)
                for network in faces.networks
            }
            for name in (SMOOTHING, DEEPFOOL)
        }
        said, attack = ([f"{network} {_between(value)}" for network, value in by[name].items()] for name in by)
        rows.append(
            claim.found(
                "; ".join(said),
                in_all(by[SMOOTHING].values(), side),
                text=f"UTKFace, {group}: {'less' if side == 'below' else 'more'} robust in all models.",
                remark=f"σ by smoothing; {int(mask.sum()):,} of {len(mask):,} faces; seeds and samples are both in "
                f"each interval (none where fewer than five faces of the group, or of the rest, are robust). It holds "
                f"if all lie on that side of 0, and does not if one lies on the other. "
                f"By DeepFool: {'; '.join(attack)}.",
            )
        )
    return rows


def _between(value: SeedMean) -> str:
    """Return a mean with its interval as text, or the mean alone if there is no interval."""
    if not np.isfinite(value.interval).all():
        return f"{value.mean:.2f}".replace("-", "−")
    return f"{value.mean:.2f} [{value.low:.2f}, {value.high:.2f}]".replace("-", "−")


def in_all(values: Iterable[SeedMean], side: Side) -> Verdict:
    """Decide whether all numbers lie on one side of 0; one that certainly lies on the other refutes it."""
    return by_all([by_direction(value.interval, side) for value in values])


def noise_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """Compare the accuracy of smoothed and plain networks, with the printed noise and with half of it."""
    rows: list[Claim] = []
    for each in found:
        normalised = each.name.startswith("cifar")  # the paper divides these by 0.5 before it adds noise
        for by, noise in ((SMOOTHING, NOISE), (LESS_NOISE, LITTLE_NOISE)):
            lost = {network: _lost(each, network, by) for network in each.networks}
            text = f"The smoothed classifier is as accurate as the plain one: {each.title}, noise {noise:g}."
            rows.append(
                claim.found(
                    "; ".join(f"{network} {change.text(digits=1)} points" for network, change in lost.items()),
                    by_all([near(change, 0.0, _ON_PAR).verdict for change in lost.values()]),
                    text=text if normalised == (by == LESS_NOISE) else f"(ours) {text}",
                    remark="Noise of pixels in [0, 1]; the networks were not trained with noise. "
                    + (_DIVIDED if normalised else "")
                    + f"On par: within ±{_ON_PAR:g} points in every network; seeds and samples are in the intervals.",
                )
            )
    return rows


def _lost(each: Measured, network: str, by: str) -> SeedMean:
    """Return the accuracy of the smoothed network minus that of the plain one, in points.

    The interval is never narrower than that of no difference among this number of samples.
    """
    plain, voted = (
        np.array([each.distances(network, seed, name).correct for seed in each.seeds], dtype=np.float64)
        for name in (DEEPFOOL, by)
    )
    found, least = mean_of_both(100 * (voted - plain)), 100 * binomial_interval(0, plain.shape[1], 0.95)[1]
    return SeedMean(found.mean, min(found.low, found.mean - least), max(found.high, found.mean + least))


def model_rows(claim: Claim, found: Sequence[Measured]) -> list[Claim]:
    """Count the groups with the same sure sign in all architectures, and those with opposite signs in two."""
    same, opposite, groups = [], [], 0
    for each in found:
        signs = sure_signs(each)
        groups += len(signs)
        for group, of in signs.items():
            if 0 not in of and len(set(of)) == 1:
                same.append(f"{each.title} {group}")
            if {-1, 1} <= set(of):
                opposite.append(f"{each.title} {group}")
    remark = (
        "σ by DeepFool. A network's sign is sure if the interval of σ over samples, corrected for all groups "
        f"and networks of the dataset, excludes 0 for every seed, with at least {_SURE} robust samples on both "
        "sides. If no group is found, nothing is decided."
    )
    return [
        claim.found(
            f"{len(names)} of {groups} groups{': ' + _some(names) if names else ''}",
            "holds" if names else "undecided",
            text=text,
            remark=remark,
        )
        for names, text in (
            (same, "Bias depends on data: in some groups σ has the same sign in all models."),
            (opposite, "Bias depends on the model: in some groups σ has different signs."),
        )
    ]


def sure_signs(each: Measured) -> dict[str, tuple[int, ...]]:
    """Return for each group the sign of σ by DeepFool in each network, 0 if it is not sure for every seed."""
    masks = {
        named(part.name, label): mask for part in each.partitions for label, mask in part if label in counting(part)
    }
    confidence = 1 - 0.05 / (len(masks) * len(each.networks) * len(each.seeds))

    def sign(network: str, mask: Bools) -> int:
        looks = [each.distances(network, seed, DEEPFOOL) for seed in each.seeds]
        limits = [sigma_of([look], mask, confidence, _SURE).interval for look in looks]
        return 1 if all(low > 0 for low, _ in limits) else -1 if all(high < 0 for _, high in limits) else 0

    return {group: tuple(sign(network, mask) for network in each.networks) for group, mask in masks.items()}


def _some(names: Sequence[str], most: int = 6) -> str:
    return ", ".join(names[:most]) + (" …" if len(names) > most else "")
