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
from fairmargin_papers.ma.sweep import (
    CALLED,
    FAT,
    FAT_TRADES,
    FGSM,
    MADRY,
    MARGIN,
    PGD,
    TRADES,
    WEIGHT,
    weighted,
)
from fairmargin_papers.shared.claims import Claim, Interval, Side, Verdict, by_agreement, by_direction, by_number
from fairmargin_papers.shared.trained import SeedMean, over_seeds, slope_over_seeds

STEP = 4  # slopes are told for so many steps of a byte
CHANGES: Mapping[str, tuple[int, Side, str]] = {  # position in CIFAR-10, side, printed points
    "cat": (3, "below", "−4.2"),
    "deer": (4, "below", "−3.8"),
    "horse": (7, "above", "+11.5"),
    "ship": (8, "above", "+28.2"),
}
TEST = 16  # the radius attacked with in rows
Measure = Callable[[Floats], Floats]


def sweep_rows(claims: Mapping[int, Claim], swept: Swept, remark: str) -> list[Claim]:
    """Rows 7 to 10."""

    def spread(shares: Floats) -> Floats:
        return 100 * vcra(shares, swept.sizes)

    def accuracy(shares: Floats) -> Floats:
        return 100 * mean_accuracy(shares)

    def relative(shares: Floats) -> Floats:
        return variation(shares, swept.sizes)

    # the measure, its unit, and that of its changes
    measures: dict[str, tuple[Measure, str, str]] = {
        "VCRA": (spread, "·10⁻²", "·10⁻²"),
        "robust accuracy": (accuracy, " %", " points"),
        _RELATIVE: (relative, "", ""),
    }

    explained = {"VCRA": "", "robust accuracy": "", _RELATIVE: _WHY_RELATIVE}

    def row(number: int, letter: str, method: str, attack: str, name: str) -> Claim:
        measure, unit, changes = measures[name]
        radii = swept.sweep.radii[method]
        values = measure(swept.at(method, attack, TEST))
        slope = slope_of(radii, values)
        verdict, interval = decided(slope, "above")
        said = f"{name[:1].upper()}{name[1:]} of {CALLED[method]} rises with ε_train under {attack} {TEST}/255."
        return claims[number].found(
            f"{path(values, unit)}; slope {signed(slope)}{changes} per {STEP}/255",
            verdict,
            interval=interval,
            remark=" ".join(filter(None, (remark, explained[name], given_up(swept, method, attack)))),
            letter=letter,
            text=f"(ours) {said}" if name == _RELATIVE else said,
            printed=_PRINTED.get((method, attack, name), ""),
        )

    return [guarded([row(*each)], swept, places_of(swept, each[2]))[0] for each in _ROWS]


_RELATIVE = "coefficient of variation"
_WHY_RELATIVE = (
    "√VCRA ÷ mean robust accuracy. VCRA is forced towards 0 where hardly anything withstands the attack, so that it "
    "must rise when accuracy rises from there; the ratio need not, and in Madry’s printed numbers it falls."
)


def given_up(swept: Swept, method: str, attack: str) -> str:
    """Say how many classes have a robust accuracy of 0 after training with the largest radius."""
    shares = swept.at(method, attack, TEST)[:, -1].mean(axis=0)
    none = int((shares == 0).sum())
    if not none:
        return ""
    radius = swept.sweep.radii[method][-1]
    return f"Trained with {radius}/255, {none} of {len(shares)} classes withstand nothing: part of the spread is that."


