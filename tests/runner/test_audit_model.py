"""`fm.audit_model` does in one call what the command does, for models and samples given as objects."""

import numpy as np
import pandas as pd
import pytest
import torch

import fairmargin as fm
from fairmargin.data.formats.files import load_file
from fairmargin.engine.local import Serial
from fairmargin.errors import InputError, ModelError, StoreError
from fairmargin.study.check import checked
from fairmargin.study.run_folder import RunFolder
from tests.stories.examples import (
    FEATURES,
    LABEL,
    contents_of,
    fairmargin,
    fitted,
    people_audit,
    succeeded,
    write_model,
    write_people,
)

QUICK = fm.AuditSettings(resamples=200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("people")
    write_people(path / "people.csv")
    write_model(path / "model.npz", path / "people.csv")
    return path


@pytest.fixture(scope="module")
def people(folder):
    """Return the people, and a model of them in the units that the command uses."""
    attributes = ("sex", "race", "person")
    dataset = load_file(folder / "people.csv", label=LABEL, features=FEATURES, attributes=attributes)
    return dataset, fm.as_classifier(fitted(folder / "people.csv"), domain=dataset.domain)


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))
    x = np.random.default_rng(0).normal(size=(120, 4)).astype(np.float32)
    with torch.no_grad():
        y = net(torch.as_tensor(x)).argmax(dim=1).numpy()
    return fm.as_classifier(net, domain=fm.Domain()), x, y, np.array(["F", "M"] * 60)


def audited(people, groups, **more):
    dataset, model = people
    return fm.audit_model(model, dataset.x, dataset.y, groups=groups, **{"settings": QUICK, "progress": False} | more)


def same(result, other):
    return result.to_json() == other.to_json()


# What the command does


def test_it_finds_what_the_command_finds(folder, people, tmp_path):
    dataset, _ = people
    asked = people_audit(folder, "--group", "sex", "--group", "race", "--cross", "sex,race", "--out", tmp_path / "run")
    succeeded(fairmargin(*asked, "--control", LABEL, "--cluster", "person", "--estimator", "exact_linear:norm=linf"))
    command = RunFolder(tmp_path / "run").read()
    settings = QUICK.model_copy(
        update={"control": fm.Partition.by(LABEL, dataset.y), "cluster": dataset.attributes["person"]}
    )
    groups = pd.DataFrame({name: dataset.attributes[name] for name in ("sex", "race")})
    record = audited(people, groups, cross=True, settings=settings, estimator="exact_linear:norm=linf")
    assert record.partitions == command.partitions == ("sex", "race", "sex & race")
    for name in record.partitions:
        assert same(record[name], command[name])
        assert record[name].control == LABEL
        assert record[name].clustered
    assert record.provenance.samples == command.provenance.samples
    assert record.provenance.domain == command.provenance.domain
    assert record.provenance.classifier == command.provenance.classifier


def test_a_run_folder_is_that_of_the_command(people, tmp_path):
    dataset, _ = people
    settings = QUICK.model_copy(
        update={"control": fm.Partition.by(LABEL, dataset.y), "cluster": dataset.attributes["person"]}
    )
    groups = {"sex": dataset.attributes["sex"], "race": fm.Partition.by("race", dataset.attributes["race"])}
    record = audited(people, groups, cross=True, settings=settings, out=tmp_path / "run")
    assert same(checked(RunFolder(tmp_path / "run"))["sex & race"], record["sex & race"])
    assert (tmp_path / "run" / "report.html").stat().st_size > 10_000
    for command in (["report"], ["gate", "--if", "size > 1000"], ["power"], ["compare", tmp_path / "run"]):
        succeeded(fairmargin(command[0], tmp_path / "run", *command[1:]))
    before = contents_of(tmp_path / "run")
    audited(people, groups, cross=True, settings=settings, out=tmp_path / "run")
    assert contents_of(tmp_path / "run") == before


def test_a_run_folder_of_another_model_or_other_samples_is_refused(people, tmp_path):
    dataset, _ = people
    sex = dataset.attributes["sex"]
    audited(people, sex, out=tmp_path / "run")
    with pytest.raises(StoreError, match="holds another run: it differs in model"):
        fm.audit_model(([1.0, 2.0, 3.0], 0.0), dataset.x, dataset.y == "yes", groups=sex, out=tmp_path / "run")
    with pytest.raises(StoreError, match="holds another run: it differs in data"):
        audited(people, sex, out=tmp_path / "run", max_samples=300)


# Groups


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (lambda sex: pd.Series(sex, name="sex"), "sex"),
        (lambda sex: sex, "group"),
        (list, "group"),
        (pd.Series, "group"),
        (lambda sex: fm.Partition.by("sex", sex), "sex"),
        (lambda sex: [fm.Partition.by("sex", sex)], "sex"),
        (lambda sex: pd.DataFrame({"sex": sex}), "sex"),
        (lambda sex: {"sex": sex}, "sex"),
        (lambda sex: pd.Series(pd.Categorical(sex, categories=["M", "F"]), name="sex"), "sex"),
    ],
)
def test_groups_are_given_in_many_ways(people, kind, name):
    sex = np.asarray(people[0].attributes["sex"])
    found = audited(people, kind(sex))[name]
    expected = audited(people, fm.Partition.by("sex", sex))["sex"]
    assert {row.group: row.sigma.value for row in found} == {row.group: row.sigma.value for row in expected}
    assert {row.group: row.verdict for row in found} == {"F": "less robust", "M": "more robust"}


