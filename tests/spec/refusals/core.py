"""What `fairmargin.core` refuses."""

import math

import numpy as np
import pandas as pd

from fairmargin.core.bound import Bound
from fairmargin.core.catalog import Catalog
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.domain import Domain
from fairmargin.core.keys import check_seed, content_hash, sample_keys
from fairmargin.core.norm import Norm
from fairmargin.core.partition import Partition, check_partition
from fairmargin.core.radius import as_radii, parse_radius
from fairmargin.errors import ModelError
from tests.spec.refusals import Refusal

THINGS: Catalog[object] = Catalog("thing", "fairmargin.core", {"norm": "norm:Norm", "light": object()})
SEX = Partition.by("sex", ["F", "M"])
CONTINUOUS = np.random.default_rng(0).normal(size=500)


def distances(values: object, correct: object, message: str, **more: object) -> Refusal:
    return Refusal(lambda _: Distances(values, correct, "exact", "l2", **more), message)  # type: ignore[arg-type]


def partition(column: object, message: str) -> Refusal:
    return Refusal(lambda _: Partition.by("x", column), message)


def members(labels: list[str], membership: object, message: str) -> Refusal:
    return Refusal(lambda _: Partition("x", labels, membership), message)  # type: ignore[arg-type]


def domain(message: str, **limits: object) -> Refusal:
    return Refusal(lambda _: Domain(**limits), message)  # type: ignore[arg-type]


def radius(given: object, message: str) -> Refusal:
    return Refusal(lambda _: parse_radius(given), message, field="radius")


def hashed(content: object, place: str) -> Refusal:
    return Refusal(lambda _: content_hash(content), f"A key is made from plain values; {place}")


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


ONE = Distances([1.0], [True], "exact", "l2")
NOT_NUMBERS = ["a"], [None, "x"], [{}], [[1], [2, 3]]
NOT_BOOLEAN = [2, 1], ["yes", "no"], [0.5, 1.0], [np.nan, 1.0], [None, True]
CONTAINERS = [["a"], ["b"]], [{"a": 1}], [np.zeros(2), np.zeros(2)], [{1}, {2}]
NO_COLUMNS = "word", b"bytes", 3, None, (v for v in "ab"), np.zeros((2, 2)), np.array(1), pd.DataFrame({"a": [1]})

