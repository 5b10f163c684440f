"""Rows of Ma's claims 7 to 16: radii, classes, FAT against Madry's method, and the weight λ."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.measures import (
    Place,
    Swept,
    attack_number,
    guarded,
    mean_accuracy,
    places_of,
    relative_change,
    share_of_cells,
    variation,
    vcra,
    worst_class,
)
from fairmargin_papers.ma.sweep import CALLED, FAT, FAT_TRADES, FGSM, MADRY, MARGIN, PGD, TRADES, WEIGHT, weighted
from fairmargin_papers.shared.claims import Claim, Side, agreed, directed, near
from fairmargin_papers.shared.trained import SeedMean, over_seeds, slope_over_seeds

STEP = 4  # slopes are per this many 1/255
CHANGES: Mapping[str, tuple[int, Side, str]] = {  # position in CIFAR-10, side, printed points
    "cat": (3, "below", "−4.2"),
    "deer": (4, "below", "−3.8"),
    "horse": (7, "above", "+11.5"),
    "ship": (8, "above", "+28.2"),
}
TEST = 16  # test radius of the rows, in 1/255
CHANCE = 0.5
COMPARABLE = 2.0  # differences of accuracy, in points, that count as comparable

_VCRA, _ACCURACY, _RELATIVE = "VCRA", "robust accuracy", "coefficient of variation"
# The measure, its unit, and the unit of its changes.
_MEASURES: Mapping[str, tuple[Callable[[Floats, Floats], Floats], str, str]] = {
    _VCRA: (lambda shares, sizes: 100 * vcra(shares, sizes), "·10⁻²", "·10⁻²"),
    _ACCURACY: (lambda shares, _: 100 * mean_accuracy(shares), " %", " points"),
    _RELATIVE: (variation, "", ""),
}
_WHY_RELATIVE = (
    "√VCRA ÷ mean robust accuracy. VCRA is forced towards 0 where hardly any sample withstands the attack, so "
    "that it must rise when accuracy rises from there; the ratio need not, and in Madry’s printed numbers it "
    "falls."
)
# Rows 7 to 10: claim, method, attack, measure.
_ROWS = (
    (7, MADRY, FGSM, _VCRA),
    (7, MADRY, FGSM, _RELATIVE),
    (8, MADRY, FGSM, _ACCURACY),
    (9, MADRY, PGD, _VCRA),
    (9, MADRY, PGD, _ACCURACY),
    (9, MADRY, MARGIN, _VCRA),
    (9, MADRY, MARGIN, _ACCURACY),
    (9, MADRY, PGD, _RELATIVE),
    (9, MADRY, MARGIN, _RELATIVE),
    *((10, TRADES, attack, measure) for attack in (FGSM, PGD, MARGIN) for measure in (_VCRA, _ACCURACY)),
    *((10, TRADES, attack, _RELATIVE) for attack in (FGSM, PGD, MARGIN)),
)
# Table 1, ResNet-18 at 16/255; the coefficients of variation follow from it.
_PRINTED = {
    (MADRY, FGSM, _VCRA): "1.90 → 3.52·10⁻² (ResNet-18)",
    (MADRY, FGSM, _ACCURACY): "29.04 → 42.94 %",
    (MADRY, FGSM, _RELATIVE): "0.47 → 0.44, from its table",
    (MADRY, PGD, _VCRA): "0.10 → 1.28·10⁻²",
    (MADRY, PGD, _ACCURACY): "3.54 → 22.50 %",
    (MADRY, PGD, _RELATIVE): "0.89 → 0.50, from its table",
    (MADRY, MARGIN, _VCRA): "0.11 → 1.38·10⁻²",
    (MADRY, MARGIN, _ACCURACY): "3.61 → 22.03 %",
    (MADRY, MARGIN, _RELATIVE): "0.92 → 0.53, from its table",
}
_CELLS = (
    "A cell is ε_train × attack × ε_test, of each seed. Cells are not independent: the interval is over seeds (one "
    "share each), and never narrower than that of as many coin flips as there are pairs of networks."
)
_SLOTS = (
    "The variance between classes is taken over those that the batch holds. The published code takes it over 100 "
    "slots, 90 of them empty with 10 classes, and so mostly penalises the mean; `fat:published=true` does the same "
    "and was not run."
)


def sweep_rows(claims: Mapping[int, Claim], swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of claims 7 to 10: whether accuracy and its variance over classes rise with the radius."""
    found = []
    for number, method, attack, name in _ROWS:
        measure, unit, changes = _MEASURES[name]
        radii = swept.sweep.radii[method]
        values = measure(swept.at(method, attack, TEST), swept.sizes)
        slope = slope_of(radii, values)
        said = f"{name[:1].upper()}{name[1:]} of {CALLED[method]} rises with ε_train under {attack} {TEST}/255."
        why = _WHY_RELATIVE if name == _RELATIVE else ""
        row = claims[number].found(
            f"{path(values, unit)}; slope {signed(slope)}{changes} per {STEP}/255",
            directed(slope, "above"),
            remark=" ".join(filter(None, (remark, why, given_up(swept, method, attack)))),
            text=f"(ours) {said}" if name == _RELATIVE else said,
            printed=_PRINTED.get((method, attack, name), ""),
        )
        found += guarded([row], swept, places_of(swept, method))
    return found


