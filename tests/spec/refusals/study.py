"""What `fairmargin.study` refuses: studies, study files, and conditions of a gate."""

from pathlib import Path
from typing import Any

from fairmargin.study.gate import gate
from fairmargin.study.options import AuditOptions, DataOptions, GroupOptions, TrainOptions
from fairmargin.study.rules_file import read_rules, rules_of
from fairmargin.study.study import Study
from fairmargin.study.study_file import make_study, read_study
from tests.spec.refusals import Refusal

MODEL, DATA, TABLE = {"model": {"model": "m.npz"}}, {"data": {"data": "d.csv"}}, {"imported": {"distances": "t.csv"}}
BOTH = MODEL | DATA
FIXED = {"small_cnn": {"fixed": True}}


def study(section: str, **fields: Any) -> Study:
    return Study(**(BOTH | {section: BOTH.get(section, {}) | fields}))


def sections(**changes: Any) -> Study:
    """Make a study of a file with these sections in place of some of a complete one."""
    complete = {"data": {"digits": {}}, "model": {"small_cnn": {}}, "train": {"erm": {"epochs": 10}}}
    return make_study(complete | {"audit": {"ddn": {}}} | changes, "study.toml")


def file(folder: Path, content: bytes) -> Study:
    (folder / "study.toml").write_bytes(content)
    return read_study(folder / "study.toml")


def rules(folder: Path, content: bytes) -> object:
    (folder / "rules.toml").write_bytes(content)
    return read_rules(folder / "rules.toml")


def condition(text: str) -> object:
    return gate([{"group": "F", "size": 120.0, "sigma": -0.25, "sigma_low": -0.4, "verdict": "less robust"}], text)


