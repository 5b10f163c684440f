"""What `fairmargin.analyses` refuses."""

import math
from dataclasses import replace

import numpy as np
import pandas as pd

from fairmargin.analyses.adequacy import Evidence, settle
from fairmargin.analyses.audit import audit
from fairmargin.analyses.bracket import bracket
from fairmargin.analyses.certified import certified_accuracy, certified_mean, certify_groups
from fairmargin.analyses.comparison import compare
from fairmargin.analyses.curves import compare_curves
from fairmargin.analyses.epochs import compare_epochs
from fairmargin.analyses.networks.sections import sections_over_networks
from fairmargin.analyses.power import Setting, power
from fairmargin.analyses.robust_accuracy import accuracy_under_attack
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.inference.settings import AuditSettings
from tests.spec.refusals import Refusal

SEX = Partition.by("sex", ["F", "M"] * 20)
LESS = SEX.take(np.arange(39))
EXACT, UPPER, LOWER, PROXY = (
    Distances(np.arange(40) / 40, np.arange(40) > 0, bound, "l2") for bound in ("exact", "upper", "lower", "neither")
)
SEARCHED = replace(
    UPPER, values=np.append(np.arange(39) / 39, np.inf), correct=np.arange(40) > 0, tried=np.full(40, 0.5)
)
SMOOTHED = replace(LOWER, subject="smoothed(0.25)")
NOTHING = replace(LOWER, values=np.zeros(40))
NOT_FOUND = replace(UPPER, values=np.where(UPPER.correct, np.inf, 0.0))
UNREACHED = Distances([0.0, np.inf] * 20, [False, True] * 20, "upper", "l2")


def evidence(*runs, names="abc", **more):
    return Evidence(runs or (UPPER, UPPER), tuple(names[: len(runs) or 2]), **{"audited": 0} | more)


def attacked(correct=(True, True, False), robust=(True, False, False), groups="aba", settings=None, radius=0.1):
    groups = Partition.by("g", list(groups))
    return accuracy_under_attack(correct, robust, groups, settings, attack="pgd", norm="linf", radius=radius)


