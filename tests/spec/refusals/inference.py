"""What `fairmargin.inference` refuses."""

from dataclasses import replace

import numpy as np

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.agreement import sign_agreement
from fairmargin.inference.capping import common_cap
from fairmargin.inference.censoring import horizon_of
from fairmargin.inference.settings import AuditSettings
from tests.spec.refusals import Refusal

ONE = Partition.by("all", [0, 0])
NOT_FOUND = Distances([np.inf, 0.0], [True, False], "upper", "l2")


def settings(message: str, field: str, value: object) -> Refusal:
    return Refusal(lambda _: AuditSettings(**{field: value}), message, field=field)  # type: ignore[arg-type]


REFUSALS = [
    Refusal(lambda _: sign_agreement({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0}), "only one of them has 'b', 'c'"),
    Refusal(
        lambda _: common_cap(NOT_FOUND, np.inf),
        "1 of 2 samples have no finite distance; nothing says how far the search looked. Set `up_to=`",
    ),
    Refusal(
        lambda _: horizon_of([NOT_FOUND], ONE, None, np.inf),
        "1 of 2 samples have no finite distance, the others are 0, and no search is known to have looked beyond 0. Set",
    ),
    Refusal(
        lambda _: horizon_of([replace(NOT_FOUND, tried=[0.0, 0.0])], ONE, None, np.inf),
        "no search is known to have looked beyond 0",
    ),
    Refusal(
        lambda _: horizon_of([replace(NOT_FOUND, tried=[np.inf, 0.0])], ONE, None, np.inf),
        "It is proven for 1 of 2 samples that no allowed change leads to another class",
    ),
    *(settings("`confidence` must lie in [0.5, 1)", "confidence", value) for value in (0.49, 1.0, 95)),
    *(settings("`up_to` must be a radius above 0", "up_to", value) for value in (0.0, -1.0, np.nan)),
    *(
        settings(f"`{name}` must be a whole number below 2**63; given", name, value)
        for name in ("smallest_group", "resamples", "seed")
        for value in (2**63, 10**20, 10**400)
    ),
    settings("`up_to` must be a radius above 0 and below 2**63, or inf", "up_to", 1e300),
    settings("`smallest_group` must be at least 2: one sample has no spread", "smallest_group", 1),
    settings("`resamples` must be at least 200", "resamples", 199),
    settings("`seed` must not be negative", "seed", -1),
    settings("`seed` must be a whole number", "seed", "one"),
    *(
        settings(f"`sample_weight` must hold one number per sample, 0 or more{what}", "sample_weight", value)
        for value, what in (
            ([1.0, -0.5], "; it has -0.5 at index 1"),
            ([1.0, 2.0, np.nan], "; it has no number at index 2"),
            ([np.inf, 1.0], "; it has infinity at index 0"),
            ([1.0, None], "; it has no number at index 1"),
            (["1", "heavy"], "; it has 'heavy' at index 1"),
            ([[1.0, 2.0]], "; given"),
            ([[1.0], [1.0, 2.0]], "; given"),
            (2.0, "; given 2.0"),
            ("w", "; given 'w'"),
        )
    ),
    settings("`sample_weight` has no number above 0", "sample_weight", [0.0, 0.0]),
    settings("`sample_weight` has no number above 0", "sample_weight", []),
    settings("`sample_weight` has weights from 1e-300 to 1, whose sums cannot be", "sample_weight", [1.0, 0.0, 1e-300]),
    Refusal(
        lambda _: AuditSettings(sample_weight=[1, 2]).weights(3),
        "`sample_weight` has 2 weights, but there are 3 samples",
        field="sample_weight",
    ),
    Refusal(lambda _: AuditSettings(cluster=[1, 2]).cluster_codes(3), "`cluster` has 2 ids but there are 3 samples"),
]