FILES: list[tuple[Any, ...]] = [
    ({"seed": 3}, "`seed` is unknown. Did you mean 'seeds'?", "seed"),
    ({"train": {"epoch": 3, "erm": {}}}, "[train.erm]: `epoch` is unknown. Did you mean 'epochs'?", "epoch"),
    ({"data": {"digits": {}, "mnist": {"rot": "x"}}}, "[data.mnist]: `rot` is unknown. Did you mean 'root'?", "rot"),
    (
        {"model": {"logistic": {"weight": "x"}}},
        "[model.logistic]: `weight` is unknown. Did you mean 'weights'?",
        "weight",
    ),
    ({"audit": {"ddn": {"methdos": "erm"}}}, "[audit.ddn]: `methdos` is unknown. Did you mean 'methods'?", "methdos"),
    ({"audit": {"ddn": {"steps": 3}}}, 'estimator = "ddn:steps=50"', "steps"),
    ({"train": {"fat": {"weight": 0.5, "epochs": 1}}}, 'method = "fat:weight=0.5"', "weight"),
    ({"attack": {"pgd": {"steps": 3, "radius": 1}}}, 'attack = "pgd:steps=20"', "steps"),
    ({"audit": {"ddn": {"methods": "erms"}}}, "[audit.ddn]: `methods` names 'erms'. Did you mean 'erm'?"),
    ({"audit": {"ddn": {"models": "smal_cnn"}}}, "`models` names 'smal_cnn'. Did you mean 'small_cnn'?"),
    ({"attack": {"pgd": {"radius": 1, "data": "digit"}}}, "[attack.pgd]: `data` names 'digit'. Did you mean"),
    ({"model": {"logistic": {"data": "digit"}}}, "[model.logistic]: `data` names 'digit'. Did you mean 'digits'?"),
    ({"train": {"erm": {"epochs": 1, "models": "logistic"}}}, "[train.erm]: `models` names 'logistic'."),
    ({"audit": {"ddn": {"methods": []}}}, "[audit.ddn]: `methods` is empty: leave it out to select all."),
    ({"model": {"small_cnn": {"data": []}}}, "[model.small_cnn]: `data` is empty: leave it out to select all."),
    ({"train": {"erm": {"settings_of": "mah"}}}, "[train.erm]: "),
    ({"train": {"erm": {"settings_of": "mah"}}}, "Did you mean 'ma'?"),
    ({"data": {}}, "There is no section [data.…]: add one, for instance [data.digits]"),
    ({"model": {}}, "There is no section [model.…]: add one, for instance [model.small_cnn]"),
    ({"data": {"per_group": 3}}, "[data]: `data` is missing.", "data"),
    ({"model": {"x": {"model": ""}}}, "[model.x]: `model` is missing.", "model"),
    ({"data": 3}, "Write a section with a name, as in [data.digits]; given data = 3."),
    ({"data": [{"data": "digits"}]}, "Write a section with a name, as in [data.digits]"),
    ({"audit": "ddn"}, "given audit = 'ddn'"),
    ({"model": {" ": {"model": "arch:logistic"}}}, "A section [model.…] has an empty name: name it."),
    ({"title": 3}, "`title` must be a text; given 3", "title"),
    ({"seeds": []}, "`seeds` must be a list of different seeds, such as [0, 1, 2]", "seeds"),
    ({"seeds": [1, 1]}, "`seeds` must be a list of different seeds", "seeds"),
    ({"seeds": [-1]}, "`seeds`", "seeds"),
    ({"seeds": 3}, "`seeds` must be a list of different seeds, such as [0, 1, 2]; given 3", "seeds"),
    ({"seeds": [True]}, "`seeds`", "seeds"),
    ({"seeds": [2**63]}, "`seeds` must be a whole number below 2**63; given 9223372036854775808", "seeds"),
    ({"seeds": [0, "1x"]}, "`seeds` must be a whole number", "seeds"),
    ({"seeds": [[0]]}, "`seeds`", "seeds"),
    ({"train": {"erm": {"epochs": 1, "threads": True}}}, "[train.erm]: `threads` must be", "threads"),
    ({"train": {"epochs": 2, "rate": True, "erm": {}}}, "[train.erm]: `rate` must be a number", "rate"),
    ({"train": {"erm": {"epochs": True}}}, "[train.erm]: `epochs` must be a whole number", "epochs"),
    ({"train": {"erm": {"epochs": "ten"}}}, "[train.erm]: `epochs` must be a whole number; given 'ten'", "epochs"),
    ({"train": {"erm": {"epochs": 1, "batch": 1e99}}}, "[train.erm]: `batch` must be a whole number", "batch"),
    ({"train": {"erm": {}}}, "[train.erm]: The number of epochs is missing: give `epochs`, or `settings_of` a paper."),
    ({"train": {"erm": {"epochs": 2, "rate": -1}}}, "[train.erm]: `rate` must", "rate"),
    ({"train": {"erm": {"epochs": 2, "arch": "lenet5"}}}, "[train.erm]: `arch` goes into a model's section", "arch"),
    (
        {"train": {"erm": {"epochs": 2, "validation": 0, "patience": 2}}},
        "`patience` watches validation data",
        "patience",
    ),
    ({"train": {"erm": {"epochs": 2, "validation": 1}}}, "`validation` is a share of the training data", "validation"),
    ({"audit": {"ddn": {"confidence": 2}}}, "[audit.ddn]: `confidence`", "confidence"),
    ({"audit": {"ddn": {"adequacy": "maybe"}}}, "[audit.ddn]: `adequacy` must be true or false", "adequacy"),
    (
        {"audit": {"ddn": {"precision": 0.1, "adequacy": True}}},
        "[audit.ddn]: `adequacy` does not go with `precision`",
        "adequacy",
    ),
    ({"audit": {"ddn": {"target": "samples"}}}, "[audit.ddn]: `target` goes with `precision`", "target"),
    ({"model": {"small_cnn": {"mean": 0.5}}}, "[model.small_cnn]: `mean` is given without `std`", "mean"),
    ({"attack": {"pgd": {}}}, "[attack.pgd]: `radius` is missing", "radius"),
    ({"attack": {"pgd": {"radius": 0}}}, "[attack.pgd]: `radius` must be above 0", "radius"),
    ({"attack": {"pgd": {"radius": "8 pixels"}}}, "given '8 pixels'", "radius"),
    ({"attack": {"pgd": {"radius": True}}}, "[attack.pgd]: `radius`", "radius"),
    ({"audit": {"x": {"estimator": "ddn"}}, "attack": {"x": {"attack": "pgd", "radius": 1}}}, "have the same name"),
    (
        {"data": {"digits": {"cross": ["race"]}}},
        "[data.digits]: `cross` must name two or more different columns",
        "cross",
    ),
    (
        {"audit": {"ddn": {"audit_epochs": True}}},
        "[audit.ddn]: `audit_epochs` must be first, middle, last, best",
        "audit_epochs",
    ),
    ({"audit": {"ddn": {"audit_epochs": "best"}}, "train": {"erm": {"epochs": 1, "models": "nobody"}}}, "'nobody'"),
    ({"training": {"x": {}}}, "Sections [training.…] are called [train.…] now; CHANGELOG.md lists all new names"),
    (
        {
            "model": {"logistic": {"data": "more"}},
            "data": {"digits": {}, "more": {}},
            "train": {"erm": {"epochs": 1, "data": "digits"}},
        },
        "No model is used with any of the data",
    ),
    (
        {"audit": {"a": {"estimator": "ddn"}, "b": {"estimator": ["ddn", "fmn"], "confidence": 0.9}}},
        "[audit.a] and [audit.b] both measure; by ddn",
    ),
    (
        {"audit": {"ddn": {"precision": 0.1}}, "data": {"digits": {"control": "class"}}},
        "`precision` does not go with `control` of [data.digits]",
    ),
    (
        {"audit": {"ddn": {"precision": 0.1}}, "data": {"digits": {"sample_weight": "w"}}, "model": FIXED},
        "`precision` does not go with `sample_weight` of [data.digits]",
    ),
    (
        {"data": {"digits": {"sample_weight": "w"}}},
        "[data.digits]: `sample_weight` does not go with the training [train.erm]: leave one of them out.",
    ),
    (
        {"data": {"digits": {"sample_weight": "w"}}, "model": FIXED, "attack": {"pgd": {"radius": 1}}},
        "`sample_weight` does not go with [attack.pgd], whose robust accuracy counts samples",
    ),
    (
        {"data": {"digits": {"sample_weight": "w"}}, "model": FIXED, "audit": {"ddn": {"adequacy": True}}},
        "`sample_weight` does not go with `adequacy` of [audit.ddn]",
    ),
]