REFUSALS = [
    Refusal(
        lambda _: Bound.parse("sideways"), "Unknown bound 'sideways'. Expected one of exact, upper, lower, neither"
    ),
    Refusal(lambda _: THINGS.find("nrom"), "Unknown thing `nrom`. Did you mean 'norm'? There are: norm, light."),
    Refusal(lambda _: THINGS.find("nrom", ModelError), "Unknown thing `nrom`", error=ModelError),
    # Curves
    Refusal(lambda _: RobustnessCurve([]), "needs at least one sample"),
    Refusal(lambda _: RobustnessCurve([-1.0, 2.0]), "distances that are not negative and not NaN"),
    Refusal(lambda _: RobustnessCurve([1.0, np.nan]), "distances that are not negative and not NaN"),
    Refusal(lambda _: RobustnessCurve([[1.0]]), "`values` must be one-dimensional"),
    Refusal(lambda _: RobustnessCurve(["a"]), "`values` must hold numbers"),
    # Distances
    distances([], [], "`values` is empty"),
    distances([1, np.nan, 2, np.nan], [True] * 4, "holds NaN in 2 of 4 samples (first at index 1). Write `inf` where"),
    distances([1, 2, -0.5, -3], [True] * 4, "`values` holds negative distances, first -0.5 at index 2"),
    distances([-np.inf], [True], "first -inf at index 0"),
    distances([1.0, 1e61], [True, True], "`values` holds 1e+61 at index 1: too large to be averaged"),
    distances(
        [0, 3, 1, 4],
        [False, False, True, False],
        "2 misclassified samples have a distance above 0 (first 3 at index 1)",
    ),
    distances([1, np.inf], [True, False], "(first inf at index 1)"),
    distances([1, 2, 3], [True, True], "`correct` has 2 entries but `values` has 3. Did you drop rows"),
    distances([1, 2], [True, True], "`tried` has 1 entries but `values` has 2", tried=[1.0]),
    distances([1, np.inf], [True, True], "`tried` must not be negative; given -1 at index 1", tried=[1.0, -1.0]),
    *(distances(values, [True], "`values` must hold numbers") for values in NOT_NUMBERS),
    *(distances([1.0, 1.0], each, "`correct` must hold True and False (or 1 and 0)") for each in NOT_BOOLEAN),
    distances([[1, 2]], [True, True], "`values` must be one-dimensional; its shape is (1, 2)"),
    distances([1, 2], [[True, True]], "`correct` must be one-dimensional; its shape is (1, 2)"),
    distances([1.0], [True], "`estimator` must be a text; given 7", estimator=7),
    distances([1.0], [True], "`keep` must hold labels of classes", keep=[["no"]]),
    Refusal(lambda _: Distances([1.0], [True], "exact", "l7"), "Unknown norm 'l7'"),
    Refusal(lambda _: Distances([1.0], [True], "sideways", "l2"), "Unknown bound 'sideways'"),
    Refusal(lambda _: ONE.take([False]), "No sample was selected: the mask is False everywhere"),
    Refusal(lambda _: ONE.take([]), "the list of indices is empty"),
    Refusal(lambda _: concatenate([]), "no distances to concatenate"),
    Refusal(
        lambda _: concatenate([ONE, Distances([1.0], [True], "exact", "l1")]),
        "part 1 are of model in L1, those of part 0 of model in L2",
    ),
    Refusal(
        lambda _: concatenate([ONE, Distances([1.0], [True], "exact", "l2", keep="no")]),
        "part 1 keep the class 'no', those of part 0 each sample's own class",
    ),
    # Domains
    *(domain(f"`{name}` of a Domain holds NaN", **{name: [0.0, np.nan]}) for name in ("low", "high", "scale")),
    *(domain("`scale` of a Domain must be finite and not negative", scale=s) for s in (-1.0, np.inf, [1.0, -1e-9])),
    domain("`low` of a Domain exceeds `high`; Did you swap them?", low=[0, 2], high=[1, 1]),
    domain("must have the same shape; given [(2,), (3,)]", low=[0, 0], high=[1, 1, 1]),
    Refusal(
        lambda _: Domain([0, 0], 1).contains(np.zeros((1, 3))),
        "`low` of the Domain has 2 entries but a sample has 3 features",
    ),
    # Keys
    Refusal(lambda _: sample_keys(np.zeros((4, 1)), np.zeros(3, int)), "`y` has 3 entries but `x` has 4"),
    Refusal(lambda _: check_seed(True), "`seed` must be a whole number"),
    Refusal(lambda _: check_seed(2**127), "`seed` must be a whole number"),
    hashed(Opaque(), "given Opaque() of type Opaque."),
    hashed({"plan": [1, {"rate": Opaque()}]}, "of type Opaque at plan[1].rate."),
    hashed({"x": np.int64(3)}, "of type int64 at x."),
    hashed({"x": {1, 2}}, "of type set at x."),
    hashed({"x": b"1"}, "of type bytes at x."),
    hashed({"x": {1: "a"}}, "given 1 of type int at a name in x."),
    hashed({(1, 2): "a"}, "of type tuple at a name."),
    # Norms
    *(
        Refusal(lambda _, s=s: Norm.parse(s), "Unknown norm; Expected one of l1, l2, linf")  # type: ignore[misc]
        for s in ("l3", "", "euclidean", "l0", None)
    ),
    # Partitions
    partition(CONTINUOUS, "Column 'x' has 500 distinct numbers and looks continuous; pandas.cut"),
    partition(list(CONTINUOUS.astype(np.float32)), "looks continuous"),
    *(partition(column, "Column 'x' holds lists or other containers") for column in CONTAINERS),
    *(partition(column, "Partition 'x' needs a column with one value per sample") for column in NO_COLUMNS),
    *(partition(c, "Partition 'x' has no samples") for c in ([], np.array([]), pd.Series([], dtype=object))),
    members(["a", "b", "c"], [0, 2], "Group 'b' of partition 'x' has no sample"),
    members(["a", "a"], [0, 1], "Partition 'x' names a group twice: a, a"),
    members(["a", "b"], [0, 1, 2], "must lie in 0..1, one position per label; given 0..2"),
    members(["a", "b"], [-1, 0, 1], "given -1..1"),
    *(
        members(["a", "b"], each, "must be one integer per sample")
        for each in ([0.0, 1.0], [True, False], ["a", "b"], [[0, 1]])
    ),
    Refusal(lambda _: SEX & Partition.by("race", ["a"] * 3), "'sex' has 2 samples but 'race' has 3"),
    Refusal(lambda _: SEX.take(np.zeros(2, dtype=bool)), "No sample of partition 'sex' was selected"),
    Refusal(lambda _: SEX.take([]), "No sample of partition 'sex' was selected"),
    Refusal(lambda _: check_partition("sex"), "`partition` must be a `Partition`; given 'sex'"),
    # Radii
    radius("-0.1", "must not be negative; given '-0.1'"),
    radius(-1, "must not be negative"),
    radius("-1/255", "must not be negative"),
    radius("4/0", "cannot be divided by 0; given '4/0'"),
    *(
        radius(each, "must be a number such as 0.1 or a fraction such as 4/255")
        for each in ("eight", "4/255/2", "/255")
    ),
    *(radius(each, "must be a number") for each in ("", None, True, [0.1])),
    radius("nan", "must be finite"),
    radius(math.inf, "must be finite"),
    Refusal(lambda _: as_radii([0.1, 0.2], 3), "`radius` has 2 numbers but there are 3 samples"),
    Refusal(lambda _: as_radii([0.1] * 4, 3), "`radius` has 4 numbers but there are 3 samples"),
    Refusal(lambda _: as_radii([0.1, math.nan, 0.1], 3), "must be finite", field="radius"),
    Refusal(lambda _: as_radii([0.1, -0.2, 0.1], 3), "must not be negative; given -0.2", field="radius"),
    Refusal(lambda _: as_radii(np.ones((3, 2)), 3), "must be a number", field="radius"),
]
