"""Rows of FARMUR's claims 1 to 8: the printed table, and two networks that others have trained."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin_papers.farmur.measures import Trio, measured, paired_change
from fairmargin_papers.farmur.studies import ADVERSARIAL, FAIR, NATURAL, TABLE
from fairmargin_papers.shared.claims import Claim, Side, directed, near
from fairmargin_papers.shared.page import number
from fairmargin_papers.shared.paper import Assignment, NotPossibleHereError
from fairmargin_papers.shared.trained import SeedMean, run_grid, study_sections

_LITTLE = 10.0  # a smaller drop of Rob(f), in %, is little; the largest printed one is 6.3 %
_IMPLAUSIBLE = (
    " The printed 93.58 % of TRADES looks implausible: its own authors print 84.92 % at this radius, for a larger "
    "network."
)
_COLLAPSED = "a network gives one answer to everything"
# By row of the table: claim, trainings, expected difference in points (None: the printed one), and tolerance.
_ACCURACIES: Mapping[str, tuple[tuple[int, str, str, float | None, float], ...]] = {
    "lenet": ((6, NATURAL, ADVERSARIAL, 0.0, 0.4), (6, NATURAL, FAIR, 0.0, 0.4)),
    "alexnet": ((6, NATURAL, ADVERSARIAL, 0.0, 0.4), (6, NATURAL, FAIR, 0.0, 0.4)),
    "cifar10": ((7, NATURAL, ADVERSARIAL, None, 1.0), (7, ADVERSARIAL, FAIR, None, 1.0)),
    "utkface": ((8, NATURAL, ADVERSARIAL, None, 1.0), (8, ADVERSARIAL, FAIR, None, 1.0)),
}

# Two networks for MNIST that others have trained, and how they are measured. The gradients of the adversarial network
# are not informative, so that a short search overestimates its distances; the page says by how much.
CLEAN, ROBUST = "clean", "adversarial"
_FILES = {CLEAN: "mnist-lenet5madry-clean.pt", ROBUST: "mnist-lenet5madry-adversarial.pt"}
ESTIMATOR, BRIEF = "plumb:steps=300", "plumb:steps=40"
_GIVEN: tuple[tuple[int, str, Side], ...] = (
    (1, "robustness", "above"),
    (2, "variance", "above"),
    (3, "relative", "below"),
)


def change_rows(claims: Mapping[int, Claim], trios: Sequence[Trio], missing: Mapping[str, str]) -> list[Claim]:
    """Return the rows of claims 1 to 5: how adversarial training and FARMUR change Rob(f) and V_f."""
    found, by_row = [], {each.setting.row: each for each in trios}
    for row in TABLE:
        if row in by_row:
            found += _changes(claims, by_row[row])
        elif row in missing:
            found += [claims[claim].untested(missing[row]) for claim in range(1, 6)]
    return found


def _changes(claims: Mapping[int, Claim], trio: Trio) -> list[Claim]:
    printed, title, instead = TABLE[trio.setting.row], trio.setting.title, trio.setting.instead
    relative = tuple(v / r**2 for v, r in zip(printed.variance, printed.robustness, strict=True))
    lowered = f"from its table −{1 - printed.variance[2] / printed.variance[1]:.1%}"
    if printed.gain:
        same = abs(100 * (1 - printed.variance[2] / printed.variance[1]) - float(printed.gain)) < 0.1
        lowered = f"−{printed.gain} %" if same else f"−{printed.gain} %; {lowered}"
    else:
        lowered = f"none in the text; {lowered}"
    against = "The printed 29.17 % is against natural training." if trio.setting.row == "alexnet" else ""
    raised = f"{number(printed.robustness[0])} → {number(printed.robustness[1])}"
    compared: tuple[tuple[int, str, str, str, Side, str, str], ...] = (
        (1, NATURAL, ADVERSARIAL, "robustness", "above", raised, ""),
        (2, NATURAL, ADVERSARIAL, "variance", "above", _times(*printed.variance[:2]), ""),
        (3, NATURAL, ADVERSARIAL, "relative", "below", f"not printed; from its table {_times(*relative[:2])}", ""),
        (4, ADVERSARIAL, FAIR, "variance", "below", lowered, against),
    )
    found = []
    for claim, before, after, of, side, shown, remark in compared:
        change = trio.change(before, after, of)
        found.append(
            claims[claim].found(
                f"{title}: {_times(trio.mean(before, of), trio.mean(after, of))}{_by(change)}",
                directed(change, side),
                printed=shown,
                remark=f"{remark} {instead}",
            )
        )
    drop = trio.relative_change(ADVERSARIAL, FAIR, "robustness").times(100)
    mean = "" if math.isnan(drop.mean) else f"; the mean of each seed’s change is {drop.mean:+.1f} %".replace("-", "−")
    found.append(
        claims[5].found(
            f"{title}: {_times(trio.mean(ADVERSARIAL, 'robustness'), trio.mean(FAIR, 'robustness'))}{mean}",
            directed(drop, "above", -_LITTLE),
            printed=f"−{1 - printed.robustness[2] / printed.robustness[1]:.1%}",
            remark=f"“Little” is a drop by less than {_LITTLE:g} %; the interval is in %. {instead}",
        )
    )
    return found


def accuracy_rows(claims: Mapping[int, Claim], trios: Sequence[Trio]) -> list[Claim]:
    """Return the rows of claims 6 to 8: the accuracies of the table, as differences from one training to another."""
    found = []
    for trio in trios:
        printed = dict(zip((NATURAL, ADVERSARIAL, FAIR), TABLE[trio.setting.row].accuracy, strict=True))
        for claim, before, after, expected, tolerance in _ACCURACIES[trio.setting.row]:
            aim = printed[after] - printed[before] if expected is None else expected
            change = trio.change(before, after, "accuracy").times(100)
            shares = " → ".join(f"{trio.mean(method, 'accuracy'):.2%}" for method in (before, after))
            doubt = _IMPLAUSIBLE if (claim, before) == (7, NATURAL) else ""
            found.append(
                claims[claim].found(
                    f"{trio.setting.title}: {shares}, {change.text(digits=2)} points",
                    near(change, aim, tolerance),
                    printed=f"{printed[before]:.2f}% → {printed[after]:.2f}%",
                    text=f"{claims[claim].text.rstrip('.')}, {before} → {after}.",
                    remark=f"Differences are compared, since smaller networks and data reach less: it holds if the "
                    f"change lies within {tolerance:g} point{'' if tolerance == 1 else 's'} of {_points(aim)}."
                    f"{doubt} {trio.setting.instead}",
                )
            )
    return found


def _times(before: float, after: float) -> str:
    """Return a change as text, such as 0.79 → 1.26 (1.59×)."""
    if math.isnan(before) or math.isnan(after):
        return _COLLAPSED
    return f"{number(before)} → {number(after)}" + (f" ({after / before:.2f}×)" if before else "")


def _by(change: SeedMean) -> str:
    """Return the change to which the interval belongs as text, such as ", by +0.345"."""
    return "" if math.isnan(change.mean) else f", by {'+' if change.mean > 0 else ''}{number(change.mean)}"


def _points(change: float) -> str:
    return f"{change:+.2f}".replace("-", "−") if change else "none"


@dataclass(frozen=True, slots=True, eq=False)
class Given:
    """Distances of the two networks on the same samples."""

    clean: Distances
    adversarial: Distances
    briefly: Distances  # of the adversarial network by a shorter search
    partition: Partition


def find_given(assignment: Assignment) -> Given:
    """Measure the networks beside the folder of the data, or raise `NotPossibleHereError` if they are missing."""
    if assignment.scale == "smoke":
        raise NotPossibleHereError("the smoke scale uses only data that come with the package")
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
    """Return the files of both networks, which are in the folder `weights` beside the data."""
    if root is None:
        raise NotPossibleHereError("the weights of these networks are searched for beside the data: give --root")
    found = {name: Path(root).resolve().parent / "weights" / file for name, file in _FILES.items()}
    for path in found.values():
        if not path.is_file():
            raise NotPossibleHereError(f"there is no {path.name} in the folder `weights` beside the data")
    return found


def given_rows(claims: Mapping[int, Claim], given: Given | str) -> list[Claim]:
    """Return the rows of claims 1 to 3 on the two networks, or rows that are not tested, with the given reason."""
    if isinstance(given, str):
        return [claims[claim].untested(given) for claim, _, _ in _GIVEN]
    before, after, briefly = (
        measured(each, given.partition) for each in (given.clean, given.adversarial, given.briefly)
    )
    found = []
    for claim, of, side in _GIVEN:
        change = paired_change(given.clean, given.adversarial, given.partition, of)
        found.append(
            claims[claim].found(
                f"MNIST, advertorch's networks: {_times(getattr(before, of), getattr(after, of))}{_by(change)}",
                directed(change, side),
                printed="other networks than the paper's",
                remark="Trained by others (PyPI package advertorch 0.2.3), plainly and by PGD at an L∞ radius of 0.3, "
                f"ten times the paper's; accuracy {before.accuracy:.2%} and {after.accuracy:.2%}. One network "
                "each, so that the interval is for the samples drawn and not for another training. By "
                f"`{ESTIMATOR}`; by a search as short as `{BRIEF}` the adversarial network has "
                f"{number(getattr(briefly, of))}, and a longer one may find still less.",
            )
        )
    return found