def given_up(swept: Swept, method: str, attack: str) -> str:
    """Say how many classes have a robust accuracy of 0 after training with the largest radius."""
    shares = swept.at(method, attack, TEST)[:, -1].mean(axis=0)
    none = int((shares == 0).sum())
    if not none:
        return ""
    radius = swept.sweep.radii[method][-1]
    return (
        f"Trained with {radius}/255, {none} of {len(shares)} classes have a robust accuracy of 0, which is part of "
        "the spread."
    )


def slope_of(radii: Sequence[int], values: Floats) -> SeedMean | None:
    """Return the slope along the radii per `STEP`; None if a number is undefined for some seed.

    >>> slope_of((4, 8), np.array([[1.0, 2.0], [1.0, 2.0]])).mean
    1.0
    >>> slope_of((4, 8), np.array([[np.nan, 2.0]])) is None
    True
    """
    if not np.isfinite(values).all():
        return None
    return slope_over_seeds([radius / STEP for radius in radii], values)


def path(values: Floats, unit: str) -> str:
    """Return the values of a sweep, averaged over seeds, as text.

    >>> path(np.array([[1.0, 5.0, 2.0], [2.0, 5.0, 4.0]]), " %")
    '1.50 → 5.00 → 3.00 %'
    """
    return " → ".join(f"{mean:.2f}" for mean in values.mean(axis=0)) + unit


def signed(estimate: SeedMean | None) -> str:
    """Return an estimate with its sign as text.

    >>> signed(over_seeds([1.0, 1.1])), signed(None)
    ('+1.05 ± 0.64', 'not defined: for some seed nothing withstands')
    """
    return "not defined: for some seed nothing withstands" if estimate is None else estimate.signed(2)


def class_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of claim 11: the changes of the four classes that the paper prints, and of the worst class."""
    shares, radii = 100 * swept.at(MADRY, FGSM, TEST), swept.sweep.radii[MADRY]
    remark = f"{remark} {given_up(swept, MADRY, FGSM)}".strip()
    rows = []
    for name, (place, side, printed) in CHANGES.items():
        change = over_seeds(shares[:, -1, place] - shares[:, 0, place])
        label = swept.classes[place]
        called = name if name == label else f"{name} (here: {label})"
        word = "falls" if side == "below" else "rises"
        rows.append(
            claim.found(
                f"{path(shares[:, :, place], ' %')}; {signed(change)} points",
                directed(change, side),
                remark=remark,
                text=f"Robust accuracy of {called} {word} from ε_train = {radii[0]}/255 to {radii[-1]}/255 "
                f"(FGSM {TEST}/255).",
                printed=f"{printed} points (ResNet-50)",
            )
        )
    worst = worst_class(shares)
    slope = slope_of(radii, worst)
    rows.append(
        claim.found(
            f"{path(worst, ' %')}; slope {signed(slope)} points per {STEP}/255",
            directed(slope, "below"),
            text="(ours) The worst class’s robust accuracy falls with ε_train (whichever class it is).",
            printed="12.0 → 7.8 % among the four classes printed",
            remark=f"{remark} A class at 0 can fall no further.",
        )
    )
    return rows


def fat_rows(claims: Mapping[int, Claim], swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of claims 12 to 14: VCRA and robust accuracy of FAT against those of Madry's method, by cell."""
    plain, fair = swept.along(MADRY), swept.along(FAT)
    spreads = vcra(plain, swept.sizes), vcra(fair, swept.sizes)
    place = (slice(None), slice(None), attack_number(MARGIN), swept.sweep.tests.index(TEST))
    change, margin = relative_change(spreads[1], spreads[0]), relative_change(spreads[1][place], spreads[0][place])
    more = 100 * _cells(mean_accuracy(fair)) - 100 * _cells(mean_accuracy(plain))
    lower, higher = share_of_cells(_cells(spreads[0] - spreads[1])), share_of_cells(more)
    gain = over_seeds(more.mean(axis=(1, 2)))
    return [
        claims[12].found(f"lower in {lower}", agreed(lower, CHANCE), remark=f"{remark} {_CELLS}"),
        claims[12].found(
            f"{signed(change)} %",
            directed(change, "below"),
            text="(ours) By how much: the sum of VCRA over all cells.",
            printed="−8.3 % from its table",
            remark=f"{remark} {_SLOTS}",
        ),
        claims[13].found(
            f"higher in {higher}",
            agreed(higher, CHANCE),
            text="FAT’s robust accuracy is higher than Madry’s.",
            remark=f"{remark} {_CELLS}",
        ),
        claims[13].found(
            f"{signed(gain)} points",
            near(gain, 0.0, COMPARABLE),
            text=f"FAT’s robust accuracy is comparable: within {COMPARABLE:g} points on average over the cells.",
            printed="+0.31 points from its table",
            remark=remark,
        ),
        claims[14].found(
            f"{signed(margin)} %",
            directed(margin, "below"),
            printed="≈ −16 % (−14.7 % from the sums of its table)",
            remark=f"{remark} The sum over ε_train; “C&W” is PGD on the margin loss of Carlini and Wagner.",
        ),
    ]


