"""Nanda's tables: how accurate the models are, and how often signs of σ agree on each dataset."""

from collections.abc import Mapping, Sequence

import numpy as np

from fairmargin_papers.nanda.linear import WARNING
from fairmargin_papers.nanda.settings import DEEPFOOL, EXACT, LOGISTIC, SMOOTHING
from fairmargin_papers.nanda.signs import Agreement, Measured
from fairmargin_papers.shared.paper import Table
from fairmargin_papers.shared.trained import over_seeds

# Table 2 of the paper: the least and the most accurate of its networks, and how many there are.
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
