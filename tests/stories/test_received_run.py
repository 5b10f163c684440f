"""A run folder received from someone else: links in it are not followed, and edited results are refused."""

import json
import os
import shutil
from pathlib import Path

import pandas as pd
import pytest

from fairmargin.errors import StoreError
from fairmargin.store.checksums import seal, stamped
from fairmargin.training.loop.checkpoints import TrainingFolder
from tests.stories.examples import (
    QUICK,
    fairmargin,
    linear_audit,
    people_audit,
    refused,
    result_files,
    succeeded,
    write_linear_people,
    write_model,
    write_people,
)

CONTENT = "must not change"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make a model, its data and a run of them, which tests copy."""
    folder = tmp_path_factory.mktemp("made")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        succeeded(fairmargin(*audit()))
    return folder


@pytest.fixture
def received(made, tmp_path, monkeypatch):
    """Copy the run into the working folder, beside a file that a link could point to."""
    shutil.copytree(made, tmp_path / "inbox")
    (tmp_path / "victim").write_text(CONTENT)
    monkeypatch.chdir(tmp_path / "inbox")
    return tmp_path / "inbox"


def audit(out: object = "run") -> list[object]:
    """Return the arguments of the audit, with paths relative to the working folder."""
    return people_audit(Path(), "--group", "sex", "--out", out)


def replace_by_link(path: Path, target: Path) -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


# Links


@pytest.mark.parametrize("options", [[], ["--out", "run/page.html"]], ids=["", "--out"])
@pytest.mark.parametrize("target", ["victim", "missing"])
def test_a_report_replaces_a_link_and_leaves_its_target(received, tmp_path, options, target):
    page = received / (options[1] if options else "run/report.html")
    replace_by_link(page, tmp_path / target)
    succeeded(fairmargin("report", "run", *options))
    assert (tmp_path / "victim").read_text() == CONTENT
    assert not (tmp_path / "missing").exists()
    assert not page.is_symlink()
    assert "<html" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["report.html", "audit.csv", "bracket.csv", "samples.parquet.tmp"])
def test_an_audit_writes_through_no_link(received, tmp_path, name):
    replace_by_link(received / "run" / name, tmp_path / "victim")
    succeeded(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == CONTENT


def test_the_target_of_a_hard_link_does_not_change(received, tmp_path):
    for path in (received / "run" / "report.html", received / "run" / "audit.csv", audit_of(received / "run")):
        path.unlink()
        os.link(tmp_path / "victim", path)
    succeeded(fairmargin(*audit()))
    assert (tmp_path / "victim").read_text() == CONTENT


@pytest.mark.parametrize("name", ["record.json", "result", "samples.parquet", "store.json"])
def test_a_result_that_is_a_link_is_not_read(received, tmp_path, name):
    name = f"results/{audit_of(received / 'run').name}" if name == "result" else name
    shutil.copy(received / "run" / name, tmp_path / "elsewhere")
    replace_by_link(received / "run" / name, tmp_path / "elsewhere")
    said = refused(fairmargin("gate", received / "run", "--if", "size > 1000"))
    assert f"{name} is a symbolic link" in said


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_in_place_of_a_file_is_refused_without_waiting(received):
    run = received / "run"
    for path in (audit_of(run), run / "record.json"):
        shutil.move(path, run / "aside")
        os.mkfifo(path)
        assert f"{path.name} is not a regular file" in refused(fairmargin("report", run))
        path.unlink()
        shutil.move(run / "aside", path)
    (run / "report.html").unlink()
    os.mkfifo(run / "report.html")
    assert "report.html: it is a pipe, a socket or a device" in refused(fairmargin(*audit()))


@pytest.mark.parametrize("level", ["shards", "one"])
def test_a_folder_of_shards_that_is_a_link_is_refused(received, tmp_path, level):
    run, away = received / "run", tmp_path / "away"
    place = run / "shards" if level == "shards" else next((run / "shards").iterdir())
    shutil.move(place, away)
    place.symlink_to(away)
    if level == "shards":
        (away / "xx").mkdir()
    stale = (away / "xx" if level == "shards" else away) / ".a.tmp"
    stale.write_text(CONTENT)
    for command in (audit(), ["gate", run, "--if", "size > 1"], ["report", run]):
        said = refused(fairmargin(*command))
        assert f"{place.relative_to(received)} is a symbolic link" in said
    assert stale.read_text() == CONTENT


@pytest.mark.parametrize(("link", "words"), [(os.symlink, "a symbolic link"), (os.link, "not an empty file")])
def test_a_lock_that_is_a_link_is_refused(received, tmp_path, link, words):
    lock, victim = received / "run" / ".lock", tmp_path / "victim"
    lock.unlink(missing_ok=True)
    link(victim, lock)
    os.chmod(victim, 0o600)
    assert f".lock is {words}" in refused(fairmargin(*audit()))
    assert victim.read_text() == CONTENT
    assert victim.stat().st_mode & 0o777 == 0o600


def test_the_folder_of_a_run_may_be_given_as_a_link(received, tmp_path):
    (tmp_path / "mine").symlink_to(received / "run")
    succeeded(fairmargin("report", tmp_path / "mine"))
    succeeded(fairmargin(*audit(tmp_path / "mine")))


def test_a_folder_in_place_of_the_report_is_refused(received):
    (received / "run" / "report.html").unlink()
    (received / "run" / "report.html").mkdir()
    assert "report.html: it is a folder" in refused(fairmargin("report", received / "run"))


def test_a_page_can_be_written_to_a_device(received):
    succeeded(fairmargin("report", received / "run", "--out", "/dev/null"))
    assert Path("/dev/null").is_char_device()


STUDY = """
[data.digits]
per_group = 5
audit_per_group = 5
[model.logistic]
[train.erm]
epochs = 1
[audit.exact_linear]
resamples = 200
"""


@pytest.mark.parametrize("pattern", ["trainings", "trainings/digits-*", "results", "shards", "shards/*"])
def test_a_study_does_not_write_into_a_linked_folder(tmp_path, pattern):
    (tmp_path / "study.toml").write_text(STUDY)
    command = ("run", tmp_path / "study.toml", "--out", tmp_path / "run", "--quiet")
    succeeded(fairmargin(*command))
    folder = next((tmp_path / "run").glob(pattern))
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "elsewhere").rglob("*")}
    assert "is a symbolic link" in refused(fairmargin(*command))
    (tmp_path / "study.toml").write_text(STUDY.replace("epochs = 1", "epochs = 2"))
    if not pattern.startswith(("trainings/", "shards/")):
        assert "is a symbolic link" in refused(fairmargin(*command))
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "elsewhere").rglob("*")} == before


def test_a_training_does_not_write_into_a_linked_folder(tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "distances").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="distances is a symbolic link"):
        TrainingFolder(tmp_path / "run").make()


@pytest.mark.parametrize("name", ["model.safetensors", "history.parquet", "training.json", "mlflow_run.txt"])
def test_a_training_does_not_read_a_file_through_a_link(tmp_path, name):
    training = tmp_path / "run" / "trainings" / "digits-1"
    training.mkdir(parents=True)
    (training / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match=f"{name} is a symbolic link"):
        TrainingFolder(training).make()


# Edited results

PASSES = ("--if", "sigma_low < -0.99")
READERS = (["gate", "run", *PASSES], ["report", "run"], ["compare", "run", "run"], ["power", "run"])


def edited(path: Path, change, *, sealed: bool = False) -> None:
    """Change the JSON in a file and, if `sealed`, the checksums of it."""
    stored = json.loads(path.read_text(encoding="utf-8"))
    is_result = path.parent.name == "results"
    change(stored["content"] if is_result else stored)
    text = json.dumps(stored, ensure_ascii=False)
    if sealed:
        text = stamped(json.dumps(stored["content"])) if is_result else text
    path.write_text(text, encoding="utf-8")
    if sealed:
        run = path.parent.parent if is_result else path.parent
        seal(run, [str(path.relative_to(run))])


def audit_of(run: Path) -> Path:
    """Return the file with the only audit of a run."""
    (path,) = result_files(run)
    return path


def in_group(place: int, **values):
    """Return a function that changes one group of an audit; `sigma__low` is the lower limit of sigma."""

    def change(content):
        row = content["groups"][place]
        for name, value in values.items():
            *outer, last = name.split("__")
            (row[outer[0]] if outer else row)[last] = value

    return change


EDITS = {
    "sigma": in_group(0, sigma__value=-0.01),
    "lower limit": in_group(0, sigma__low=-0.02),
    "swapped limits": in_group(0, sigma__low=0.9, sigma__high=-0.9),
    "verdict": in_group(0, verdict="no significant difference"),
    "p": in_group(0, p_adjusted=0.9),
    "reason": in_group(0, reason="there are too few"),
    "name": in_group(0, group="X"),
    "size": in_group(0, size=10_000),
    "size of 400 digits": in_group(0, size=10**400),
    "size as text": in_group(0, size="12"),
    "number as text": in_group(0, sigma__low="0.5"),
    "boolean as number": in_group(0, p=True),
    "undefined": in_group(0, sigma__value=None, sigma__low=None, sigma__high=None),
    "huge": in_group(0, gap_to_rest__high=1e300),
    "huge integer": in_group(0, p=10**400),
    "infinite": in_group(0, sigma__low=float("inf")),
    "NaN": in_group(0, sigma__low=float("nan")),
    "one group missing": lambda content: content["groups"].pop(),
    "a group twice": lambda content: content["groups"].append(content["groups"][0]),
    "groups in another order": lambda content: content["groups"].reverse(),
    "bound": lambda content: content.update(bound="lower"),
    "confidence": lambda content: content.update(confidence=0.5),
    "overall": lambda content: content["overall"].update(worst_group="M"),
}
RECORD_EDITS = {
    "one audit missing": lambda content: content["results"].clear(),
    "an audit twice": lambda content: content["results"].append(content["results"][0]),
    "estimator": lambda content: content["results"][0]["about"].update(estimator="plumb"),
    "partition": lambda content: content["results"][0]["about"].update(partition="class"),
    "another key": lambda content: content["results"][0].update(key="../../victim"),
    "no shards": lambda content: content["results"][0].update(shards=[]),
    "one shard added": lambda content: content["results"][0]["shards"][0].append("0" * 64),
    "settings of the result": lambda content: content["results"][0]["settings"].update(smallest_group=100_000),
    "settings of the study": lambda content: content["study"]["audit"].update(smallest_group=100_000),
    "precision added": lambda content: content["study"]["audit"].update(precision=0.1),
    "groups": lambda content: content["study"]["groups"].update(group=["race"]),
    "attack added": lambda content: content["study"].update(attack={"radius": [0.1]}),
}


@pytest.mark.parametrize("sealed", [False, True], ids=["", "with its checksum"])
@pytest.mark.parametrize("edit", EDITS)
def test_a_gate_refuses_edited_audits(received, edit, sealed):
    path = audit_of(received / "run")
    edited(path, EDITS[edit], sealed=sealed)
    said = refused(fairmargin("gate", "run", *PASSES))
    assert path.name in said
    assert "again" in said  # what to do


@pytest.mark.parametrize("sealed", [False, True], ids=["", "with its checksum"])
@pytest.mark.parametrize("edit", RECORD_EDITS)
def test_a_gate_refuses_an_edited_record(received, edit, sealed):
    edited(received / "run" / "record.json", RECORD_EDITS[edit], sealed=sealed)
    said = refused(fairmargin("gate", "run", *PASSES))
    assert "again" in said  # what to do


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
def test_every_command_that_reads_a_run_refuses_edited_results_and_names_what_differs(received, command):
    succeeded(fairmargin(*command))
    edited(audit_of(received / "run"), EDITS["verdict"], sealed=True)
    page = (received / "run" / "report.html").read_bytes()
    said = refused(fairmargin(*command))
    assert "verdict of F exact_linear, by sex is 'no significant difference'" in said
    assert "the distances of the run give 'less robust'" in said
    assert (received / "run" / "report.html").read_bytes() == page


def test_differences_by_rounding_are_accepted(received):
    path = audit_of(received / "run")
    sigma = json.loads(path.read_text())["content"]["groups"][0]["sigma"]["value"]
    edited(path, in_group(0, sigma__value=sigma * (1 + 1e-12)), sealed=True)
    succeeded(fairmargin("gate", "run", *PASSES))


@pytest.mark.parametrize("damage", ["cut", "deleted", "flipped", "swapped"])
def test_every_command_that_reads_distances_refuses_damaged_shards(received, tmp_path, damage):
    (shard,) = (received / "run" / "shards").rglob("*.parquet")
    match damage:
        case "cut":
            shard.write_bytes(shard.read_bytes()[:-40])
        case "deleted":
            shard.unlink()
        case "flipped":
            content = bytearray(shard.read_bytes())
            content[200] ^= 1
            shard.write_bytes(bytes(content))
        case "swapped":
            write_model(received / "other.npz", received / "people.csv", strength=0.01)
            other = people_audit(received, "--group", "sex", "--out", tmp_path / "other", model="other.npz")
            succeeded(fairmargin(*other))
            shutil.copy(next((tmp_path / "other" / "shards").rglob("*.parquet")), shard)
    for command in READERS:
        assert shard.stem in refused(fairmargin(*command))


def test_a_gate_refuses_groups_that_were_edited(received):
    path = received / "run" / "samples.parquet"
    samples = pd.read_parquet(path)
    samples["sex"] = samples["sex"].sample(frac=1, random_state=0).to_numpy()
    samples.to_parquet(path)
    assert "samples.parquet" in refused(fairmargin("gate", "run", *PASSES))
    seal(received / "run", ["samples.parquet"])  # as if its writer had done it
    said = refused(fairmargin("gate", "run", *PASSES))
    assert f"{audit_of(received / 'run').name} in run does not follow from" in said


def test_large_runs_are_checked_by_checksums_and_means(received, monkeypatch):
    monkeypatch.setattr("fairmargin.study.check._CHEAP", 0)
    succeeded(fairmargin("gate", "run", *PASSES))
    path = audit_of(received / "run")
    whole = path.read_text(encoding="utf-8")
    for edit in ("sigma", "size", "name", "one group missing", "groups in another order"):
        edited(path, EDITS[edit], sealed=True)
        assert path.name in refused(fairmargin("gate", "run", *PASSES)), edit
        path.write_text(whole, encoding="utf-8")
    edited(path, EDITS["p"])
    assert "checksum" in refused(fairmargin("gate", "run", *PASSES))


def test_a_run_without_checksums_is_refused_until_it_is_audited_again(received):
    (received / "run" / "checksums.json").unlink()
    said = refused(fairmargin("gate", "run", *PASSES))
    assert "has no checksums.json" in said
    assert "older version" in said
    succeeded(fairmargin(*audit()))
    succeeded(fairmargin("gate", "run", *PASSES))


@pytest.mark.parametrize("edit", ["sigma", "one group missing", "one audit missing"])
def test_the_same_audit_restores_an_edited_run(received, edit):
    path = received / "run" / "record.json" if edit in RECORD_EDITS else audit_of(received / "run")
    edited(path, (EDITS | RECORD_EDITS)[edit])
    refused(fairmargin("gate", "run", *PASSES))
    succeeded(fairmargin(*audit()))
    succeeded(fairmargin("gate", "run", *PASSES))


@pytest.mark.parametrize("content", ["[]", "{", "null", '{"record.json": 1}', '{"record.json": "0"}'])
def test_damaged_checksums_are_refused(received, content):
    (received / "run" / "checksums.json").write_text(content)
    refused(fairmargin("gate", "run", *PASSES))


def test_a_result_that_was_added_or_deleted_is_refused(received):
    path = audit_of(received / "run")
    more = json.loads((received / "run" / "record.json").read_text())["results"][0] | {"kind": "bracket", "key": "a"}
    edited(received / "run" / "record.json", lambda content: content["results"].append(more), sealed=True)
    (received / "run" / "results" / "a.json").write_text("{}")
    assert "a.json was added" in refused(fairmargin("report", "run"))
    edited(received / "run" / "record.json", lambda content: content["results"].pop(), sealed=True)
    succeeded(fairmargin("report", "run"))
    path.unlink()
    assert f"{path.name} is missing" in refused(fairmargin("report", "run"))


@pytest.mark.parametrize("command", READERS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("audit.csv", "group\nnobody\n", "does not match its checksum"),
        ("audit.csv", None, "is missing"),
        ("bracket.csv", "group\nnobody\n", "was added"),
    ],
)
def test_every_command_that_reads_a_run_refuses_edited_tables(received, command, name, content, words):
    table = received / "run" / name
    if content is None:
        table.unlink()
    else:
        table.write_text(content)
    said = refused(fairmargin(*command))
    assert f"{name} {words}" in said
    assert "Run the same command again" in said
    succeeded(fairmargin(*audit()))
    succeeded(fairmargin(*command))


def test_tables_of_a_study_of_several_models_are_checked(tmp_path):
    (tmp_path / "study.toml").write_text(STUDY)
    run = tmp_path / "run"
    succeeded(fairmargin("run", tmp_path / "study.toml", "--out", run, "--quiet"))
    succeeded(fairmargin("report", run))
    for name in ("results.csv", "training.csv"):
        content = (run / name).read_text()
        (run / name).write_text(content + "\n")
        assert f"{name} does not match its checksum" in refused(fairmargin("report", run))
        (run / name).write_text(content)
    succeeded(fairmargin("report", run))


def test_tables_of_a_run_that_was_written_before_they_had_checksums_are_not_checked(received):
    path = received / "run" / "checksums.json"
    known = json.loads(path.read_text())
    path.write_text(json.dumps({name: checksum for name, checksum in known.items() if not name.endswith(".csv")}))
    (received / "run" / "audit.csv").write_text("group\nnobody\n")
    succeeded(fairmargin("gate", "run", *PASSES))


def test_results_of_every_setting_can_be_checked(received):
    arguments = people_audit(
        Path(),
        *("--group", "sex", "--cross", "race,sex", "--control", "hired", "--cluster", "person", "--merge-below", "40"),
        *("--estimator", "exact_linear", "--estimator", "exact_linear:norm=linf", "--up-to", "0.5", "--out", "other"),
    )
    succeeded(fairmargin(*arguments))
    succeeded(fairmargin("gate", "other", "--if", "size > 1000"))
    edited(result_files(received / "other")[-1], lambda content: content["groups"][-1].update(p=0.5), sealed=True)
    refused(fairmargin("gate", "other", "--if", "size > 1000"))


# Other results


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Make runs with brackets and certificates, to a precision, and of an attack, which tests copy."""
    folder = write_linear_people(tmp_path_factory.mktemp("others"))
    both = ("--estimator", "smoothing:sigma=0.5,draws=50", "--estimator", "smoothed_attack:sigma=0.5,draws=50,steps=3")
    succeeded(linear_audit(folder, folder / "enclosed", *both, "--per-group", 40, *QUICK))
    succeeded(linear_audit(folder, folder / "precise", "--estimator", "deepfool:steps=5", "--precision", 0.2))
    source = ("--model", folder / "model.npz", "--data", folder / "people.csv", "--label", "hired", "--group", "sex")
    attack = ("attack", *source, "--features", "a,b,c", "--attack", "fgsm", "--radius", 0.1, *QUICK)
    succeeded(fairmargin(*attack, "--out", folder / "attacked"))
    return folder


