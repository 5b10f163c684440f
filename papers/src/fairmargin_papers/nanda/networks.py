"""Nanda's experiments with trained models: logistic regressions measured exactly, networks by estimates."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from fairmargin.core.distances import Distances
from fairmargin.errors import InputError, ModelError
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.nanda.claims import network_rows
from fairmargin_papers.nanda.gallery import accuracy_table, agreement_table, comparisons, gallery
from fairmargin_papers.nanda.linear import WARNING, linear_rows
from fairmargin_papers.nanda.settings import (
    DEEPFOOL,
    EXACT,
    PRETRAINED,
    Effort,
    Setting,
    effort,
    linear_sections,
    network_sections,
    settings,
    title,
)
from fairmargin_papers.nanda.signs import Measured
from fairmargin_papers.nanda.warm import start_from, start_from_imagenet, warm_rows
from fairmargin_papers.shared.original import Original
from fairmargin_papers.shared.paper import Assignment, Findings, NotPossibleHereError, Part
from fairmargin_papers.shared.trained import run_grid

_ETHICS = (
    "Predicting age, race or gender from a face is itself a flawed task: these data serve to test the method, "
    "their categories are the datasets' coding and not people's own words, and knowledge of whom an attacker "
    "would reach first can be misused. No face is shown."
)


def run(assignment: Assignment) -> Findings:
    """Run all datasets one after the other; missing data leave only their own rows not tested."""
    work, chosen = effort(assignment.scale), settings(assignment.scale)
    found: list[Measured] = []
    grids: dict[str, StudyRun] = {}
    linear: dict[str, StudyRun] = {}
    missing: dict[str, str] = {}
    cold = ""
    for setting in chosen:
        place = replace(assignment, folder=assignment.folder / setting.name)
        try:
            linear[setting.name] = run_grid(place, linear_sections(setting, assignment.scale))
            starts, why = _starts(place, setting, grids, linear[setting.name])
            cold = cold or why
            grids[setting.name] = run_grid(place, network_sections(setting, assignment.scale, starts))
        except NotPossibleHereError as error:
            missing[setting.name] = str(error)
            continue
        found.append(_measured(setting, work, linear[setting.name], grids[setting.name], tuple(starts)))
    if not found:
        raise NotPossibleHereError(next(iter(missing.values())))
    rows = [
        *linear_rows(assignment.claims, chosen, found, missing),
        *network_rows(assignment.claims, chosen, found, missing, _what(assignment, work, found)),
        *warm_rows(assignment.claims[14], found, cold or missing.get("utkface", "")),
    ]
    return Findings(
        tuple(rows),
        tuple(gallery(chosen, found, linear, work)),
        tuple(_notes(assignment, chosen, found)),
        (accuracy_table(found), agreement_table(comparisons(found))),
    )


def originals() -> tuple[Original, ...]:
    """Return the studies of the scale "paper"."""
    found = []
    for setting in settings("paper"):
        found.append(Original(linear_sections(setting, "paper")))
        found.append(Original(network_sections(setting, "paper", {}), setting.warm))
    return tuple(found)


_DIFFERENCES = (
    "Three trainings of each network; the paper does not say how many it made.",
    "UTKFace and Adience are split by our own rule (`fairmargin data NAME`), not by the paper's random draw of 80:20.",
    "Attacks end with a search back to the boundary, which makes distances smaller; rows that say “as published” have "
    "the published settings, and are of logistic regressions only.",
    "Smoothing adds noise of 0.125 to pixels, and the smoothed classifier decides who is right; the paper adds it "
    "after the normalisation, which is half of that on CIFAR, and asks the plain network.",
    "AlexNet resizes pictures of CIFAR to 224 × 224 pixels in its first layer, so that its distances are those of the "
    "pictures with 32 × 32 pixels; the published code has an option that resizes the pictures before.",
    "ResNet-50 and VGG-19 are as printed; the published code has ResNet-18 and VGG-19 with BatchNorm by these names.",
)
PART = Part(
    "networks",
    "logistic regressions and networks",
    frozenset(range(3, 17)),
    run,
    originals=originals,
    differences=_DIFFERENCES,
)


def _starts(
    place: Assignment, setting: Setting, grids: dict[str, StudyRun], linear: StudyRun
) -> tuple[dict[str, str], str]:  # fmt: skip
    """Return files of initial weights by architecture, or none and the reason."""
    test = linear.dataset()
    shape, classes = tuple(map(int, test.x.shape[1:])), linear.training().outputs
    if setting.warm and setting.source == setting.name:  # at smoke scale, which does not test the claim
        grids[setting.name] = run_grid(place, network_sections(replace(setting, warm=()), place.scale, {}))
    paths: dict[str, str] = {}
    for architecture in setting.warm:
        path = place.folder / "starts" / f"{architecture}.safetensors"
        try:
            if setting.source == "imagenet":
                paths[architecture] = str(start_from_imagenet(architecture, shape, classes, path))
            elif setting.source in grids:
                paths[architecture] = str(start_from(grids[setting.source], architecture, shape, classes, path))
            else:
                return {}, f"there are no initial weights: {setting.source} is missing"
        except (InputError, ModelError) as error:  # other shapes, or no weights
            if place.scale == "paper":
                raise  # its page names these networks: none may be left out
            return {}, f"there are no initial weights: {error}"
    return paths, ""


def _measured(setting: Setting, work: Effort, linear: StudyRun, grid: StudyRun, warm: tuple[str, ...]) -> Measured:
    """Return the measurements of both studies of a dataset; distances are read once."""

    @cache
    def exactly(seed: int, by: str) -> Distances:
        return linear.distances(seed=seed, estimator=by)

    @cache
    def look(network: str, seed: int, by: str, epoch: str) -> Distances:
        return grid.distances(model=network, seed=seed, estimator=by, epoch=epoch)

    names = tuple(title(name) + PRETRAINED for name in warm)
    return Measured(
        setting.name,
        setting.title,
        work.seeds,
        tuple(linear.partition(None, name) for name in setting.partitions),
        exactly,
        tuple(grid.partition(None, name) for name in setting.partitions),
        (*map(title, setting.scratch), *names),
        names,
        look,
    )


def _what(assignment: Assignment, work: Effort, found: Sequence[Measured]) -> str:
    used = "; ".join(f"{each.title}: {', '.join(each.networks)}" for each in found)
    return assignment.by_scale(
        "Networks: a small CNN and a linear one on the embedded digits, a test of the command, not of the claim.",
        f"Networks: LeNet-5, a small CNN and ResNet-8, trained {work.training.get('epochs')} epochs on 8,000 pictures "
        "(UTKFace 6,000, Adience 1,400), far smaller than the paper's.",
        f"Networks: {used}.",
    )


def _notes(assignment: Assignment, chosen: Sequence[Setting], found: Sequence[Measured]) -> list[str]:
    known = {setting.name: setting for setting in chosen}
    notes = []
    for each in found:
        accuracy = np.mean([each.linear(seed, EXACT).correct.mean() for seed in each.seeds])
        said = [f"logistic regression {accuracy:.1%}"]
        for network in each.networks:
            share = np.mean([each.distances(network, seed, DEEPFOOL).correct.mean() for seed in each.seeds])
            said.append(f"{network} {share:.1%}")
        size = known[each.name].linear.get("size")
        pixels = f", {size} × {size} pixels" if size else ""
        counts = f"{len(each.linear_partitions[0]):,} test samples for logistic regressions"
        counts += f" and {len(each.partitions[0]):,} for networks"
        notes.append(f"{each.title}{pixels}: {counts}; accuracy: {', '.join(said)}.")
    if assignment.scale == "laptop":
        notes.append(
            "All pictures are normalised by mean = std = 0.5, as the paper does for CIFAR, so that a network "
            "pre-trained on CIFAR-10 sees faces as it saw CIFAR-10. Networks on UTKFace: as many training and "
            "test faces of each race, unlike in the paper. Adience: the 1,586 available faces, with other "
            "people in the test data, seven of the eight ages among the test faces, more than half of them of "
            "one age. Smoothing: noise of the pixels, on CIFAR twice the paper's; few draws cap its radii near "
            "0.2, so that its σ is close to that of accuracy. “In direction only”: networks and data are "
            "smaller than the paper's."
        )
    notes.append(
        "Rows of agreement: groups of one dataset are not independent, nor are networks measured on the same "
        "samples, so that mean and interval are over datasets (Student's t), or over networks where there are "
        "fewer than three datasets; the interval is never narrower than the binomial one of as many "
        "independent groups. Chance: two independent signs with the same frequencies. Such a row holds if the "
        "share less chance, dataset by dataset, lies above 0, over all samples and also over correct ones "
        "alone: mistakes that both sides share agree without further reason. Whether the share is the printed "
        "one is another question; remarks say where it is not. Of a partition into two groups one is counted, "
        "since the other's sign is the opposite."
    )
    notes.append(
        "σ compares a group with all other samples together, and misclassified samples count with distance 0. "
        + WARNING
    )
    return [*notes, _ETHICS]
