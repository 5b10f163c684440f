"""Two MNIST networks that others have trained, plainly and adversarially: the same question without our training."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin_papers.farmur.measures import measured, paired_change
from fairmargin_papers.farmur.rows import by
from fairmargin_papers.shared.claims import Claim, by_direction
from fairmargin_papers.shared.page import number
from fairmargin_papers.shared.paper import Assignment, NotPossibleHereError
from fairmargin_papers.shared.trained import run_grid, study_sections

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
