"""The figures and tables of the page of Nanda's experiments, with their captions."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairmargin.models.layers.linear_network import as_linear
from fairmargin.runner.study_run import StudyRun
from fairmargin_papers.nanda.claims import network_agreement
from fairmargin_papers.nanda.figures import (
    agreement_picture,
    class_curves,
    group_curves,
    image_pair,
    pair_picture,
    sigma_maps,
)
from fairmargin_papers.nanda.linear import WARNING, exact_agreement
from fairmargin_papers.nanda.settings import (
    CARLINI,
    DEEPFOOL,
    EXACT,
    FIRST,
    LAST,
    LOGISTIC,
    MIDDLE,
    SMOOTHING,
    Effort,
    Setting,
    measured_epochs,
)
from fairmargin_papers.nanda.signs import Agreement, Measured, Sigmas, sigmas
from fairmargin_papers.shared.paper import Picture, Table
from fairmargin_papers.shared.trained import over_seeds

_PRINTED_SHARES = {
    f"exact – {DEEPFOOL}": 125 / 151,
    f"exact – {CARLINI}": 125 / 151,
    f"exact – {SMOOTHING}": 101 / 151,
    f"{DEEPFOOL} – {CARLINI}": 708 / 755,
    f"first – last epoch ({DEEPFOOL})": 637 / 755,
    f"first – last epoch ({CARLINI})": 621 / 755,
    f"middle – last epoch ({DEEPFOOL})": 671 / 755,
    f"middle – last epoch ({CARLINI})": 665 / 755,
}


def gallery(
    chosen: Sequence[Setting], found: Sequence[Measured], linear: Mapping[str, StudyRun], work: Effort
) -> list[Picture]:
    """Draw all figures of the networks."""
    by_name = {setting.name: setting for setting in chosen}
    seed = work.seeds[0]
    pictures = [
        Picture(
            "class-curves",
            "Logistic regression, exact distances: the share of each class that is right and farther than τ from the "
            f"boundary, and the mean of the classes. Seed {seed}.",
            class_curves([(each.title, each.linear(seed, EXACT), each.linear_partitions[0]) for each in found]),
        )
    ]
    sensitive = [
        (f"{each.title} by {part.name}", each.linear(seed, EXACT), part)
        for each in found
        for part in each.linear_partitions
        if part.name in by_name[each.name].sensitive
    ]
    if sensitive:
        caption = f"The same by sensitive attribute: logistic regression, exact distances, seed {seed}."
        pictures.append(Picture("attribute-curves", caption, group_curves(sensitive)))
    pictures += [picture for each in found for picture in _of_networks(each, by_name[each.name], work)]
    pictures.append(
        Picture(
            "sign-agreement",
            "How often two σ have the same sign: the mean and its interval over datasets (or over networks where there "
            f"are fewer than three), each dataset, the level of chance, and what the paper prints. {WARNING}",
            agreement_picture(comparisons(found)),
        )
    )
    pictures.append(_pair(found[0], linear[found[0].name], seed))
    return pictures


def _of_networks(each: Measured, setting: Setting, work: Effort) -> list[Picture]:
    maps = {
        by: (
            [f"{network}, {epoch}" for epoch in words for network in each.networks],
            [_mean_sigmas(each, network, by, epoch) for epoch in words for network in each.networks],
        )
        for by, words in measured_epochs(setting).items()
    }
    pictures = [
        Picture(
            f"sigma-{each.name}",
            f"{each.title}: σ of every group in every network after the first, middle and last epoch, mean over "
            f"{len(each.seeds)} seeds. Red: less robust than the rest; blue: more; the strongest colours begin "
            f"at ±1. A white field without a number: no other sample is robust, so that there is no σ. {WARNING}",
            sigma_maps(maps),
        )
    ]
    for part in each.partitions:
        if part.name in setting.sensitive and len(part.labels) > 2:
            shown = [
                (f"{network}, {by}", each.distances(network, work.seeds[0], by), part)
                for network in each.networks
                for by in (DEEPFOOL, CARLINI, SMOOTHING)
            ]
            caption = (
                f"{each.title} by {part.name}: each network (rows) by each estimator (columns), last epoch, seed "
                f"{work.seeds[0]}. {WARNING}"
            )
            pictures.append(Picture(f"curves-{each.name}-{part.name}", caption, group_curves(shown, 3)))
    return pictures


def _mean_sigmas(each: Measured, network: str, by: str, epoch: str) -> Sigmas:
    found = [sigmas(each.distances(network, seed, by, epoch), each.partitions) for seed in each.seeds]
    return {group: float(np.mean([one[group] for one in found])) for group in found[0]}


def comparisons(found: Sequence[Measured]) -> dict[str, tuple[Agreement, float | None]]:
    """Return the agreements of all pairs of signs that are compared, with the printed share if there is one."""
    return {name: (both, _PRINTED_SHARES.get(name)) for name, both in _compared(found).items()}


def _compared(found: Sequence[Measured]) -> dict[str, Agreement]:
    rows = {f"exact – {by}": exact_agreement(found, by) for by in (DEEPFOOL, CARLINI, SMOOTHING)}
    looks = {f"{DEEPFOOL} – {CARLINI}": ((DEEPFOOL, LAST), (CARLINI, LAST))}
    looks |= {f"{SMOOTHING} – {by}": ((SMOOTHING, LAST), (by, LAST)) for by in (DEEPFOOL, CARLINI)}
    looks |= {f"first – last epoch ({by})": ((by, FIRST), (by, LAST)) for by in (DEEPFOOL, CARLINI)}
    looks |= {f"middle – last epoch ({by})": ((by, MIDDLE), (by, LAST)) for by in (DEEPFOOL, CARLINI)}
    return rows | {name: network_agreement(found, *pair) for name, pair in looks.items()}


def _pair(each: Measured, grid: StudyRun, seed: int) -> Picture:
    test = grid.dataset()
    model = next(network for network in grid.networks() if network.name == LOGISTIC and network.seed == seed)
    shape = tuple(map(int, test.x.shape[1:]))
    linear = as_linear(model.classifier(), shape)
    assert linear is not None
    first, second, budget = image_pair(linear, test, each.linear_partitions[0])
    caption = (
        f"{each.title}, logistic regression: the median picture of the least and of the most robust class, "
        f"moved towards its nearest boundary by at most the same budget τ = {budget:.2f}. The prediction of the "
        "first changes within the budget. That of the second does not, and no other change within the budget "
        "changes it, since the distances are exact."
    )
    return Picture("image-pair", caption, pair_picture(first, second, budget))


# Table 2 of the paper: the least and the highest accuracy of its networks, and their number.
_PRINTED = {
    "adience": "46.04–51.41 (6 networks)",
    "utkface": "66.25–70.73 (6 networks)",
    "cifar10": "76.97–92.08 (7 networks)",
    "cifar100": "40.36–71.31 (7 networks)",
    "cifar100-super": "55.16–80.70 (7 networks)",
}


def accuracy_table(found: Sequence[Measured]) -> Table:
    """Return one row per dataset and model: its accuracy, and that of the smoothed classifier."""
    rows = []
    for each in found:
        plain, voted = (
            [100 * float(each.linear(seed, by).correct.mean()) for seed in each.seeds] for by in (EXACT, SMOOTHING)
        )
        printed = _PRINTED.get(each.name, "–")
        rows.append((each.title, LOGISTIC, _mean(plain), _mean(voted), "–"))
        for network in each.networks:
            plain, voted = (
                [100 * float(each.distances(network, seed, by).correct.mean()) for seed in each.seeds]
                for by in (DEEPFOOL, SMOOTHING)
            )
            rows.append((each.title, network, _mean(plain), _mean(voted), printed))
    return Table(
        "accuracy",
        "Accuracy in per cent on test samples, mean over seeds ± half of its 95 % interval, of the model and of its "
        "vote under noise 0.125 of the pixels; printed: the range of the paper's larger networks (Table 2).",
        ("data", "model", "accuracy", "smoothed", "printed"),
        tuple(rows),
    )


def agreement_table(comparisons: Mapping[str, tuple[Agreement, float | None]]) -> Table:
    """Return one row per comparison: all datasets, the level of chance, each dataset, and the printed share."""
    datasets = list(dict.fromkeys(name for both, _ in comparisons.values() for name in both.by))
    rows = []
    for name, (both, printed) in comparisons.items():
        low, high = both.interval
        shown = f"{both.share:.1%} [{low:.1%}, {high:.1%}]" if both.groups else "–"
        each = [f"{both.by[data][0]:.1%} ({both.by[data][1]:.1%})" if data in both.by else "–" for data in datasets]
        chance = f"{both.chance:.1%}" if both.groups else "–"
        rows.append((name, "–" if printed is None else f"{printed:.1%}", shown, chance, *each))
    return Table(
        "agreement",
        f"How often two σ have the same sign: the mean over datasets with its interval, and each dataset with its "
        f"level of chance in brackets. {WARNING}",
        ("signs compared", "printed", "ours", "by chance", *datasets),
        tuple(rows),
    )


def _mean(values: Sequence[float]) -> str:
    return over_seeds(np.asarray(values)).text(digits=1)
