"""What `fairmargin.runner` refuses, before anything is measured or trained."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import fairmargin as fm
from fairmargin.distances.proxies.first_order import FirstOrder
from fairmargin.distances.searches.ddn import DDN
from fairmargin.engine.local import Serial
from fairmargin.runner.run import run
from fairmargin.runner.trainer import check_epochs
from fairmargin.study.options import AuditedData, TrainOptions
from fairmargin.study.run_folder import RunFolder
from fairmargin.study.study_file import make_study
from tests.spec.refusals import Refusal

X = np.random.default_rng(0).normal(size=(40, 2))
Y = (X @ [3, 4] > 0).astype(int)
SEX = np.array(["F", "M"] * 20)
GROUPS = fm.Partition.by("sex", SEX)
LINEAR = ([3.0, 4.0], 0.0)
DIGITS = {"per_group": 10, "audit_per_group": 4, "by": "class", "group": "ink"}
FAST = {"epochs": 2, "batch": 16}


def audited(folder: Path, **more: Any) -> object:
    """Audit a linear model; nothing may be written if that is refused."""
    try:
        return fm.audit_model(LINEAR, X, Y, **{"groups": SEX, "out": folder / "run", "progress": False} | more)
    finally:
        assert not (folder / "run").exists()


FRAME = pd.DataFrame(X, index=range(100, 140))
SHUFFLED = pd.Series(SEX, index=FRAME.index, name="sex").sample(frac=1, random_state=0)
OTHER_ORDER = "has the index labels of `X` in another order, and rows are paired by position; "


def ordered(x: object, y: object, **more: Any) -> object:
    return fm.audit_model(LINEAR, x, y, **{"groups": SEX, "progress": False} | more)


ROWS = pd.DataFrame({"age": np.arange(40), "job": ["cook", "nurse"] * 20, "sex": SEX})


def in_table(**more: Any) -> object:
    """Audit a pipeline on raw rows."""
    steps = make_column_transformer((OneHotEncoder(), ["job"]), remainder="passthrough")
    model = make_pipeline(steps, LogisticRegression()).fit(ROWS[["age", "job"]], Y)
    return fm.audit_model(**{"model": model, "X": ROWS, "y": Y, "groups": ROWS["sex"], "progress": False} | more)


def precise(**more: Any) -> object:
    return fm.audit_to_precision(**{"model": LINEAR, "x": X, "y": Y, "partition": GROUPS, "plan": None} | more)


def study(folder: Path, **changes: Any) -> object:
    """Carry out a study of a trained network; nothing may be written if that is refused."""
    complete = {"data": {"digits": DIGITS}, "model": {"logistic": {}}, "train": {**FAST, "erm": {}}}
    try:
        return run(make_study(complete | {"audit": {"ddn": {}}} | changes), RunFolder(folder / "run"), Serial())
    finally:
        assert not (folder / "run").exists()


def epochs(word: str, **train: Any) -> object:
    return check_epochs([word], AuditedData(), TrainOptions(**{"epochs": 3, **train}))


REFUSALS = [
    # fm.audit_model
    Refusal(lambda folder: audited(folder, settings=0.9), "`settings` must be an AuditSettings"),
    Refusal(
        lambda folder: audited(folder, settings=fm.AuditSettings(seed=5)),
        "`settings` has the seed 5, and `seed` is 0: give `seed=5`",
    ),
    Refusal(
        lambda folder: audited(folder, groups=["F", "M"]), "`groups` has 2 values of 'group', but there are 40 samples"
    ),
    Refusal(lambda folder: audited(folder, groups="sex"), "must be one value per sample", "groups"),
    Refusal(lambda folder: audited(folder, groups=None), "must be one value per sample", "groups"),
    Refusal(lambda folder: audited(folder, groups=pd.DataFrame()), "`groups` has no columns"),
    Refusal(
        lambda folder: audited(folder, cross=True), "`cross` intersects the columns of `groups`, which has one only"
    ),
    Refusal(
        lambda folder: audited(folder, estimator="exact_liner"),
        "Unknown estimator `exact_liner`. Did you mean 'exact_linear'",
    ),
    Refusal(
        lambda folder: audited(folder, estimator=5),
        "`estimator` must be a name such as 'plumb' or an estimator of fm.ESTIMATORS; given 5",
    ),
    Refusal(lambda folder: audited(folder, norm="l7"), "must be one of l1, l2, linf; given 'l7'", "norm"),
    Refusal(lambda folder: audited(folder, max_samples=0), "must be at least 1; given 0", "max_samples"),
    *(
        Refusal(lambda folder, n=n: audited(folder, max_samples=n), "must be a whole number; given", "max_samples")  # type: ignore[misc]
        for n in ("5", 5.5, True, np.nan)
    ),
    *(
        Refusal(lambda folder, e=e: audited(folder, engine=e), "must be a name such as 'processes:workers=2'", "engine")  # type: ignore[misc]
        for e in (None, 3, fm.Serial)
    ),
    *(
        Refusal(lambda folder, o=o: audited(folder, out=o), words, "out")  # type: ignore[misc]
        for o, words in ((3, "must be a path"), (b"x", "must be a path"), ("a\0b", "null"), ("x" * 300, "too long"))
    ),
    *(
        Refusal(lambda folder, c=c: audited(folder, cross=c), "must be True or False; given", "cross")  # type: ignore[misc]
        for c in ("yes", 1, None)
    ),
    Refusal(lambda _: ordered([[1, 2], [3]] * 20, Y), "rows of numbers of the same length", "X"),
    Refusal(lambda _: ordered(X, [[1], [1, 2]] * 20), "one label per sample", "y"),
    Refusal(
        lambda folder: audited(folder, training_data=[[1, 2], [3]]),
        "rows of numbers of the same length",
        "training_data",
    ),
    Refusal(lambda folder: audited(folder, settings={}), "`settings` must be an AuditSettings"),
    Refusal(lambda folder: audited(folder, engine="proceses"), "Did you mean 'processes'?"),
    *(
        Refusal(lambda folder, s=s: audited(folder, seed=s), "must be a whole number below 2**63; given", "seed")  # type: ignore[misc]
        for s in (2**63, 2**70, 10**400)
    ),
    Refusal(lambda folder: audited(folder, seed=-1), "`seed` must", "seed"),
    Refusal(lambda folder: audited(folder, references=np.zeros((5, 7))), "references", "references"),
    Refusal(lambda folder: audited(folder, training_data=np.zeros((5, 7))), "a sample of the training data has 7"),
    *(
        Refusal(lambda _, g=g: ordered(FRAME, Y, groups=g), OTHER_ORDER + "`groups.loc[X.index]`", "groups")  # type: ignore[misc]
        for g in (SHUFFLED, SHUFFLED.to_frame(), {"sex": SHUFFLED})
    ),
    Refusal(lambda _: ordered(FRAME, pd.Series(Y, FRAME.index)[::-1]), OTHER_ORDER + "`y.to_numpy()`", "y"),
    Refusal(
        lambda _: ordered(X, pd.Series(Y, FRAME.index), groups=SHUFFLED), "labels of `y` in another order", "groups"
    ),
    Refusal(lambda _: ordered(pd.DataFrame(X), Y, groups=pd.Series(SEX)[::-1]), OTHER_ORDER, "groups"),
    Refusal(
        lambda _: ordered(FRAME, Y, sample_weight=pd.Series(np.ones(40), FRAME.index)[::-1]),
        OTHER_ORDER + "`sample_weight.loc[X.index]`",
        "sample_weight",
    ),
    Refusal(lambda _: ordered(FRAME, Y, sample_weight="w"), "names a column that is not in `X`", "sample_weight"),
    Refusal(lambda _: ordered(FRAME.to_numpy(), Y, sample_weight="w"), "`X` is no data frame", "sample_weight"),
    Refusal(lambda _: ordered(FRAME, Y, sample_weight=[1, 2]), "has 2 weights, but there are 40", "sample_weight"),
    Refusal(
        lambda _: ordered(FRAME, Y, sample_weight=Y + 1, settings=fm.AuditSettings(sample_weight=Y + 1)),
        "is also given in `settings`",
        "sample_weight",
    ),
    Refusal(
        lambda _: ordered(FRAME, Y, settings=fm.AuditSettings(cluster=pd.Series(range(40), FRAME.index)[::-1])),
        OTHER_ORDER + "`cluster.loc[X.index]`",
        "cluster",
    ),
    # fm.audit_model on the raw rows of a table
    Refusal(lambda folder: audited(folder, columns={}), "for models of scikit-learn, XGBoost and LightGBM", "columns"),
    Refusal(lambda folder: audited(folder, examples=2), "shows nearest changes of rows", "examples"),
    Refusal(lambda _: in_table(columns=3), "must be a dict from the name of a column", "columns"),
    Refusal(lambda _: in_table(columns={"age": 3}), "must give an `fm.Column` for 'age'", "columns"),
    Refusal(lambda _: in_table(columns={"agee": fm.Column()}), "has a rule for 'agee'; Did you mean 'age'?", "columns"),
    Refusal(lambda _: in_table(columns={"age": fm.Column(low=50)}), "leaves no value for 'age'", "columns"),
    Refusal(
        lambda _: in_table(columns={"job": fm.Column(values=["guard"])}),
        "gives 'job' the category 'guard', which the data do not have",
        "columns",
    ),
    Refusal(
        lambda _: in_table(groups=ROWS[["age"]]),
        "Column 'age' holds 40 different numbers; `bins` age=10,20,29",
    ),
    Refusal(
        lambda _: in_table(groups=ROWS[["age"]], bins={"sex": [1]}),
        "a column that is not among the groups. There are: age",
        "bins",
    ),
    Refusal(lambda _: in_table(bins=[30]), "must be a dict such as {'age': [30, 45, 60]}; given [30]", "bins"),
    Refusal(
        lambda _: in_table(groups=ROWS["sex"].where(ROWS.index > 2, "f")),
        "'sex' holds 'f' (3 rows) and; 'F' (18 rows), which would be two groups",
    ),
    Refusal(lambda _: in_table(X=ROWS.drop(columns="age")), "`X` has no column 'age', which the model was trained on"),
    Refusal(lambda _: in_table(y=np.where(Y, "yes", "no")), "holds labels that are not among the model's classes"),
    # fm.audit_to_precision
    Refusal(lambda _: fm.PrecisionPlan(precision=0), "between 0 and 1"),
    Refusal(lambda _: fm.PrecisionPlan(precision=3), "for instance 0.03"),
    Refusal(lambda _: fm.PrecisionPlan(target="populaton"), "Did you mean 'population'"),
    Refusal(lambda _: fm.PrecisionPlan(pilot=5), "at least 30"),
    Refusal(lambda _: fm.PrecisionPlan(confidence=1.0), "[0.5, 1)"),
    Refusal(lambda _: fm.PrecisionPlan(up_to=-1), "above 0"),
    Refusal(lambda _: fm.PrecisionPlan(seed=-1), "negative"),
    Refusal(lambda _: fm.PrecisionPlan(seed=2**70), "`seed` must be a whole number below 2**63"),
    Refusal(lambda _: fm.PrecisionPlan(precision="a"), "`precision` of PrecisionPlan must be a number"),
    Refusal(lambda _: fm.PrecisionPlan(seed="a"), "`seed` of PrecisionPlan must be a number"),
    Refusal(lambda _: fm.PrecisionPlan(cheap="first_order"), "`cheap` of PrecisionPlan must be an estimator"),
    Refusal(lambda _: fm.PrecisionPlan(reference=DDN), "`reference` of PrecisionPlan must be an estimator"),
    Refusal(lambda _: precise(plan=0.1), "`plan` must be a PrecisionPlan"),
    Refusal(lambda _: precise(partition="sex"), "`partition` must be a `Partition`; given 'sex'"),
    Refusal(lambda _: precise(x=X[:30], y=Y[:30]), "30"),
    Refusal(lambda _: precise(plan=fm.PrecisionPlan(reference=DDN(), cheap=FirstOrder("linf"))), "same norm"),
    # Epochs of a training
    Refusal(lambda _: epochs("frist"), "Did you mean 'first'", "audit_epochs"),
    Refusal(lambda _: epochs("9"), "names epoch 9, and there are 3", "audit_epochs"),
    Refusal(lambda _: epochs("4", epochs=10), "weights of epoch 4 are not kept"),
    Refusal(lambda _: epochs("best", validation="0"), "`validation` 0 leaves none"),
    # Studies of networks that are trained
    Refusal(
        lambda folder: study(folder, model={"small_cnn": {}}, audit={"exact_linear": {}}),
        "small_cnn, erm, seed 0: exact_linear: ",
    ),
    Refusal(lambda folder: study(folder, attack={"pgd": {"radius": 8}}), "larger than the box"),
    Refusal(lambda folder: study(folder, audit={"ddn": {"estimator": "ddn:steps=many"}}), "seed 0: ddn: ; steps"),
    Refusal(lambda folder: study(folder, data={"digit": {}}), "Did you mean 'digits'"),
    Refusal(lambda folder: study(folder, model={"lenet": {}}), "Did you mean 'lenet5'"),
    Refusal(lambda folder: study(folder, train={"erms": {"epochs": 1}}), "Did you mean 'erm'"),
    Refusal(lambda folder: study(folder, audit={"deepfoal": {}}), "Did you mean 'deepfool'"),
    Refusal(lambda folder: study(folder, attack={"pgf": {"radius": 0.1}}), "Did you mean 'pgd'"),
    Refusal(lambda folder: study(folder, data={"digits": {"group": "inc"}}), "Did you mean 'ink'"),
    Refusal(lambda folder: study(folder, data={"digits": {"cross": "class,inc"}}), "Did you mean 'ink'"),
    Refusal(lambda folder: study(folder, data={"digits": {"control": "inc"}}), "Did you mean 'ink'", "control"),
    Refusal(lambda folder: study(folder, data={"digits": {"by": "inc", "per_group": 3}}), "Did you mean 'ink'"),
    Refusal(
        lambda folder: study(folder, train={**FAST, "madry": {"set": ["radius=1"], "method": "madry:radius=0.1"}}),
        "given twice",
        "set",
    ),
    Refusal(
        lambda folder: study(
            folder, train={**FAST, "farmur": {"validation": 0, "method": "farmur:found_on=validation"}}
        ),
        "Validation data are asked for",
    ),
    Refusal(lambda folder: study(folder, train={**FAST, "erm": {"validation": "tset"}}), "no file 'tset'"),
    Refusal(
        lambda folder: study(folder, audit={"ddn": {"audit_epochs": [3]}}),
        "names epoch 3, and there are 2",
        "audit_epochs",
    ),
    Refusal(lambda folder: study(folder, data={"digits": {**DIGITS, "audit_on": "validatoin"}}), "validatoin"),
    Refusal(
        lambda folder: study(
            folder, data={"digits": {**DIGITS, "audit_on": "validation"}}, train={**FAST, "validation": 0, "erm": {}}
        ),
        "`validation` 0 leaves none",
    ),
    Refusal(
        lambda folder: study(
            folder,
            data={"digits": {**DIGITS, "audit_on": "validation"}},
            train={**FAST, "erm": {}, "ramp": {"validation": 0.3}},
        ),
        "would be measured on different samples",
    ),
    Refusal(
        lambda folder: study(
            folder,
            data={"digits": {**DIGITS, "audit_on": "validation"}},
            model={"logistic": {}, "given": {"model": "arch:logistic", "fixed": True}},
        ),
        "samples that a training keeps apart, and this model is not trained",
    ),
    Refusal(lambda folder: study(folder, model={"logistic": {"weights": "none.pt"}}), "none.pt"),
]