def in_first_group(**values):
    return lambda content: content["groups"][0].update(values)


def doubled_guarantee(content):
    content["groups"][0]["mean"]["guaranteed"] *= 2


OTHERS = {
    "verdict of a bracket": ("enclosed", "bracket", in_first_group(verdict="certainly more robust")),
    "size in a bracket": ("enclosed", "bracket", in_first_group(size=10**400)),
    "guarantee": ("enclosed", "certified", doubled_guarantee),
    "size of an attack": ("attacked", "robust_accuracy", in_first_group(size=10_000)),
    "size as text": ("precise", "precision", in_first_group(size="12")),
    "another word": ("precise", "precision", in_first_group(met="no")),
    "boolean as number": ("precise", "precision", in_first_group(p=True)),
}
PRECISE = {
    "verdict": ("precise", "precision", in_first_group(verdict="no significant difference")),
    "p": ("precise", "precision", in_first_group(p_adjusted=0.9)),
}
UNSEALED = [(edit, False) for edit in PRECISE]  # the results of an audit to a precision are not computed again


@pytest.mark.parametrize(
    ("edit", "sealed"), [*((edit, sealed) for edit in OTHERS for sealed in (False, True)), *UNSEALED]
)
def test_gate_and_report_refuse_other_edited_results(others, tmp_path, edit, sealed):
    name, kind, change = OTHERS[edit] if edit in OTHERS else PRECISE[edit]
    run = shutil.copytree(others / name, tmp_path / "run")
    (path,) = result_files(run, kind)
    edited(path, change, sealed=sealed)
    for command in (["gate", run, "--if", "size > 100000"], ["report", run]):
        succeeded(fairmargin(*[others / name if part == run else part for part in command]))
        said = refused(fairmargin(*command))
        assert path.name in said
        assert sealed or "does not match its checksum" in said


@pytest.mark.parametrize("values", [{"versions": "0.5"}, {"versions": {"python": 3}}, {"data": []}], ids=str)
def test_a_report_refuses_damaged_provenance(others, tmp_path, values):
    run = shutil.copytree(others / "precise", tmp_path / "run")
    edited(run / "record.json", lambda content: content["provenance"].update(values), sealed=True)
    assert "record.json is damaged" in refused(fairmargin("report", run))


def test_damaged_distances_of_an_audit_to_a_precision_are_refused(others, tmp_path):
    run = shutil.copytree(others / "precise", tmp_path / "run")
    shard = next((run / "shards").rglob("*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-40])
    assert shard.stem in refused(fairmargin("gate", run, *PASSES))