def _cells(values: Floats) -> Floats:
    """Reshape (seeds, radii, attacks, tests) to (seeds, radii, cells)."""
    return values.reshape(*values.shape[:2], -1)


def _by_weight(swept: Swept) -> dict[float, Place]:
    """Return the networks by λ; Madry's method has λ = 0."""
    methods = {0.0: MADRY, WEIGHT: FAT} | {weight: weighted(weight) for weight in swept.sweep.weights}
    return {weight: (methods[weight], swept.sweep.weights_at) for weight in sorted(methods)}


def weight_places(swept: Swept) -> tuple[Place, ...]:
    """Return the networks that are compared along λ, in ascending order of λ."""
    return tuple(_by_weight(swept).values())


def weight_values(swept: Swept, attack: str) -> tuple[tuple[float, ...], Floats, Floats]:
    """Return the values of λ (0 is Madry), and VCRA ·10⁻² and robust accuracy in per cent: (seeds, values of λ)."""
    places = _by_weight(swept)
    at = (slice(None), attack_number(attack), swept.sweep.tests.index(TEST))
    shares = np.stack([swept.shares[place][at] for place in places.values()], axis=1)
    return tuple(places), 100 * vcra(shares, swept.sizes), 100 * mean_accuracy(shares)


def weight_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of claim 15: VCRA and accuracy along λ, whose values count as equally spaced."""
    order, spread, rate = weight_values(swept, PGD)
    slope = slope_over_seeds(range(len(order)), spread)
    change = over_seeds(rate[:, -1] - rate[:, 0])
    values = ", ".join(f"{weight:g}" for weight in order)
    where = f"ε_train = {swept.sweep.weights_at}/255, PGD-20 {TEST}/255"
    return [
        claim.found(
            f"{path(spread, '·10⁻²')}; slope {signed(slope)}·10⁻² from one value to the next",
            directed(slope, "below"),
            text=f"VCRA falls as λ grows ({values}; {where}).",
            remark=f"{remark} λ = 0 is Madry’s method. The paper’s figure is in its appendix, which is not available: "
            "this reading of “sensitivity” is ours.",
        ),
        claim.found(
            f"{path(rate, ' %')}; {signed(change)} points",
            near(change, 0.0, COMPARABLE),
            text=f"Robust accuracy stays within {COMPARABLE:g} points from λ = 0 to the largest ({where}).",
            remark=remark,
        ),
    ]


def on_trades_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of the second half of claim 16: FAT on TRADES against TRADES."""
    radii = swept.sweep.radii[FAT_TRADES]
    return _against(claim, swept, (TRADES, FAT_TRADES), radii, "FAT on TRADES", remark)


def further_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Return the rows of the first half of claim 16: Madry's method and FAT on CIFAR-100."""
    radii, rows = swept.sweep.radii[MADRY], []
    for name in (_VCRA, _ACCURACY):
        measure, unit, changes = _MEASURES[name]
        values = measure(swept.at(MADRY, PGD, TEST), swept.sizes)
        change = over_seeds(values[:, -1] - values[:, 0])
        rows.append(
            claim.found(
                f"{path(values, unit)}; {signed(change)}{changes}",
                directed(change, "above"),
                text=f"{name[:1].upper()}{name[1:]} of {CALLED[MADRY]} on {swept.sweep.title} rises from "
                f"ε_train = {radii[0]}/255 to {radii[-1]}/255 (PGD-20 {TEST}/255).",
                remark=remark,
            )
        )
    return rows + _against(claim, swept, (MADRY, FAT), radii, f"FAT on {swept.sweep.title}", remark)


def _against(
    claim: Claim, swept: Swept, pair: tuple[str, str], radii: Sequence[int], name: str, remark: str
) -> list[Claim]:
    plain, fair = (vcra(swept.along(method, radii), swept.sizes) for method in pair)
    lower, change = share_of_cells(_cells(plain - fair)), relative_change(fair, plain)
    return [
        claim.found(
            f"lower in {lower}", agreed(lower, CHANCE), text=f"{name} lowers VCRA.", remark=f"{remark} {_CELLS}"
        ),
        claim.found(
            f"{signed(change)} %",
            directed(change, "below"),
            text=f"(ours) By how much {name} lowers the sum of VCRA over all cells.",
            remark=remark,
        ),
    ]