REFUSALS = [
    # audit
    Refusal(lambda _: audit(EXACT, LESS), "`partition` has 39 entries but `distances` has 40"),
    Refusal(
        lambda _: audit(EXACT, SEX, AuditSettings(control=LESS)), "`control` has 39 entries but `distances` has 40"
    ),
    *(
        Refusal(
            lambda _, run=run: run(AuditSettings(sample_weight=[1, 2, 3])),
            "`sample_weight` has 3 weights, but there are 40 samples",
            "sample_weight",
        )
        for run in (lambda how: audit(EXACT, SEX, how), lambda how: compare(EXACT, EXACT, SEX, how))
    ),
    Refusal(
        lambda _: audit(EXACT, SEX, AuditSettings(cluster=[1, 2, 3])), "`cluster` has 3 ids but there are 40 samples"
    ),
    Refusal(lambda _: audit(EXACT.values, SEX), "`distances` must be `Distances`; given a ndarray"),
    Refusal(lambda _: audit(UNREACHED, SEX), "20 of 40 samples have no finite distance; Set `up_to=` (--up-to)"),
    Refusal(lambda _: audit(EXACT, SEX)["x"], "Partition 'sex' has no group 'x'; it has 'F', 'M'"),
    # curves
    Refusal(lambda _: compare_curves(EXACT, LESS), "`partition` has 39 entries but `distances` has 40"),
    Refusal(lambda _: compare_curves(EXACT.values, SEX), "`distances` must be `Distances`; given a ndarray"),
    Refusal(
        lambda _: compare_curves(EXACT, SEX, AuditSettings(control=LESS)),
        "`control` has 39 entries but `distances` has 40",
    ),
    Refusal(lambda _: compare_curves(EXACT, SEX, radii=(1, -1)), "`radii` must not be negative; given -1", "radii"),
    Refusal(lambda _: compare_curves(EXACT, SEX, radii=math.nan), "`radii` must be finite; given nan", "radii"),
    Refusal(lambda _: audit(EXACT, SEX, radii="1,far"), "`radii` must be a number such as 0.1; given 'far'", "radii"),
    Refusal(lambda _: audit(EXACT, SEX, radii=range(200)), "`radii` must be at most 100 radii; given '200", "radii"),
    # adequacy
    Refusal(lambda _: evidence(UPPER), "two or more budgets"),
    Refusal(lambda _: evidence(audited=2), "`audited` must be one of 0..1; given 2", "audited"),
    Refusal(lambda _: evidence(UPPER, UPPER.take(np.arange(39))), "the same samples in the same norm"),
    Refusal(lambda _: evidence(others=UPPER.take(np.arange(39))), "the same samples in the same norm"),
    Refusal(
        lambda _: evidence(UPPER, Distances(np.ones(40), np.ones(40), "upper", "l2")), "which samples are classified"
    ),
    Refusal(lambda _: evidence(UPPER, LOWER), "all budgets must be of the same kind"),
    Refusal(
        lambda _: settle(evidence(), SEX, tolerance=0),
        "`tolerance` must be above 0, for instance 0.02; given 0",
        "tolerance",
    ),
    Refusal(
        lambda _: settle(evidence(), SEX, tolerance="2 %"), "`tolerance` must be a number; given '2 %'", "tolerance"
    ),
    Refusal(lambda _: settle(evidence(), SEX, confidence=95), "`confidence` must lie in [0.5, 1)", "confidence"),
    Refusal(lambda _: settle(evidence(), SEX, up_to=-1), "`up_to` must be a radius above 0; given -1", "up_to"),
    Refusal(lambda _: settle(evidence(), SEX, up_to=None), "`up_to` must be a number; given None", "up_to"),
    Refusal(lambda _: settle(evidence(), LESS), "39 entries"),
    # bracket
    Refusal(lambda _: bracket(LOWER.values, UPPER, SEX), "`lower` of `bracket` must be of kind Distances"),
    Refusal(lambda _: bracket(LOWER, UPPER, "sex"), "`partition` must be a `Partition`; given 'sex'"),
    Refusal(lambda _: bracket(LOWER, UPPER, SEX, "careful"), "`settings` of `bracket` must be of kind AuditSettings"),
    Refusal(lambda _: bracket(UPPER, UPPER, SEX), "lower bounds (or exact distances) first and upper bounds"),
    Refusal(lambda _: bracket(UPPER, LOWER, SEX), "lower bounds (or exact distances) first and upper bounds"),
    Refusal(lambda _: bracket(LOWER, LOWER, SEX), "lower bounds (or exact distances) first and upper bounds"),
    Refusal(lambda _: bracket(SMOOTHED, UPPER, SEX), "smoothed(0.25) in L2; model in L2; a certificate of a smoothed"),
    Refusal(lambda _: bracket(LOWER, replace(UPPER, norm="linf"), SEX), "measure both in the same norm"),
    Refusal(
        lambda _: bracket(replace(LOWER, keep="no"), UPPER, SEX),
        "lower bounds keep the class 'no', the upper ones each sample's own class",
    ),
    Refusal(
        lambda _: bracket(replace(LOWER, values=LOWER.values * 2), UPPER, SEX), "contradict; 39 of 40; first sample 1"
    ),
    Refusal(lambda _: bracket(NOTHING, NOT_FOUND, SEX), "there is no radius at which distances could be capped"),
    # certified
    Refusal(lambda _: certify_groups(UPPER, SEX, [0.5], alpha=0.001), "upper, not certified; only lower bounds"),
    Refusal(
        lambda _: certify_groups(replace(EXACT, values=np.where(EXACT.correct, np.inf, 0.0)), SEX, [0.5], alpha=0.0),
        "39 of 40 certified distances are infinite",
    ),
    Refusal(lambda _: certified_mean(PROXY, SEX, alpha=0.001), "only lower bounds"),
    Refusal(lambda _: certified_accuracy(UPPER, SEX, [0.5], alpha=0.001), "only lower bounds"),
    Refusal(lambda _: certified_mean(SMOOTHED, SEX, alpha=0), "Each certificate of smoothed(0.25) may be false"),
    Refusal(lambda _: certified_mean(LOWER, SEX, alpha="x"), "`alpha` must be at least 0 and less than 0.5", "alpha"),
    Refusal(lambda _: certified_mean(LOWER, SEX, alpha=0.5), "`alpha` must be at least 0 and less than 0.5", "alpha"),
    Refusal(lambda _: certified_mean(LOWER, SEX, alpha=-0.1), "`alpha` must be at least 0 and less than 0.5", "alpha"),
    Refusal(
        lambda _: certified_mean(LOWER, SEX, alpha=0.1, confidence=1.0),
        "`confidence` must lie between 0 and 1",
        "confidence",
    ),
    Refusal(
        lambda _: certified_mean(LOWER, SEX, alpha=0.1, confidence="x"),
        "`confidence` must lie between 0 and 1",
        "confidence",
    ),
    Refusal(
        lambda _: certified_mean(LOWER, SEX, alpha=0.1, largest=0.55),
        "`largest` must be the largest radius attainable; given 0.55",
        "largest",
    ),
    Refusal(lambda _: certified_mean(LOWER, SEX, alpha=0.1, largest=math.nan), "`largest`; given nan", "largest"),
    Refusal(lambda _: certified_mean(LOWER, LESS, alpha=0.1), "39 entries"),
    Refusal(lambda _: certified_accuracy(LOWER, SEX, 0.5, alpha=0.1), "`radii` must hold numbers", "radii"),
    Refusal(lambda _: certified_accuracy(LOWER, SEX, [-1.0], alpha=0.1), "not negative; given -1.0", "radii"),
    # comparison
    Refusal(lambda _: compare(EXACT, replace(EXACT, norm="linf"), SEX), "the same norm; given L2 and L∞"),
    Refusal(lambda _: compare(LOWER, SMOOTHED, SEX), "the same subject; given model and smoothed(0.25)"),
    Refusal(
        lambda _: compare(EXACT, replace(EXACT, keep="no"), SEX),
        "keep the same classes; given each sample's own class and the class 'no'",
    ),
    Refusal(
        lambda _: compare(replace(UPPER, estimator="ddn"), replace(UPPER, estimator="ddn:steps=3"), SEX),
        "the same estimator; given ddn and ddn:steps=3",
    ),
    Refusal(
        lambda _: compare(SEARCHED, replace(SEARCHED, tried=None), SEX),
        "The search for 1 of 40 samples failed before and after, but the depth (`tried`) is known in one of them only",
    ),
    Refusal(lambda _: compare(EXACT, EXACT.take(np.arange(39)), SEX), "39"),
    Refusal(lambda _: compare(EXACT, EXACT, LESS), "39"),
    Refusal(lambda _: compare(EXACT, EXACT, SEX, AuditSettings(control=SEX)), "drop `control`"),
    # power
    Refusal(
        lambda _: power(EXACT, SEX, AuditSettings(sample_weight=np.ones(40))),
        "`sample_weight` does not go with `power`",
        "sample_weight",
    ),
    Refusal(lambda _: power(EXACT, SEX, AuditSettings(cluster=np.arange(40) // 4)), "span groups"),
    Refusal(lambda _: power(EXACT, LESS), "39"),
    *(
        Refusal(
            lambda _, sigma=sigma: power(EXACT, SEX, sigma=sigma), "`sigma` must lie above −1 and not be 0", "sigma"
        )
        for sigma in (0.0, -1.0, -2.0, math.nan)
    ),
    *(
        Refusal(lambda _, chance=chance: power(EXACT, SEX, chance=chance), "must lie between 0 and 1", field="chance")
        for chance in (0.0, 1.0, -1.0, math.nan)
    ),
    Refusal(lambda _: Setting(0.8, 0.8, 100, confidence=2.0), "must lie between 0 and 1", field="confidence"),
    Refusal(lambda _: Setting(-1.0, 0.8, 100), "it cannot be negative"),
    Refusal(lambda _: Setting(0.8, -1.0, 100), "it cannot be negative"),
    Refusal(lambda _: Setting(0.8, 0.8, 0), "The rest needs at least one sample"),
    # robust accuracy
    Refusal(lambda _: attacked(correct=[True] * 2), "3 entries"),
    Refusal(lambda _: attacked(robust=[True] * 3), "said to withstand"),
    Refusal(lambda _: attacked(groups="ab"), "2 entries"),
    Refusal(lambda _: attacked(radius=-1), "must not be negative", "radius"),
    Refusal(lambda _: attacked(radius=[0.1, 0.2]), "`radius` has 2 numbers but there are 3 samples"),
    Refusal(lambda _: attacked(settings=AuditSettings(up_to=1.0)), "`up_to` caps distances"),
    Refusal(lambda _: attacked(correct=[], robust=[]), "empty"),
    # trainings and studies of many networks
    Refusal(lambda _: compare_epochs({}), "There are no audits of epochs to compare"),
    Refusal(
        lambda _: sections_over_networks(pd.DataFrame({"sigma": [0.1]})), "has the columns data; radius is missing"
    ),
]
