"""Networks before and after AdvERM: the gap between a group's curve and that of the rest, and the accuracy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairmargin.data.catalog import load
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.nanda.warm import start_from_imagenet
from fairmargin_papers.nanda2020.gaps import Change, curves_picture, gap_of, gaps_picture
from fairmargin_papers.nanda2020.studies import PLAIN, Setting, settings
from fairmargin_papers.shared.claims import Claim, Decision, Verdict, by_all, by_direction, directed
from fairmargin_papers.shared.original import Original
from fairmargin_papers.shared.paper import Assignment, Findings, NotPossibleHereError, Part, Picture
from fairmargin_papers.shared.trained import run_grid

_PRICE = 1.0  # points of accuracy that count as no loss, as in the paper (it reports +0.85 and −0.73 points)
_SIGNS = {"truck": "more robust than the rest in the paper", "cat": "", "Black": "less robust in the paper"}
_FACES = (
    "Predicting age from a face is a flawed task, and race is the dataset's coding, not people's own words: these "
    "networks test the method, and what they show (whom an attacker would reach first) can be misused."
)


def run(assignment: Assignment) -> Findings:
    """Train plainly and with AdvERM, measure both, and compare each group with the rest."""
    changes: list[Change] = []
    missing: dict[bool, str] = {}
    asked = settings(assignment.scale)
    for setting in asked:
        try:
            place = replace(assignment, folder=assignment.folder / setting.folder)
            grid = run_grid(place, _started(place, setting))
        except NotPossibleHereError as error:
            missing[setting.faces] = str(error)
            continue
        changes += changes_of(grid, setting)
    return Findings(rows(assignment.claims, changes, missing), pictures(changes), _notes(asked, changes, assignment))


def _started(place: Assignment, setting: Setting) -> Mapping[str, Any]:
    """Return the study, with ImageNet weights for a network that starts with them."""
    if not setting.pretrained:
        return setting.sections
    data = load(setting.data["data"], root=place.root, split="test", size=setting.data.get("size"))
    shape, path = tuple(map(int, data.x.shape[1:])), place.folder / "starts" / f"{setting.network}.safetensors"
    start = str(start_from_imagenet(setting.network, shape, len(data.class_names), path))
    return setting.started(start)


def originals() -> tuple[Original, ...]:
    """Return the studies of the scale "paper"."""
    return tuple(Original(each.sections, (each.network,) if each.pretrained else ()) for each in settings("paper"))


_DIFFERENCES = (
    "Three trainings of each network; the paper does not say how many it made.",
    "α is 0.1, 1 and 10, and there is one τ for each dataset; the paper shows the best of several α and τ, which its "
    "published code lists as 0.005, 0.1, 1, 2, 10 and 1, 2, 5 (of normalised inputs).",
    "The groups are truck, cat and Black; the paper has every class and every race.",
    "What the paper calls ResNet-50 and VGG is ResNet-18 and VGG-19 with BatchNorm, as in its published code.",
    "The indicator of the regulariser is a sigmoid of temperature 0.1, since the printed one has no gradient (row 7).",
    "UTKFace is split by our own rule (`fairmargin data utkface`).",
)
PART = Part(
    "networks",
    "networks before and after AdvERM",
    frozenset({1, 2, 3, 4, 5, 6}),
    run,
    originals=originals,
    differences=_DIFFERENCES,
)


def changes_of(grid: StudyRun, setting: Setting) -> list[Change]:
    """Return the changes of a setting's networks, one per target."""
    partition = grid.partition(None, setting.partition)
    seeds = range(setting.seeds)
    plain = tuple(grid.distances(method=PLAIN, seed=seed) for seed in seeds)
    found = []
    for target in setting.targets:
        after = tuple(grid.distances(method=target.method, seed=seed) for seed in seeds)
        gaps = [
            tuple(gap_of(each, partition, target.group, setting.radius) for each in some) for some in (plain, after)
        ]
        found.append(Change(setting, target, gaps[0], gaps[1], plain, after, partition))
    return found


