"""Rows of FARMUR's claims 1 to 8: the printed table, and two networks that others have trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin_papers.farmur.measures import Trio, measured, paired_change
from fairmargin_papers.farmur.studies import ADVERSARIAL, FAIR, NATURAL, TABLE
from fairmargin_papers.shared.claims import Claim, Side, by_direction, by_number
from fairmargin_papers.shared.page import number
from fairmargin_papers.shared.paper import Assignment, NotPossibleHereError
from fairmargin_papers.shared.trained import SeedMean, run_grid, study_sections

ROWS = ("lenet", "alexnet", "cifar10", "utkface")  # the order of the table, and of the letters
_LITTLE = 10.0  # a drop of Rob(f) by less, in %, is little; the largest printed one is 6.3 %
_POINTS = 0.4  # the printed accuracies on MNIST differ by at most so much
_POINT = 1.0  # elsewhere a difference of less than a point counts as the printed one
_IMPLAUSIBLE = (
    " The printed 93.58 % of TRADES looks implausible: its own authors print 84.92 % at this radius, for a larger "
    "network."
)
_COLLAPSED = "a network gives one answer to everything"


def change_rows(claims: Mapping[int, Claim], trios: Sequence[Trio]) -> list[Claim]:
    """Claims 1 to 5: what adversarial training and FARMUR do to Rob(f) and V_f."""
    found = []
    for each in trios:
        printed = TABLE[each.setting.row]
        relative = tuple(v / r**2 for v, r in zip(printed.variance, printed.robustness, strict=True))
        told: tuple[tuple[int, str, Side, str], ...] = (
            (1, "robustness", "above", f"{number(printed.robustness[0])} → {number(printed.robustness[1])}"),
            (2, "variance", "above", _times(printed.variance[0], printed.variance[1])),
            (3, "relative", "below", f"not printed; from its table {_times(relative[0], relative[1])}"),
        )
        for claim, of, side, said in told:
            change = each.change(NATURAL, ADVERSARIAL, of)
            found.append(_row(claims[claim], each, (NATURAL, ADVERSARIAL), of, change, side, said))
        found.append(_fairness_row(claims[4], each))
        found.append(_drop_row(claims[5], each))
    return found


def _row(
    claim: Claim,
    trio: Trio,
    methods: tuple[str, str],
    of: str,
    change: SeedMean,
    side: Side,
    printed: str,
    remark: str = "",
) -> Claim:
    before, after = (trio.mean(method, of) for method in methods)
    return claim.found(
        f"{trio.setting.title}: {_times(before, after)}{by(change)}",
        by_direction(change.interval, side),
        interval=_shown(change),
        printed=printed,
        letter=letter_of(trio),
        remark=f"{remark} {trio.setting.instead}".strip(),
    )


def _fairness_row(claim: Claim, trio: Trio) -> Claim:
    printed = TABLE[trio.setting.row]
    table = 1 - printed.variance[2] / printed.variance[1]
    said = f"from its table −{table:.1%}"
    if printed.gain:
        said = f"−{printed.gain} %" if abs(100 * table - float(printed.gain)) < 0.1 else f"−{printed.gain} %; {said}"
    else:
        said = f"none in the text; {said}"
    against = "The printed 29.17 % is against natural training." if trio.setting.row == "alexnet" else ""
    change = trio.change(ADVERSARIAL, FAIR, "variance")
    return _row(claim, trio, (ADVERSARIAL, FAIR), "variance", change, "below", said, against)


def _drop_row(claim: Claim, trio: Trio) -> Claim:
    printed = TABLE[trio.setting.row].robustness
    change = trio.relative_change(ADVERSARIAL, FAIR, "robustness").times(100)
    before, after = (trio.mean(method, "robustness") for method in (ADVERSARIAL, FAIR))
    return claim.found(
        f"{trio.setting.title}: {_times(before, after)}{_percent(change)}",
        by_direction(change.interval, "above", -_LITTLE),
        interval=_shown(change),
        printed=f"−{1 - printed[2] / printed[1]:.1%}",
        letter=letter_of(trio),
        remark=f"“Little” is a drop by less than {_LITTLE:g} %; the interval is in %. {trio.setting.instead}",
    )


def accuracy_rows(claims: Mapping[int, Claim], trios: Sequence[Trio]) -> list[Claim]:
    """Claims 6 to 8: the accuracies of the table, as differences from one training to another."""
    found = []
    for trio in trios:
        row, printed = trio.setting.row, TABLE[trio.setting.row].accuracy
        place = dict(zip((NATURAL, ADVERSARIAL, FAIR), printed, strict=True))
        # Which claim, what is compared with what, the letter, and how much a difference may differ from the printed.
        asked = {
            "lenet": ((6, NATURAL, ADVERSARIAL, "a", 0.0, _POINTS), (6, NATURAL, FAIR, "b", 0.0, _POINTS)),
            "alexnet": ((6, NATURAL, ADVERSARIAL, "c", 0.0, _POINTS), (6, NATURAL, FAIR, "d", 0.0, _POINTS)),
            "cifar10": ((7, NATURAL, ADVERSARIAL, "a", None, _POINT), (7, ADVERSARIAL, FAIR, "b", None, _POINT)),
            "utkface": ((8, NATURAL, ADVERSARIAL, "a", None, _POINT), (8, ADVERSARIAL, FAIR, "b", None, _POINT)),
        }[row]
        for claim, before, after, letter, centre, tolerance in asked:
            difference = place[after] - place[before]
            change = trio.change(before, after, "accuracy").times(100)
            shares = " → ".join(f"{trio.mean(method, 'accuracy'):.2%}" for method in (before, after))
            aim = difference if centre is None else centre
            found.append(
                claims[claim].found(
                    f"{trio.setting.title}: {shares}, {change.text(digits=2)} points",
                    by_number(change.interval, aim, tolerance),
                    interval=change.interval,
                    printed=f"{place[before]:.2f}% → {place[after]:.2f}%",
                    letter=letter,
                    text=f"{claims[claim].text.rstrip('.')}, {before} → {after}.",
                    remark=f"Differences are compared, since smaller networks and data reach less: it holds if the "
                    f"change lies within {tolerance:g} point{'' if tolerance == 1 else 's'} of {_points(aim)}."
                    f"{_IMPLAUSIBLE if (claim, letter) == (7, 'a') else ''} {trio.setting.instead}".rstrip(),
                )
            )
    return found


def letter_of(trio: Trio) -> str:
    """Return the letter of the row of the printed table, "a" to "d"."""
    return "abcd"[ROWS.index(trio.setting.row)]


def _shown(change: SeedMean) -> tuple[float, float] | None:
    return None if math.isnan(change.mean) else change.interval


def _times(before: float, after: float) -> str:
    """Return a change as text, such as 0.79 → 1.26 (1.59×)."""
    if math.isnan(before) or math.isnan(after):
        return _COLLAPSED
    return f"{number(before)} → {number(after)}" + (f" ({after / before:.2f}×)" if before else "")


def by(change: SeedMean) -> str:
    """Return the change to which the interval belongs as text, such as ", by +0.345"."""
    return "" if math.isnan(change.mean) else f", by {'+' if change.mean > 0 else ''}{number(change.mean)}"


def _percent(change: SeedMean) -> str:
    return (
        "" if math.isnan(change.mean) else f"; the mean of each seed’s change is {change.mean:+.1f} %".replace("-", "−")
    )


def _points(change: float) -> str:
    return f"{change:+.2f}".replace("-", "−") if change else "none"


CLEAN, ROBUST = "clean", "adversarial"
_FILES = {CLEAN: "mnist-lenet5madry-clean.pt", ROBUST: "mnist-lenet5madry-adversarial.pt"}
# The adversarial network's slopes tell little: a short search overestimates, and the page says by how much.
ESTIMATOR, BRIEF = "plumb:steps=300", "plumb:steps=40"
_ASKED = ((1, "robustness", "above"), (2, "variance", "above"), (3, "relative", "below"))


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """The distances of both networks on the same samples, and what a brief search finds of the adversarial one."""

    clean: Distances
    adversarial: Distances
    briefly: Distances
    partition: Partition


def find_given(assignment: Assignment) -> Given:
    """Measure the networks beside the data's folder; raises `NotPossibleHereError` where they are not."""
    if assignment.scale == "smoke":
        raise NotPossibleHereError("the smoke scale uses nothing but what comes with the package")
    files = weight_files(assignment.root)
    sections = study_sections(
        data={"data": "mnist", "audit_per_group": assignment.by_scale(0, 100, 0)},
        groups=["class"],
        models={name: {"model": "arch:mnist_cnn", "weights": str(path)} for name, path in files.items()},
        audits={"distances": {"estimator": [ESTIMATOR, BRIEF]}},
    )
    grid = run_grid(replace(assignment, folder=assignment.folder / "given"), sections)
    clean, adversarial = (grid.distances(model=name, estimator=ESTIMATOR) for name in (CLEAN, ROBUST))
    briefly = grid.distances(model=ROBUST, estimator=BRIEF)
    return Given(clean, adversarial, briefly, grid.partition(None, "class"))


