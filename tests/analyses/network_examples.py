"""Tables of studies made by hand, so that their sections can be tested without training anything."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from fairmargin.inference.estimate import LESS_ROBUST, MORE_ROBUST, NO_DIFFERENCE

SIGMAS = {"a": -0.4, "b": 0.1, "c": 0.5}


def measured(sigma: float = -0.3, **about: Any) -> dict[str, Any]:
    """Return a row of an audit by distances."""
    return _row(about) | {
        "sigma": sigma,
        "sigma_low": sigma - 0.1,
        "sigma_high": sigma + 0.1,
        "accuracy": 0.9,
        "verdict": about.get("verdict", LESS_ROBUST if sigma < -0.2 else MORE_ROBUST if sigma > 0.2 else NO_DIFFERENCE),
    }


def attacked(robust: float = 0.5, natural: float = 0.9, **about: Any) -> dict[str, Any]:
    """Return a row of robust accuracy."""
    row = _row({"kind": "robust_accuracy", "by": "pgd", "norm": "linf", "radius": 8 / 255} | about)
    shares = {"robust_accuracy": robust, "robust_accuracy_low": robust - 0.1, "robust_accuracy_high": robust + 0.1}
    return row | shares | {"natural_accuracy": natural, "verdict": about.get("verdict", NO_DIFFERENCE)}


def _row(about: Mapping[str, Any]) -> dict[str, Any]:
    usual = {
        "data": "digits",
        "model": "small_cnn",
        "method": "erm",
        "seed": 0,
        "epoch": 4,
        "asked_as": "last",
        "kind": "audit",
        "by": "deepfool",
        "radius": math.nan,
        "norm": "l2",
        "partition": "class",
        "group": "a",
        "size": 50,
        "bound": "upper",
    }
    return usual | dict(about)


def example_study(
    seeds: Sequence[int] = (0, 1),
    methods: Sequence[str] = ("erm", "madry"),
    models: Sequence[str] = ("cnn", "linear"),
) -> pd.DataFrame:
    """Three groups, a and c of which differ from the rest; the second method helps a, and costs some accuracy."""
    rows = []
    for model in models:
        for number, method in enumerate(methods):
            for seed in seeds:
                for place, (group, sigma) in enumerate(SIGMAS.items()):
                    about = {"model": model, "method": method, "seed": seed, "group": group}
                    early = about | {"epoch": 1, "asked_as": "first"}
                    rows.append(measured(sigma + 0.1 * number + 0.01 * seed, **about))
                    rows.append(measured(-sigma, **early))
                    natural = 0.9 - 0.02 * number
                    rows.append(attacked(0.2 + 0.2 * place + 0.1 * number, natural, **about))
                    rows.append(attacked(0.1 * place, natural, **about | {"radius": 0.1}))
    return pd.DataFrame(rows)
