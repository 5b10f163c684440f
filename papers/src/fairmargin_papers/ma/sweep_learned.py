"""Networks that learned nothing: one that always says the same class has the largest VCRA there is, and no meaning."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fairmargin_papers.ma.sweep_measures import Place, Swept, mean_accuracy
from fairmargin_papers.shared.claims import Claim
from fairmargin_papers.shared.trained import BETTER_THAN_GUESSING


def places_of(swept: Swept, *methods: str) -> tuple[Place, ...]:
    """All radii of these methods."""
    return tuple(place for place in swept.natural if place[0] in methods)


def lost(swept: Swept, places: Iterable[Place]) -> int:
    """How many networks, seed by seed, do hardly better without an attack than guessing."""
    least = BETTER_THAN_GUESSING / len(swept.classes)
    return sum(int((mean_accuracy(swept.natural[place]) < least).sum()) for place in places)


def guarded(rows: Sequence[Claim], swept: Swept, places: Sequence[Place]) -> list[Claim]:
    """Return the rows, undecided if some of the networks on which they depend learned nothing.

    Such a network withstands every attack on one class and has a VCRA of (L − 1)/L²: a rise towards it would pass for
    the claim.
    """
    missed = lost(swept, places)
    if not missed:
        return list(rows)
    said = (
        f"{missed} of {len(places) * len(swept.sweep.seeds)} networks learned nothing (below {BETTER_THAN_GUESSING:g} "
        "times the accuracy of guessing without an attack): undecided, whatever the interval says."
    )
    return [replace(row, verdict="undecided", remark=f"{row.remark} {said}".strip()) for row in rows]