def rows(claims: Mapping[int, Claim], changes: Sequence[Change], missing: Mapping[bool, str]) -> tuple[Claim, ...]:
    """Return one row per claim and change; if data are missing, one row with the reason."""
    found: list[Claim] = []
    for number, role, row in _ROWS:
        answers = [row(claims[number], each) for each in changes if each.target.role == role]
        reason = missing.get(role == "Black") or next(iter(missing.values()), "nothing was measured")
        found += answers or [claims[number].untested(reason)]
    trend = [_trend_row(claims[6], some) for some in (_one_case(changes, role) for role in ("truck", "Black")) if some]
    reason = missing.get(False) or next(iter(missing.values()), "nothing was measured")
    return (*found, *(trend or [claims[6].untested(reason)]))


def narrowed(change: Change) -> Verdict:
    """Return whether the group came nearer to the rest, at τ and over the whole curves.

    The regulariser reduces the difference of the shares beyond τ, and the paper's claim is about the difference between
    the curves. The relative area alone is not the claim: it can fall while the shares at τ differ more.
    """
    at_radius = by_direction(change.difference("bias").interval, "below")
    return by_all([at_radius, by_direction(change.ratio("relative").interval, "below", 1.0)])


def _gap_row(claim: Claim, change: Change) -> Claim:
    if change.collapsed:
        return claim.found(
            f"{change.name}: {change.collapsed} of {len(change.before) + len(change.after)} networks give one answer "
            "to everything, and have no gap",
            "undecided",
            remark=f"A training that ends so says nothing about gaps. {change.setting.instead}",
        )
    relative, between, sigma = (change.means(of) for of in ("relative", "between", "sigma"))
    ratio = change.ratio("relative")
    return claim.found(
        f"{change.name}: {_at_radius(change)}; relative gap {_arrow(relative, '.3f')}, {ratio.mean:.2f} times as wide",
        Decision(narrowed(change), ratio.interval),
        remark=f"{_sign(change)} σ changes from {_arrow(sigma, '+.3f')}. The area between both curves itself changes "
        f"from {_arrow(between, '.4f')} ({change.difference('between').text(1, 4)}). {change.setting.instead}",
    )


def _at_radius(change: Change) -> str:
    """Describe how much the shares of correct samples beyond τ differ, which the regulariser reduces."""
    before, after = (100 * share for share in change.means("bias"))
    said = change.difference("bias").times(100).signed(1)
    return f"at τ = {change.setting.radius:g} the shares differ by {before:.1f} → {after:.1f} points ({said})"


def _accuracy_row(claim: Claim, change: Change) -> Claim:
    difference = change.difference("accuracy").times(100)
    before, after = (f"{share:.2%}" for share in change.means("accuracy"))
    return claim.found(
        f"{change.name}: {before} → {after}, {difference.text(digits=2)} points",
        directed(difference, "above", -_PRICE),
        remark="The paper says that AdvERM costs no accuracy: it holds if the change lies above −1 point, "
        f"and does not if it lies below. {change.setting.instead}",
    )


_ROWS: tuple[tuple[int, str, Callable[[Claim, Change], Claim]], ...] = (
    (1, "truck", _gap_row),
    (2, "Black", _gap_row),
    (5, "cat", _gap_row),
    (3, "truck", _accuracy_row),
    (4, "Black", _accuracy_row),
)


def _one_case(changes: Sequence[Change], role: str) -> list[Change]:
    """Return the changes of one group with the smallest α, one per network."""
    some = [change for change in changes if change.target.role == role]
    return [change for change in some if change.target.weight == min(each.target.weight for each in some)]


