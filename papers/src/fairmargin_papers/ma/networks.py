"""Ma's networks: trained at rising radii by Madry's method, TRADES and FAT, attacked at 16/255 and 20/255."""

from dataclasses import replace

from fairmargin_papers.ma.claims import (
    TEST,
    class_rows,
    fat_rows,
    further_rows,
    on_trades_rows,
    sweep_rows,
    weight_places,
    weight_rows,
)
from fairmargin_papers.ma.figures import (
    cells_table,
    classes_picture,
    classes_table,
    pairs_picture,
    sweep_picture,
    table_picture,
    weights_picture,
)
from fairmargin_papers.ma.measures import Swept, guarded, mean_accuracy, places_of, read_grid
from fairmargin_papers.ma.sweep import (
    FAT,
    FAT_TRADES,
    MADRY,
    PAPER_SWEEPS,
    TRADES,
    WEIGHT,
    Sweep,
    further_sweep,
    main_sweep,
)
from fairmargin_papers.shared.claims import Claim
from fairmargin_papers.shared.original import Original
from fairmargin_papers.shared.paper import Assignment, Findings, NotPossibleHereError, Part, Picture
from fairmargin_papers.shared.trained import run_grid

_SMOKE = "Handwritten digits stand in for CIFAR here: this shows that the experiment runs, and nothing about the claim."


def run(assignment: Assignment) -> Findings:
    """Run the sweeps on CIFAR-10 and CIFAR-100; without CIFAR-100 only its own rows are not tested."""
    sweep = main_sweep(assignment)
    grids = _swept(assignment, sweep, sweep.networks)
    swept, by_class = grids[0], grids[-1]
    claims, remark = assignment.claims, remark_on(assignment, sweep, sweep.network)
    of_class = remark_on(assignment, sweep, sweep.networks[-1])
    further, notes = _further(assignment)
    rows = [
        *sweep_rows(claims, swept, remark),
        *guarded(class_rows(claims[11], by_class, of_class), by_class, places_of(by_class, MADRY)),
        *guarded(fat_rows(claims, swept, remark), swept, places_of(swept, MADRY, FAT)),
        *guarded(weight_rows(claims[15], swept, remark), swept, weight_places(swept)),
        *further,
        *guarded(on_trades_rows(claims[16], swept, remark), swept, places_of(swept, TRADES, FAT_TRADES)),
    ]
    said = (note_on(swept), *notes, _NOTE, *assignment.by_scale((), (_PILOTS,), ()))
    return Findings(tuple(rows), _pictures(swept, by_class), said, (cells_table(swept), classes_table(by_class)))


_DIFFERENCES = (
    "WRN-32-10 is left out; ResNet-50 is trained by Madry’s method on CIFAR-10 only, while the paper has TRADES and "
    "CIFAR-100 too.",
    "Four trainings of each network; the paper shows one.",
    "Weight decay, λ = 0.1 and augmentation are those of the published code; the batch size is not printed. The other "
    "values of λ are ours, since the paper's appendix is not available.",
    "VCRA is the population variance, less what the finite number of test samples adds to it.",
)


def originals() -> tuple[Original, ...]:
    """Return the studies of the scale "paper"."""
    return tuple(Original(sweep.sections()) for sweep in PAPER_SWEEPS)


PART = Part(
    "networks",
    "adversarial training at rising radii",
    frozenset(range(7, 17)),
    run,
    originals=originals,
    differences=_DIFFERENCES,
)

_NOTE = (
    f"Rows are about attacks at {TEST}/255 where they name no other radius; the table shows 20/255 too. “FGSM” is one "
    "step of ε from a random start, as in the published code; “C&W” is PGD on the margin. VCRA is the population "
    "variance over classes, less what the finite number of test samples adds to it by chance. Intervals are Student’s "
    "t over seeds: all seeds are measured on the same test samples. A slope is that of a straight line through each "
    f"seed’s values: it can rise although the last of them falls. FAT has λ = {WEIGHT:g} where no other is named."
)


_PILOTS = (
    "The settings of this scale were chosen after seven pilots of one seed (0, not among these): small_cnn at "
    "32, small_cnn five times and resnet8 at 16 pixels, by the accuracy at 16/255 and by time. They were "
    "measured on test pictures that are measured here too, and their VCRA was seen, one pair of Madry and FAT "
    "included. The values of λ and the intervals were not chosen by them; that rows with networks that learned "
    "nothing are undecided was added after pilots that always predicted one class."
)


