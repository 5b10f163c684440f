"""Whether accuracy and its variance over classes rise with the radius trained with: Ma's claims 7 to 11."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.sweep_learned import guarded, places_of
from fairmargin_papers.ma.sweep_measures import Swept, mean_accuracy, variation, vcra, worst_class
from fairmargin_papers.ma.sweep_study import CALLED, FGSM, MADRY, MARGIN, PGD, TRADES
from fairmargin_papers.shared.claims import Claim, Interval, Side, Verdict, by_direction
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
