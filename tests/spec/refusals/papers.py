"""What the distribution of the papers refuses."""

import math

import numpy as np

from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin_papers.catalog import paper_named
from fairmargin_papers.ma.measures import attack_number, share_of_cells
from fairmargin_papers.nanda2020.gaps import gap_of
from fairmargin_papers.shared.claims import Claim, Decision, by_direction, by_settings
from fairmargin_papers.shared.paper import parse_scale
from fairmargin_papers.shared.trained import over_seeds, slope_over_seeds
from fairmargin_papers.theory import GaussianClasses, GaussianPair, chance_beyond, mean_coin_gap
from tests.spec.refusals import Refusal

CLAIM = Claim("tran", 9, "The natural error rises with λ.", "Figure 4", "direction")
PAIR = GaussianPair(-1.0, 1.0, 2.0)
PAIRS = GaussianPair(0.0, [1.0, 2.0], 2.0)
CLASSES = GaussianClasses(1.0, 1.0, 1.0, 2.0, dim=10)
GOOD = {"mean_plus": 1.0, "mean_minus": 1.0, "std_plus": 1.0, "std_minus": 2.0, "dim": 10, "prior": 0.5}


def refused_pair(words, field, *arguments):
    return Refusal(lambda _: GaussianPair(*arguments), words, field)


def refused_classes(words, field, value):
    return Refusal(lambda _: GaussianClasses(**{**GOOD, field: value}), f"`{field}` must {words}", field)


def refused_radius(call, field, radius):
    return Refusal(lambda _: call(radius), f"`{field}` must", field)


RADII = (-0.1, math.nan, math.inf, [0.1, -1.0], "far", None)
BY_RADIUS = {
    "train_radius": (
        CLASSES.bias,
        CLASSES.vca,
        CLASSES.mean_distances,
        lambda radius: CLASSES.statements(radius, 0.1),
    ),
    "test_radius": (
        lambda radius: CLASSES.class_errors(0.1, radius),
        lambda radius: CLASSES.risk(0.1, radius),
        lambda radius: CLASSES.vcra(0.1, radius),
        lambda radius: CLASSES.statements(0.1, radius),
    ),
}