_ROWS = (
    (7, "a", MADRY, FGSM, "VCRA"),
    (7, "b", MADRY, FGSM, _RELATIVE),
    (8, "", MADRY, FGSM, "robust accuracy"),
    (9, "a", MADRY, PGD, "VCRA"),
    (9, "b", MADRY, PGD, "robust accuracy"),
    (9, "c", MADRY, MARGIN, "VCRA"),
    (9, "d", MADRY, MARGIN, "robust accuracy"),
    (9, "e", MADRY, PGD, _RELATIVE),
    (9, "f", MADRY, MARGIN, _RELATIVE),
    (10, "a", TRADES, FGSM, "VCRA"),
    (10, "b", TRADES, FGSM, "robust accuracy"),
    (10, "c", TRADES, PGD, "VCRA"),
    (10, "d", TRADES, PGD, "robust accuracy"),
    (10, "e", TRADES, MARGIN, "VCRA"),
    (10, "f", TRADES, MARGIN, "robust accuracy"),
    (10, "g", TRADES, FGSM, _RELATIVE),
    (10, "h", TRADES, PGD, _RELATIVE),
    (10, "i", TRADES, MARGIN, _RELATIVE),
)
# Table 1, ResNet-18 at 16/255; the coefficients of variation follow from it.
_PRINTED = {
    (MADRY, FGSM, "VCRA"): "1.90 → 3.52·10⁻² (ResNet-18)",
    (MADRY, FGSM, "robust accuracy"): "29.04 → 42.94 %",
    (MADRY, FGSM, _RELATIVE): "0.47 → 0.44, from its table",
    (MADRY, PGD, "VCRA"): "0.10 → 1.28·10⁻²",
    (MADRY, PGD, "robust accuracy"): "3.54 → 22.50 %",
    (MADRY, PGD, _RELATIVE): "0.89 → 0.50, from its table",
    (MADRY, MARGIN, "VCRA"): "0.11 → 1.38·10⁻²",
    (MADRY, MARGIN, "robust accuracy"): "3.61 → 22.03 %",
    (MADRY, MARGIN, _RELATIVE): "0.92 → 0.53, from its table",
}


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


def decided(estimate: SeedMean | None, side: Side) -> tuple[Verdict, Interval | None]:
    """Return the verdict and the interval of an estimate, which may be missing."""
    if estimate is None:
        return "undecided", None
    return by_direction(estimate.interval, side), estimate.interval


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
    if estimate is None:
        return "not defined: for some seed nothing withstands"
    return estimate.signed(2)