def _trend_row(claim: Claim, changes: Sequence[Change]) -> Claim:
    verdicts = [narrowed(change) for change in changes]
    said = []
    for change, verdict in zip(changes, verdicts, strict=True):
        ratio, points = change.ratio("relative"), change.difference("bias").times(100).signed(1)
        numbers = f"{points} and {ratio.mean:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]"
        said.append(f"{change.setting.network} {numbers} ({verdict})")
    narrower = sum(change.difference("bias").mean < 0 and change.ratio("relative").mean < 1 for change in changes)
    target = changes[0].target
    return claim.found(
        f"{target.group}, α = {target.weight:g}: narrower on average in {narrower} of {len(changes)} networks",
        by_all(verdicts),
        remark=f"Points at τ, after less before, and the relative gap, after over before: {'; '.join(said)}. The trend "
        "holds if it holds in every network, and does not if it is refuted in one.",
    )


def _arrow(pair: tuple[float, float], how: str) -> str:
    return " → ".join(f"{value:{how}}" for value in pair).replace("-", "−")


def _sign(change: Change) -> str:
    paper = _SIGNS[change.target.role]
    before = change.means("sigma")[0]
    said = f"Before, {change.target.group} is {'more' if before > 0 else 'less'} robust than the rest"
    return f"{said} ({paper})." if paper else f"{said}."


def pictures(changes: Sequence[Change]) -> tuple[Picture, ...]:
    """Draw the curves before and after, one figure per kind of data, and the gaps of all."""
    if not changes:
        return ()
    found = []
    for faces, name in ((False, "adverm-objects"), (True, "adverm-faces")):
        some = [change for change in changes if change.setting.faces == faces]
        if some:
            found.append(
                Picture(
                    name,
                    "The share of a group that is right and farther than τ from the boundary, against that of "
                    "all other samples; left before AdvERM, right after. A thin line for each seed, a thick "
                    "one for their mean; the dotted line is the radius at which AdvERM reduces their "
                    "difference.",
                    curves_picture(some),
                )
            )
    found.append(
        Picture(
            "adverm-gaps",
            "The relative gap and the accuracy before and after AdvERM: a small mark for each seed, a large hollow one "
            "for their mean.",
            gaps_picture(changes),
        )
    )
    return tuple(found)


def _notes(asked: Sequence[Setting], changes: Sequence[Change], assignment: Assignment) -> tuple[str, ...]:
    said = []
    for setting in asked:
        some = [change for change in changes if change.setting == setting]
        if some:
            epochs = setting.training.get("epochs", "50")
            size = setting.data.get("per_group")
            said.append(
                f"{setting.title}, {epochs} epochs, "
                f"{f'{size} training samples a group' if size else 'all training samples'}, "
                f"{len(some[0].partition):,} test samples, {setting.seeds} seeds, distances by `{setting.estimator}` "
                f"(L2, upper bounds), τ = {setting.radius:g} (the median distance of plain networks’ correct samples "
                f"is {some[0].median:.2f}), a sigmoid of temperature 0.1 for the indicator."
            )
    if changes:
        said.append(
            "A gap narrows only if it does at τ and over the curves: the interval of the change of the shares' "
            "difference lies below 0, and that of the relative gap, after over before, below 1; it does not if "
            "one of them lies above. Shares are of correct samples beyond τ, whose difference the regulariser "
            "reduces. The relative gap is the area between a group's curve and that of the rest, over the area "
            "below the rest's, so that it does not shrink merely because all distances do. Curves that cross "
            "have a gap although σ, the difference of their areas, may be 0; and because of chance no gap is "
            "exactly 0. Intervals (95 %, Student's t over seeds) are of after ÷ before, networks of the same "
            "seed, on the scale of logarithms; all seeds are measured on the same test samples. The paper "
            "shows the best of several α and τ; here both were fixed in advance. Five seeds instead of three, "
            "the quotient instead of the difference, and that the shares at τ must come nearer too, were "
            "chosen after a first run had been seen."
        )
    if any(change.setting.faces for change in changes) and assignment.scale != "smoke":
        said.append(_FACES)
    return tuple(said)