def test_the_order_of_categories_is_kept(people, tmp_path):
    sex = pd.Categorical(people[0].attributes["sex"], categories=["M", "F"])
    record = audited(people, pd.Series(sex, name="sex"), out=tmp_path / "run")
    assert record["sex"].bound is fm.Bound.EXACT  # the default for linear models
    assert [row.group for row in record["sex"]] == ["M", "F"]
    assert [row.group for row in checked(RunFolder(tmp_path / "run"))["sex"]] == ["M", "F"]


def test_a_result_is_selected_by_what_was_asked(people):
    sex = pd.Series(people[0].attributes["sex"], name="sex")
    record = audited(people, sex, estimator=["exact_linear", fm.ESTIMATORS["exact_linear"](norm="linf")])
    assert record.select(estimator="exact_linear").norm is fm.Norm.L2
    assert record.select(partition="sex", estimator="exact_linear:norm=linf").norm is fm.Norm.LINF
    with pytest.raises(InputError, match="2 results match"):
        record["sex"]
    with pytest.raises(InputError, match=r"no partition 'sxe'\. Did you mean 'sex'\?"):
        record["sxe"]
    with pytest.raises(InputError, match="no estimator 'plumb'"):
        record.select(estimator="plumb")


# Measuring


def test_a_norm_is_for_estimators_that_name_none(network):
    model, x, y, sex = network
    record = fm.audit_model(
        model, x, y, groups=sex, estimator=("fmn:steps=3", "fmn:norm=l1,steps=3"), norm="linf", settings=QUICK
    )
    assert [each.about.estimator for each in record.results] == ["fmn:steps=3,norm=linf", "fmn:norm=l1,steps=3"]


def test_every_engine_finds_the_same(network):
    model, x, y, sex = network
    found = [
        fm.audit_model(model, x[:64], y[:64], groups=sex[:64], settings=QUICK, engine=engine)
        for engine in (Serial(), "processes:workers=1")
    ]
    assert [each.results[0].about.estimator for each in found] == ["plumb"] * 2  # the default for networks
    assert same(*(each["group"] for each in found))


def test_a_data_frame_is_put_in_the_order_of_the_model(people):
    dataset, _ = people
    frame = pd.DataFrame(np.asarray(dataset.x), columns=list(FEATURES))
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression().fit(frame, dataset.y)
    sex = dataset.attributes["sex"]
    straight = fm.audit_model(model, frame, dataset.y, groups=sex, settings=QUICK)
    turned = fm.audit_model(model, frame[list(reversed(FEATURES))], dataset.y, groups=sex, settings=QUICK)
    assert same(straight["group"], turned["group"])


def test_a_part_of_the_samples_is_drawn_by_the_seed(people, tmp_path):
    dataset, _ = people
    partition = fm.Partition.by("sex", dataset.attributes["sex"])
    settings = QUICK.model_copy(
        update={"control": fm.Partition.by(LABEL, dataset.y), "cluster": dataset.attributes["person"]}
    )
    record = audited(people, partition, max_samples=200, settings=settings, out=tmp_path / "run")
    assert sum(row.size for row in record["sex"]) == 200
    assert any("200 of 360, drawn with seed 0" in note for note in record.notes)
    assert same(checked(RunFolder(tmp_path / "run"))["sex"], record["sex"])
    again = audited(people, partition, max_samples=200, settings=settings)
    other = audited(people, partition, max_samples=200, settings=settings, seed=1)
    assert same(again["sex"], record["sex"])
    assert other.provenance.samples != record.provenance.samples
    whole = audited(people, partition, max_samples=1000)
    assert whole.notes == audited(people, partition).notes


def test_the_seed_is_that_of_measuring_and_comparing(people, tmp_path):
    sex = people[0].attributes["sex"]
    zero, one = (audited(people, sex, seed=seed)["group"]["F"].sigma for seed in (0, 1))
    assert zero.value == one.value
    assert (zero.low, zero.high) != (one.low, one.high)
    audited(people, sex, seed=1, out=tmp_path / "run")
    checked(RunFolder(tmp_path / "run"))
    assert audited(people, sex, seed=1, settings=fm.AuditSettings(resamples=200, seed=1))["group"]["F"].sigma == one


def test_samples_that_were_trained_on_are_warned_of(people):
    dataset, _ = people
    record = audited(people, dataset.attributes["sex"], training_data=np.asarray(dataset.x)[:50])
    assert any("50 of 360 audited rows also occur in the training data" in note for note in record.notes)
    fresh = audited(people, dataset.attributes["sex"], training_data=np.asarray(dataset.x)[:50] + 1)
    assert fresh.notes == audited(people, dataset.attributes["sex"]).notes