def _swept(assignment: Assignment, sweep: Sweep, networks: tuple[str, ...]) -> list[Swept]:
    grid = run_grid(replace(assignment, folder=assignment.folder / sweep.name), sweep.sections())
    return [read_grid(grid, sweep, network) for network in networks]


def _further(assignment: Assignment) -> tuple[list[Claim], tuple[str, ...]]:
    """Return the rows about CIFAR-100, or one row with the reason why it was not tested."""
    sweep, claim = further_sweep(assignment), assignment.claims[16]
    try:
        swept = _swept(assignment, sweep, sweep.networks)[0]
    except NotPossibleHereError as error:
        return [claim.untested(str(error), text="The same on CIFAR-100.")], ()
    remark = remark_on(assignment, sweep, sweep.network)
    if sweep.name.endswith("-super"):
        remark += " Of each of its 100 classes only 50 training pictures are available, too few to distinguish them."
    rows = further_rows(claim, swept, remark)
    return guarded(rows, swept, places_of(swept, MADRY, FAT)), (note_on(swept),)


def remark_on(assignment: Assignment, sweep: Sweep, network: str) -> str:
    """Describe the conditions of a row."""
    if assignment.scale == "smoke":
        return _SMOKE
    if assignment.scale == "paper":
        return f"{network} on {sweep.title}, {len(sweep.seeds)} seeds; settings as listed under “What was run”."
    size = f" shrunk to {sweep.data['size']}×{sweep.data['size']} pixels" if sweep.data.get("size") else ""
    return f"{network} on {sweep.title}{size}, {len(sweep.seeds)} seeds, instead of the paper’s residual network."


def note_on(swept: Swept) -> str:
    """Describe what was run, and the accuracy of the networks without an attack."""
    sweep = swept.sweep
    data, training = sweep.data, sweep.training
    trained = sum(1 for _ in sweep.trained()) * len(sweep.seeds)
    clean = ", ".join(
        f"{100 * float(mean_accuracy(swept.natural[method, radius]).mean()):.0f} % ({method}, {radius}/255)"
        for method in (MADRY, FAT)
        for radius in (sweep.radii[method][0], sweep.radii[method][-1])
    )
    per_class = data.get("per_group") or "all"
    return (
        f"{sweep.title}: {trained} trainings of {sweep.network}, {per_class} training samples of each class, "
        f"{training.get('epochs', 120)} epochs, {sweep.steps} steps of {sweep.step:g}·ε_train in training, seeds "
        f"{', '.join(map(str, sweep.seeds))}; {int(swept.sizes.min())} test samples of each class at least. Accuracy "
        f"without an attack: {clean}."
    )


def _pictures(swept: Swept, by_class: Swept) -> tuple[Picture, ...]:
    name, network = swept.sweep.title, swept.sweep.network
    return (
        Picture(
            "radii",
            f"Robust accuracy, its variance over classes (VCRA) and their quotient √VCRA ÷ accuracy against the radius "
            f"trained with, attacked at {TEST}/255; {network} on {name}, mean and range of the seeds.",
            sweep_picture(swept),
        ),
        Picture(
            "cells",
            f"All cells, mean over seeds: method and radius trained with × attack and radius attacked with; {network} "
            f"on {name}.",
            table_picture(swept),
        ),
        Picture(
            "classes",
            f"Robust accuracy by class of Madry’s method under FGSM {TEST}/255, and its change from the smallest to "
            f"the largest radius trained with (95 % intervals over seeds); {by_class.sweep.networks[-1]} on {name}.",
            classes_picture(by_class),
        ),
        Picture(
            "madry-fat",
            f"Madry’s method against FAT, a mark for each cell and seed: below the line VCRA is lower for FAT (left), "
            f"above it its robust accuracy is higher (right); {network} on {name}.",
            pairs_picture(swept),
        ),
        Picture(
            "lambda",
            f"VCRA and robust accuracy of FAT against λ; 0 is Madry’s method. ε_train = {swept.sweep.weights_at}/255, "
            f"attacked at {TEST}/255; {network} on {name}, mean and range of the seeds.",
            weights_picture(swept),
        ),
    )
