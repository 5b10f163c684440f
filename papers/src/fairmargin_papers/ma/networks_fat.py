"""Madry's method against FAT, cell by cell, and what λ does: Ma's claims 12 to 16."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairmargin.core.arrays import Floats
from fairmargin_papers.ma.networks_rows import TEST, decided, path, signed
from fairmargin_papers.ma.sweep_cells import relative_change, share_of_cells
from fairmargin_papers.ma.sweep_measures import Place, Swept, attack_number, mean_accuracy, vcra
from fairmargin_papers.ma.sweep_study import (
    CALLED,
    FAT,
    FAT_TRADES,
    MADRY,
    MARGIN,
    PGD,
    TRADES,
    WEIGHT,
    weighted,
)
from fairmargin_papers.shared.claims import Claim, by_agreement, by_direction, by_number
from fairmargin_papers.shared.trained import over_seeds, slope_over_seeds

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