def class_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Row 11: four classes that are said to lose or to gain, and how the worst class fares."""
    shares = 100 * swept.at(MADRY, FGSM, TEST)
    least, most = swept.sweep.radii[MADRY][0], swept.sweep.radii[MADRY][-1]
    remark = f"{remark} {given_up(swept, MADRY, FGSM)}".strip()
    rows = []
    for letter, (name, (place, side, printed)) in zip("abcd", CHANGES.items(), strict=True):
        change = over_seeds(shares[:, -1, place] - shares[:, 0, place])
        label = swept.classes[place]
        called = name if name == label else f"{name} (here: {label})"
        word = "falls" if side == "below" else "rises"
        rows.append(
            claim.found(
                f"{path(shares[:, :, place], ' %')}; {signed(change)} points",
                by_direction(change.interval, side),
                interval=change.interval,
                remark=remark,
                letter=letter,
                text=f"Robust accuracy of {called} {word} from ε_train = {least}/255 to {most}/255 (FGSM {TEST}/255).",
                printed=f"{printed} points (ResNet-50)",
            )
        )
    worst = worst_class(shares)
    slope = slope_of(swept.sweep.radii[MADRY], worst)
    verdict, interval = decided(slope, "below")
    rows.append(
        claim.found(
            f"{path(worst, ' %')}; slope {signed(slope)} points per {STEP}/255",
            verdict,
            interval=interval,
            letter="e",
            text="(ours) The worst class’s robust accuracy falls with ε_train (whichever class it is).",
            printed="12.0 → 7.8 % among the four classes printed",
            remark=f"{remark} A class at 0 can fall no further.",
        )
    )
    return rows


CHANCE = 0.5
COMPARABLE = 2.0  # points of accuracy that still count as comparable


def fat_rows(claims: Mapping[int, Claim], swept: Swept, remark: str) -> list[Claim]:
    """Rows 12 to 14: FAT against Madry."""
    plain, fair = swept.along(MADRY), swept.along(FAT)
    spreads = vcra(plain, swept.sizes), vcra(fair, swept.sizes)
    place = (slice(None), slice(None), attack_number(MARGIN), swept.sweep.tests.index(TEST))
    margin = relative_change(spreads[1][place], spreads[0][place])
    verdict, interval = decided(margin, "below")
    return [
        *_spread_rows(claims[12], *spreads, remark),
        *_rate_rows(claims[13], 100 * mean_accuracy(plain), 100 * mean_accuracy(fair), remark),
        claims[14].found(
            f"{signed(margin)} %",
            verdict,
            interval=interval,
            printed="≈ −16 % (−14.7 % from the sums of its table)",
            remark=f"{remark} The sum over ε_train; “C&W” is PGD on the margin loss of Carlini and Wagner.",
        ),
    ]


def _spread_rows(claim: Claim, plain: Floats, fair: Floats, remark: str) -> list[Claim]:
    """Row 12: in how many cells VCRA is lower, and by how much."""
    lower, change = share_of_cells(_cells(plain - fair)), relative_change(fair, plain)
    verdict, interval = decided(change, "below")
    return [
        claim.found(
            f"lower in {lower}",
            by_agreement(lower.interval, CHANCE),
            interval=lower.interval,
            chance=CHANCE,
            letter="a",
            remark=f"{remark} {_CELLS}",
        ),
        claim.found(
            f"{signed(change)} %",
            verdict,
            interval=interval,
            letter="b",
            text="(ours) By how much: the sum of VCRA over all cells.",
            printed="−8.3 % from its table",
            remark=f"{remark} {_SLOTS}",
        ),
    ]


def _rate_rows(claim: Claim, plain: Floats, fair: Floats, remark: str) -> list[Claim]:
    """Row 13: in how many cells robust accuracy is higher, and by how much."""
    higher, gain = share_of_cells(_cells(fair - plain)), over_seeds(_cells(fair - plain).mean(axis=(1, 2)))
    return [
        claim.found(
            f"higher in {higher}",
            by_agreement(higher.interval, CHANCE),
            interval=higher.interval,
            chance=CHANCE,
            letter="a",
            text="FAT’s robust accuracy is higher than Madry’s.",
            remark=f"{remark} {_CELLS}",
        ),
        claim.found(
            f"{signed(gain)} points",
            by_number(gain.interval, 0.0, COMPARABLE),
            interval=gain.interval,
            letter="b",
            text=f"FAT’s robust accuracy is comparable: within {COMPARABLE:g} points on average over the cells.",
            printed="+0.31 points from its table",
            remark=remark,
        ),
    ]


_CELLS = (
    "A cell is ε_train × attack × ε_test, of each seed. Cells are not independent: the interval is over seeds (one "
    "share each), and never narrower than that of as many coin flips as there are pairs of networks."
)


_SLOTS = (
    "The variance between classes is taken over those that the batch holds. The published code takes it over 100 "
    "slots, 90 of them empty with 10 classes, and so mostly penalises the mean; `fat:published=true` does the same "
    "and was not run."
)


def _cells(values: Floats) -> Floats:
    """(seeds, radii, attacks, tests) as (seeds, radii, cells)."""
    return values.reshape(*values.shape[:2], -1)


def _by_weight(swept: Swept) -> dict[float, Place]:
    """Madry's method is λ = 0."""
    methods = {0.0: MADRY, WEIGHT: FAT} | {weight: weighted(weight) for weight in swept.sweep.weights}
    return {weight: (methods[weight], swept.sweep.weights_at) for weight in sorted(methods)}


def weight_places(swept: Swept) -> tuple[Place, ...]:
    """Return the networks of the values of λ."""
    return tuple(_by_weight(swept).values())


def weight_values(swept: Swept, attack: str) -> tuple[tuple[float, ...], Floats, Floats]:
    """Values of λ, 0 (Madry) among them, with VCRA ·10⁻² and robust accuracy in per cent: (seeds, values of λ)."""
    places = _by_weight(swept)
    at = (slice(None), attack_number(attack), swept.sweep.tests.index(TEST))
    shares = np.stack([swept.shares[place][at] for place in places.values()], axis=1)
    return tuple(places), 100 * vcra(shares, swept.sizes), 100 * mean_accuracy(shares)