CONDITIONS = [
    (
        "sigma_low < -20",
        "is never true, since σ is a share: -1 means that a group is always at 0. Write -0.2 for 20 %.",
    ),
    ("sigma_lo < 0", "names 'sigma_lo', which is not a column. Did you mean 'sigma_low'?"),
    ("colour == 1", "names 'colour', which is not a column. There are: group"),
    ("size.real > 1", "uses a dot that is not allowed. Allowed are columns"),
    ("group > 1", "compares a text with a number: 'F' and 1.0"),
    ("size == 'many'", "compares a text with a number"),
    ("group + 1 > 1", "calculates with 'F', which is not a number"),
    ("-group == 1", "calculates with 'F'"),
    ("abs(verdict) > 1", "calculates with 'less robust'"),
    ("(size > 1) + 1 > 1", "calculates with True"),
    ("size", "gives 120.0, not true or false. Compare it with something"),
    ("group", "gives 'F', not true or false"),
    ("size and sigma < 0", "uses 120.0 as true or false"),
    ("not group", "uses 'F' as true or false"),
    ("size > 1" + " " * 2_000, "has 2,008 characters; at most 1,000 are read"),
    ("size > > 1", "at position 8"),
]

WEIGHTED = BOTH | {"groups": {"sample_weight": "w"}}