REFUSALS = [
    # Claims, studies and measures.
    Refusal(lambda _: paper_named("trans"), "no paper 'trans'; Did you mean 'tran'?"),
    Refusal(lambda _: parse_scale("labtop"), "no scale 'labtop'; Did you mean 'laptop'?"),
    Refusal(lambda _: CLAIM.found("", Decision("holds", (1.0, 0.0))), "must not exceed"),
    Refusal(lambda _: CLAIM.found("", Decision("holds", chance=94)), "share between 0 and 1"),
    Refusal(lambda _: by_direction((1.0, 0.0), "above"), "must not exceed"),
    Refusal(lambda _: by_direction((0.0, 1.0), "up"), "'above' or 'below'"),
    Refusal(lambda _: by_settings(11, 10), "between 0 and all 10"),
    Refusal(lambda _: over_seeds([1.0, math.nan]), "one finite number per seed"),
    Refusal(lambda _: slope_over_seeds([0, 1], [[1.0]]), "one row per seed with 2 values"),
    Refusal(lambda _: share_of_cells(np.ones((3, 4))), "by seed, radius and cell"),
    Refusal(lambda _: attack_number("DeepFool"), "FGSM, PGD-20, C&W"),
    Refusal(
        lambda _: gap_of(Distances([1.0], [True], "exact", "l2"), Partition.by("class", ["cat"]), "lorry", 0.3),
        "no group 'lorry', only",
    ),
    # Parameters of closed forms.
    refused_pair("`spread` is a standard deviation and must be above 0; given 0", "spread", 0.0, 1.0, 0.0),
    refused_pair("given -2", "spread", 0.0, 1.0, -2.0),
    refused_pair("`spread` must lie between 1e-06 and 1e+06", "spread", 0.0, 1.0, 1e9),
    refused_pair("`high` must lie between", "high", 0.0, 1e9, 1.0),
    refused_pair("must lie above the mean of class −; given 0", "high", 1.0, 1.0, 2.0),
    refused_pair("given -1", "high", 1.0, 0.0, 2.0),
    refused_pair("share of class +", "prior", 0.0, 1.0, 2.0, 0.0),
    refused_pair("share of class +", "prior", 0.0, 1.0, 2.0, 1.0),
    refused_pair("`spread` must be finite", "spread", 0.0, 1.0, math.nan),
    refused_pair("`low` must be finite", "low", -math.inf, 1.0, 2.0),
    refused_pair("must be a number or an array of numbers; given '1'", "high", 0.0, "1", 2.0),
    refused_pair("`spread` must be a number", "spread", 0.0, 1.0, None),
    refused_pair("`high` must be a number", "high", 0.0, True, 2.0),
    refused_pair("given -1, the first of 1 in 2 entries", "spread", 0.0, 1.0, [2.0, -1.0]),
    refused_pair("do not fit together: `low` (2,), `high` (3,)", "", np.zeros(2), np.ones(3), 2.0),
    Refusal(lambda _: PAIR.robust_threshold(-0.1), "must not be negative; given -0.1", "radius"),
    Refusal(lambda _: PAIR.robust_error(0.0, math.inf), "must be finite", "radius"),
    Refusal(lambda _: PAIR.statements(-1.0), "must not be negative", "radius"),
    Refusal(lambda _: PAIR.fair_threshold(-1.0), "must not be negative", "penalty"),
    Refusal(lambda _: PAIR.fair_threshold(math.nan), "must be a number; it is NaN", "penalty"),
    Refusal(lambda _: PAIR.fair_threshold(reading="summ"), "no reading 'summ'; Did you mean 'sum'"),
    Refusal(lambda _: PAIR.natural_error(math.nan), "must be a number", "threshold"),
    Refusal(lambda _: PAIR.natural_error("0"), "must be a number or an array", "threshold"),
    Refusal(lambda _: PAIR.threshold_under("hinge"), "no loss 'hinge'; There are: zero_one, log, exponential, ramp"),
    Refusal(lambda _: PAIR.threshold_under("exponent"), "Did you mean 'exponential'"),
    Refusal(lambda _: PAIR.threshold_under(None), "no loss None"),
    Refusal(lambda _: PAIR.sample(0), "must be a whole number of at least 1; given 0", "n"),
    Refusal(lambda _: PAIR.sample(2.5), "whole number", "n"),
    Refusal(lambda _: PAIR.sample(3, seed=-1), "whole number", "seed"),
    Refusal(lambda _: PAIRS.sample(3), "one pair"),
    Refusal(lambda _: PAIRS.natural_error(np.zeros(3)), "do not fit together"),
    refused_classes("be above 0", "mean_plus", 0.0),
    refused_classes("be above 0", "mean_minus", -1.0),
    refused_classes("be finite", "mean_plus", math.nan),
    refused_classes("be finite", "mean_plus", math.inf),
    refused_classes("be a standard deviation above 0", "std_plus", 0.0),
    refused_classes("be a standard deviation above 0", "std_minus", [1.0, 0.0]),
    refused_classes("be a number", "std_plus", "wide"),
    refused_classes("be a whole number", "dim", 0),
    refused_classes("be a whole number", "dim", 2.5),
    refused_classes("be finite", "dim", math.inf),
    refused_classes("be a number", "dim", None),
    *(refused_classes("lie strictly between 0 and 1", "prior", value) for value in (0.0, 1.0, 60)),
    refused_classes("be a number", "prior", 0.5 + 1j),
    *(refused_radius(call, field, radius) for field, calls in BY_RADIUS.items() for call in calls for radius in RADII),
    Refusal(
        lambda _: GaussianClasses(**{**GOOD, "mean_plus": [1.0, 2.0], "prior": [0.2, 0.5, 0.7]}),
        "`mean_plus` (2,), `prior` (3,)",
    ),
    Refusal(
        lambda _: GaussianClasses(**{**GOOD, "prior": [0.2, 0.5, 0.7]}).vcra(0.1, [0.1, 0.2]),
        "`prior` (3,), `test_radius` (2,)",
    ),
    Refusal(lambda _: GaussianClasses(**{**GOOD, "std_plus": [1.0, 2.0]}).sample(10, seed=0), "one set of; (2,)"),
    *(Refusal(lambda _, n=n: CLASSES.sample(n, 0), "must be a whole number", "n") for n in (0, 2.5, True)),
    *(Refusal(lambda _, seed=seed: CLASSES.sample(9, seed), "must be a whole number", "seed") for seed in (-1, None)),
    *(
        Refusal(lambda _, count=count: mean_coin_gap(count), "`samples` must", "samples")
        for count in (0, -3, 2.5, math.nan, "many", 2**31)
    ),
    Refusal(lambda _: chance_beyond(10, -1.0), "`constant` must", "constant"),
]