def weight_rows(claim: Claim, swept: Swept, remark: str) -> list[Claim]:
    """Row 15: VCRA and accuracy along λ, each value one step after the one before."""
    order, spread, rate = weight_values(swept, PGD)
    slope = slope_over_seeds(range(len(order)), spread)
    change = over_seeds(rate[:, -1] - rate[:, 0])
    values = ", ".join(f"{weight:g}" for weight in order)
    where = f"ε_train = {swept.sweep.weights_at}/255, PGD-20 {TEST}/255"
    return [
        claim.found(
            f"{path(spread, '·10⁻²')}; slope {signed(slope)}·10⁻² from one value to the next",
            by_direction(slope.interval, "below"),
            interval=slope.interval,
            letter="a",
            text=f"VCRA falls as λ grows ({values}; {where}).",
            remark=f"{remark} λ = 0 is Madry’s method. The paper’s figure is in its appendix, which is not at hand: "
            "this reading of “sensitivity” is ours.",
        ),
        claim.found(
            f"{path(rate, ' %')}; {signed(change)} points",
            by_number(change.interval, 0.0, COMPARABLE),
            interval=change.interval,
            letter="b",
            text=f"Robust accuracy stays within {COMPARABLE:g} points from λ = 0 to the largest ({where}).",
            remark=remark,
        ),
    ]


def on_trades_rows(claim: Claim, swept: Swept, remark: str, letters: Sequence[str]) -> list[Claim]:
    """Row 16, its second half: FAT on TRADES against TRADES."""
    radii = swept.sweep.radii[FAT_TRADES]
    return _against(claim, swept, (TRADES, FAT_TRADES), radii, "FAT on TRADES", remark, letters)


def further_rows(claim: Claim, swept: Swept, remark: str, letters: Sequence[str]) -> list[Claim]:
    """Row 16, its first half: CIFAR-100."""
    radii = swept.sweep.radii[MADRY]
    rows = []
    spread, rate = 100 * vcra(swept.at(MADRY, PGD, TEST), swept.sizes), 100 * mean_accuracy(swept.at(MADRY, PGD, TEST))
    for values, name, (unit, changes), letter in (
        (spread, "VCRA", ("·10⁻²", "·10⁻²"), letters[0]),
        (rate, "Robust accuracy", (" %", " points"), letters[1]),
    ):
        change = over_seeds(values[:, -1] - values[:, 0])
        rows.append(
            claim.found(
                f"{path(values, unit)}; {signed(change)}{changes}",
                by_direction(change.interval, "above"),
                interval=change.interval,
                letter=letter,
                text=f"{name} of {CALLED[MADRY]} on {swept.sweep.title} rises from ε_train = {radii[0]}/255 to "
                f"{radii[-1]}/255 (PGD-20 {TEST}/255).",
                remark=remark,
            )
        )
    return rows + _against(claim, swept, (MADRY, FAT), radii, f"FAT on {swept.sweep.title}", remark, letters[2:])


def _against(
    claim: Claim,
    swept: Swept,
    pair: tuple[str, str],
    radii: Sequence[int],
    name: str,
    remark: str,
    letters: Sequence[str],
) -> list[Claim]:
    plain, fair = (swept.along(method, radii) for method in pair)
    spread_plain, spread_fair = (vcra(each, swept.sizes) for each in (plain, fair))
    lower = share_of_cells(_cells(spread_plain - spread_fair))
    change = relative_change(spread_fair, spread_plain)
    verdict, interval = decided(change, "below")
    return [
        claim.found(
            f"lower in {lower}",
            by_agreement(lower.interval, CHANCE),
            interval=lower.interval,
            chance=CHANCE,
            letter=letters[0],
            text=f"{name} lowers VCRA.",
            remark=f"{remark} {_CELLS}",
        ),
        claim.found(
            f"{signed(change)} %",
            verdict,
            interval=interval,
            letter=letters[1],
            text=f"(ours) By how much {name} lowers the sum of VCRA over all cells.",
            remark=remark,
        ),
    ]
