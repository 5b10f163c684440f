"""What `fairmargin.inference` refuses."""

import numpy as np

from fairmargin.core.distances import Distances
from fairmargin.inference.agreement import sign_agreement
from fairmargin.inference.capping import common_cap
from fairmargin.inference.settings import AuditSettings
from tests.spec.refusals import Refusal

NOT_FOUND = Distances([np.inf, 0.0], [True, False], "upper", "l2")


def settings(message: str, field: str, value: object) -> Refusal:
    return Refusal(lambda _: AuditSettings(**{field: value}), message, field=field)  # type: ignore[arg-type]


REFUSALS = [
    Refusal(lambda _: sign_agreement({"a": 1.0, "b": 1.0}, {"a": 1.0, "c": 1.0}), "only one of them has 'b', 'c'"),
    Refusal(
        lambda _: common_cap(NOT_FOUND, np.inf),
        "1 of 2 samples have no finite distance; nothing says how far the search looked. Set `up_to=`",
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
    Refusal(lambda _: AuditSettings(cluster=[1, 2]).cluster_codes(3), "`cluster` has 2 ids but there are 3 samples"),
]