REFUSALS = [
    Refusal(
        lambda _: Study(**WEIGHTED, audit={"precision": 0.1}),
        "`sample_weight` does not go with `precision` yet",
        "sample_weight",
    ),
    Refusal(lambda _: Study(**WEIGHTED, audit={"adequacy": True}), "does not go with `adequacy`", "sample_weight"),
    Refusal(lambda _: Study(**WEIGHTED, attack={"radius": [0.1]}), "does not go with attacks", "sample_weight"),
    Refusal(lambda _: Study(**WEIGHTED, train={"epochs": 1}), "does not go with a training", "sample_weight"),
    Refusal(lambda _: study("model", modle="x"), "`modle` is unknown; Did you mean 'model'", "model.modle"),
    Refusal(lambda _: study("groups", groups="x"), "Did you mean 'group'", "groups.groups"),
    Refusal(lambda _: Study(**BOTH, audt={}), "`audt` is unknown; Did you mean 'audit'", "audt"),
    Refusal(lambda _: Study(audit={}), "What to measure is missing: give `model` with `data`, or `distances`."),
    Refusal(lambda _: Study(attack={}), "What to measure is missing: give `model` with `data`."),
    Refusal(lambda _: Study(**MODEL), "What to measure is missing: give `data`."),
    Refusal(lambda _: Study(**DATA), "What to measure is missing: give `model`."),
    Refusal(lambda _: Study(**BOTH, **TABLE), "`distances` goes without `model` and `data`: give either", "distances"),
    Refusal(lambda _: Study(**MODEL, **TABLE), "`distances` goes without `model` and `data`: give either", "distances"),
    Refusal(lambda _: Study(**TABLE, attack={}), "distances alone cannot be attacked"),
    Refusal(lambda _: Study(**TABLE, audit={"adequacy": True}), "`adequacy` goes with `model` with `data`", "adequacy"),
    Refusal(lambda _: Study(**BOTH, epochs={"audit_epochs": "last"}), "`audit_epochs` are epochs of a training"),
    Refusal(lambda _: Study(**BOTH, train={"epochs": 1}, audit={}), "add `audit_epochs`"),
    Refusal(lambda _: study("imported", id="a"), "`id` goes with `distances` and has no effect here", "id"),
    Refusal(lambda _: Study(**BOTH, seed="1180591620717411303424"), "must be a whole number below 2**63", "seed"),  # type: ignore[arg-type]
    Refusal(lambda _: study("audit", smallest_group=10**20), "whole number below 2**63", "audit.smallest_group"),
    Refusal(lambda _: study("audit", up_to="1e300"), "above 0 and below 2**63, or inf", "audit.up_to"),
    Refusal(lambda _: study("attack", radius=["1e300"]), "must be below 2**63", "attack.radius"),
    Refusal(lambda _: study("data", split="tset"), "must be one of all, train, test; given 'tset'", "data.split"),
    Refusal(
        lambda _: Study(imported={"distances": "t.csv", "bound": "uper"}),
        "must be one of exact, upper",
        "imported.bound",
    ),
    Refusal(lambda _: study("data", bounds=(0,)), "must be two numbers", "data.bounds"),
    Refusal(lambda _: study("audit", confidence="high"), "must be a number; given 'high'", "audit.confidence"),
    Refusal(lambda _: study("groups", group=5), "`group`", "groups.group"),
    Refusal(lambda _: study("groups", merge_below=1.5), "must be a whole number; given 1.5", "groups.merge_below"),
    Refusal(lambda _: study("groups", cross=[["sex", "sex"]]), "two or more different columns", "groups.cross"),
    Refusal(lambda _: study("groups", merge_below=True), "must be a whole number; given True", "groups.merge_below"),
    Refusal(lambda _: study("model", mean=(0.5,)), "`mean` is given without `std`: give both (`std` 1)", "model.mean"),
    Refusal(
        lambda _: AuditOptions(adequacy=True, adequacy_samples=9), "must be 10 or more; given 9", "adequacy_samples"
    ),
    Refusal(
        lambda _: AuditOptions(adequacy_samples=100), "goes with `adequacy` and has no effect here", "adequacy_samples"
    ),
    Refusal(lambda _: AuditOptions(target="samples"), "goes with `precision` and has no effect here", "target"),
    Refusal(lambda _: AuditOptions(radii="1,-2"), "must not be negative", "radii"),
    Refusal(lambda _: AuditOptions(radii=[1e30]), "must be below 2**63", "radii"),
    Refusal(lambda _: AuditOptions(radii="1", precision=0.1), "`precision` measures some of them", "radii"),
    Refusal(lambda _: AuditOptions(precision=3), "must lie between 0 and 1, as in 0.03", "precision"),
    Refusal(
        lambda _: DataOptions(columns=3), "must be the path of a file of rules, or one table per column", "columns"
    ),
    Refusal(lambda _: DataOptions(columns={"age": {"unit": 0}}), "columns, [age]: `unit` must be positive", "unit"),
    Refusal(lambda _: DataOptions(columns={"age": 3}), "columns, [age]: Expected one table per column"),
    Refusal(
        lambda _: DataOptions(columns={"age": {"unti": 1}}), "[age]: `unti` is unknown. Did you mean 'unit'", "unti"
    ),
    Refusal(
        lambda _: GroupOptions(bins="age"), "must be rising numbers, the edges between groups; given 'age'", "bins"
    ),
    Refusal(lambda _: GroupOptions(bins={"age": [60, 30]}), "must be rising numbers; given 'age=60,30'", "bins"),
    Refusal(lambda _: GroupOptions(bins=["age=1", "age=2"]), "gives the edges of 'age' twice", "bins"),
    Refusal(lambda _: rules_of([1]), "must be a file of rules, or one table per column", "columns"),
    Refusal(lambda folder: read_rules(folder / "none.toml"), "There is no file of rules"),
    Refusal(read_rules, "is a folder; expected a TOML file of rules"),
    Refusal(lambda folder: rules(folder, b"\xff\xfe"), "rules.toml: it is not a text in UTF-8"),
    Refusal(lambda folder: rules(folder, b"[age"), "rules.toml is not valid TOML"),
    Refusal(lambda folder: rules(folder, b"a.b.unit = 3"), "[a]: `b` is unknown; The name of a column with a dot", "b"),
    Refusal(lambda folder: rules(folder, b"[age]\nkind = 'numbr'"), "rules.toml, [age]: `kind` must be one of", "kind"),
    Refusal(lambda _: TrainOptions(rate=0.1), "The number of epochs is missing"),
    Refusal(lambda _: TrainOptions(epochs=0), "must be 1 or more", "epochs"),
    Refusal(lambda _: TrainOptions(epochs=1, validation="0", patience=3), "watches validation data", "patience"),
    Refusal(lambda _: TrainOptions(epochs=1, schedule="steps:half"), "Cannot read the schedule"),
    Refusal(
        lambda _: make_study({"data": {"digits": {}}, "model": {"logistic": {}}}),
        "Nothing is measured: add a section [audit.…] or [attack.…]",
    ),
    Refusal(lambda folder: file(folder, b"title = 'x'\n\nseeds = [0, \n= 3"), "study.toml is not valid TOML; line 4"),
    Refusal(lambda folder: file(folder, b"\xff\xfe"), "Cannot read the study; it is not a text in UTF-8"),
    Refusal(read_study, "Cannot read the study"),
    Refusal(lambda folder: read_study(folder / "none.toml"), "There is no study"),
    *(Refusal(lambda _, changes=changes: sections(**changes), *expected) for changes, *expected in FILES),
    *(Refusal(lambda _, text=text: condition(text), words) for text, words in CONDITIONS),
]