def weight_files(root: Path | None) -> dict[str, Path]:
    """Where both files lie: in the folder `weights` beside the data."""
    if root is None:
        raise NotPossibleHereError("the weights of others are looked for beside the data: give --root")
    found = {name: Path(root).resolve().parent / "weights" / file for name, file in _FILES.items()}
    for path in found.values():
        if not path.is_file():
            raise NotPossibleHereError(f"there is no {path.name} in the folder `weights` beside the data")
    return found


def given_rows(claims: Mapping[int, Claim], given: Given) -> list[Claim]:
    """Claims 1 to 3 on these networks, letter e."""
    before, after, briefly = (
        measured(each, given.partition) for each in (given.clean, given.adversarial, given.briefly)
    )
    found = []
    for claim, of, side in _ASKED:
        change = paired_change(given.clean, given.adversarial, given.partition, of)
        values = [getattr(each, of) for each in (before, after)]
        ratio = f" ({values[1] / values[0]:.2f}×)" if values[0] else ""
        found.append(
            claims[claim].found(
                f"MNIST, advertorch's networks: {number(values[0])} → {number(values[1])}{ratio}{by(change)}",
                by_direction(change.interval, "above" if side == "above" else "below"),
                interval=change.interval,
                printed="other networks than the paper's",
                letter="e",
                remark="Trained by others (PyPI package advertorch 0.2.3), plainly and by PGD at an L∞ radius of 0.3, "
                f"ten times the paper's; accuracy {before.accuracy:.2%} and {after.accuracy:.2%}. One network each, so "
                f"that the interval is for the samples drawn and not for another training. By `{ESTIMATOR}`; by a "
                f"search as brief as `{BRIEF}` the adversarial network has {number(getattr(briefly, of))}, and a "
                "longer one may say still less.",
            )
        )
    return found


def missing_rows(claims: Mapping[int, Claim], reason: str) -> list[Claim]:
    """Return the same rows, not tested, with the reason."""
    return [replace(claims[claim].untested(reason), letter="e") for claim, _, _ in _ASKED]