def test_references_are_those_that_are_given(network):
    model, x, y, sex = network
    fixed = [
        fm.audit_model(model, x, y, groups=sex, estimator="fmn:steps=2", settings=QUICK, references=given)
        for given in (None, x[:30], x[30:60])
    ]
    assert len({each.provenance.references for each in fixed}) == 3
    measured = fm.measure(model, x, y, fm.ESTIMATORS["fmn"](steps=2), references=x[:30])
    assert same(fixed[1]["group"], fm.audit(measured, fm.Partition.by("group", sex), QUICK))


def test_a_model_that_is_hardly_ever_right_is_warned_of(people):
    dataset, model = people
    wrong = np.where(np.asarray(dataset.y) == "yes", "no", "yes")
    record = fm.audit_model(model, dataset.x, wrong, groups=dataset.attributes["sex"], settings=QUICK)
    warning = record["group"].warnings[0]
    assert "always answering the commonest class" in warning
    assert warning.count(" %") == warning.count("%") == 2


def test_progress_is_told_to_a_function_and_otherwise_nothing_is_printed(people, capsys):
    told = []
    audited(people, people[0].attributes["sex"], progress=lambda *what: told.append(what))
    assert ("measuring exact_linear", 1, 1) in told
    assert all(done <= total for _, done, total in told)
    audited(people, people[0].attributes["sex"], progress=True)
    assert capsys.readouterr() == ("", "")


def test_an_estimator_that_the_model_cannot_serve_is_refused_as_it_was_spelled(network, tmp_path):
    model, x, y, sex = network
    for estimator in ("exact_linear:norm=linf", fm.ESTIMATORS["exact_linear"](norm="linf")):
        with pytest.raises(ModelError, match="`exact_linear:norm=linf` needs from the model its weights"):
            fm.audit_model(model, x, y, groups=sex, estimator=estimator, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("index", [range(40), range(5, 45), range(1000, 1040), [*range(20), *range(20)]])
def test_rows_whose_index_labels_differ_are_paired_by_position(index):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 2))
    y, sex = (x @ [3, 4] > 0).astype(int), np.repeat(["F", "M"], 20)
    frame, groups = pd.DataFrame(x, index=range(1000, 1040)), pd.Series(sex, index=index, name="sex")
    of_series = fm.audit_model(([3.0, 4.0], 0.0), frame, y, groups=groups, progress=False)
    of_arrays = fm.audit_model(([3.0, 4.0], 0.0), x, y, groups={"sex": sex}, progress=False)
    assert of_series["sex"]["F"].robustness == of_arrays["sex"]["F"].robustness


def test_a_norm_is_a_name_or_an_object():
    x = np.random.default_rng(0).normal(size=(40, 2))
    y, sex = (x @ [3, 4] > 0).astype(int), np.repeat(["F", "M"], 20)
    records = [
        fm.audit_model(([3.0, 4.0], 0.0), x, y, groups=sex, norm=norm, progress=False)
        for norm in ("linf", fm.Norm.LINF)
    ]
    assert records[0].study == records[1].study
    assert records[0]["group"]["F"].robustness == records[1]["group"]["F"].robustness


@pytest.mark.parametrize("seed", [np.int64(3), 2**32, 2**63 - 1])
def test_seeds_of_numpy_and_of_up_to_63_bits_are_stored(seed, tmp_path):
    x = np.random.default_rng(0).normal(size=(80, 2))
    y, sex = (x @ [3, 4] > 0).astype(int), np.repeat(["F", "M"], 40)
    fm.audit_model(([3.0, 4.0], 0.0), x, y, groups=sex, seed=seed, max_samples=70, out=tmp_path / "run", progress=False)
    assert RunFolder(tmp_path / "run").read().study.seed == seed


class Prototypes(torch.nn.Module):
    """A network without linear or convolutional layers: one prototype per class."""

    def __init__(self, classes):
        super().__init__()
        self.places = torch.nn.Parameter(torch.eye(classes, 4))

    def forward(self, x):
        return -((x[:, None] - self.places) ** 2).sum(dim=2)


def test_a_network_whose_layers_do_not_tell_its_classes_gets_those_of_numbered_labels(network):
    _, x, _, sex = network
    x, y = x - x.min(), np.arange(len(x)) % 3
    x /= x.max()
    given = fm.as_classifier(Prototypes(3), classes=range(3))
    first, second = (
        fm.audit_model(each, x, y, groups=sex, estimator="first_order", settings=QUICK, progress=False)["group"]
        for each in (Prototypes(3), given)
    )
    same(first, second)


def test_a_network_whose_layers_do_not_tell_its_classes_needs_them_for_labels_that_are_text(network):
    _, x, _, sex = network
    with pytest.raises(
        ModelError, match=r"Cannot tell how many classes `Prototypes` has.*fm\.as_classifier\(network, cl"
    ):
        fm.audit_model(Prototypes(2), x, np.where(x[:, 0] > 0, "yes", "no"), groups=sex, progress=False)
