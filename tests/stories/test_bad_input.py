"""What is wrong is said in one sentence, with exit code 2; a traceback is a defect of ours."""

import json
import pickle
import re
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairmargin.store.checksums import seal, stamped
from tests.stories.examples import (
    LABEL,
    QUICK,
    contents_of,
    distances,
    fairmargin,
    fitted,
    json_of,
    people,
    people_audit,
    record_of,
    refused,
    result_files,
    results_of,
    succeeded,
    write_distances,
    write_images,
    write_model,
    write_people,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sound files, and beside them every kind of unsound one."""
    folder = tmp_path_factory.mktemp("files")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    write_images(folder)
    write_distances(folder / "table.csv")
    _write_unsound_people(folder)
    _write_unsound_arrays(folder)
    _write_unsound_models(folder)
    _write_unsound_distances(folder)
    return folder


def _write_unsound_people(folder: Path) -> None:
    first = np.arange(len(people())) == 3
    for name, column, value in (("nan", "age", np.nan), ("inf", "age", np.inf), ("perhaps", LABEL, "perhaps")):
        write_people(folder / f"{name}.csv", people().assign(**{column: people()[column].mask(first, value)}))
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("age,income,score,hired,sex\n")
    (folder / "semicolons.csv").write_text("age;hired\n1;yes\n")
    (folder / "noise.parquet").write_bytes(b"this is no parquet")


def _write_unsound_arrays(folder: Path) -> None:
    arrays = dict(np.load(folder / "images.npz"))
    np.savez(folder / "short-labels.npz", **arrays | {"y": arrays["y"][:-3]})
    np.savez(folder / "short-groups.npz", **arrays | {"camera": arrays["camera"][:-3]})
    np.savez(folder / "flat.npz", **arrays | {"x": arrays["x"][:, 0, 0]})
    np.savez(folder / "wider.npz", **arrays | {"x": np.tile(arrays["x"], (1, 2, 1))})
    broken = arrays["x"].copy()
    broken[5, 0, 0] = np.nan
    np.savez(folder / "nan.npz", **arrays | {"x": broken})
    np.savez(folder / "objects.npz", **arrays | {"camera": np.array([None] * len(arrays["y"]), dtype=object)})
    (folder / "noise.npz").write_bytes(b"PK\x03\x04 this is no archive")
    np.savez_compressed(folder / "flipped.npz", **arrays)
    content = bytearray((folder / "flipped.npz").read_bytes())
    content[400:408] = b"\xff" * 8
    (folder / "flipped.npz").write_bytes(content)


def _write_unsound_models(folder: Path) -> None:
    (folder / "model.pkl").write_bytes(pickle.dumps(fitted(folder / "people.csv")))
    np.savez(folder / "weightless.npz", bias=np.zeros(2))
    np.savez(folder / "words.npz", weight=np.array([["a", "b", "c"]] * 2), bias=np.zeros(2))
    np.savez(folder / "word-low.npz", weight=np.zeros((2, 3)), bias=np.zeros(2), low="a")
    np.savez(folder / "narrow.npz", weight=np.ones((2, 2)), bias=np.zeros(2), classes=["no", "yes"])
    shutil.copy(folder / "flipped.npz", folder / "flipped-model.npz")
    (folder / "fails.py").write_text("1 / 0\n")
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    (folder / "strange.py").write_text("model = 'a text'\n")


def _write_unsound_distances(folder: Path) -> None:
    table = distances()
    first = np.arange(len(table)) == np.flatnonzero(table.correct)[0]
    write_distances(folder / "negative.csv", table.assign(distance=table.distance.mask(first, -1.0)))
    write_distances(folder / "gap.csv", table.assign(distance=table.distance.mask(first, np.nan)))
    write_distances(folder / "wrong-yet-far.csv", table.assign(correct=table.correct.mask(first, False)))
    write_distances(folder / "text.csv", table.assign(distance="far"))
    write_distances(folder / "unreached.csv", table.assign(distance=np.inf, correct=True))
    write_distances(folder / "maybe.csv", table.assign(correct="maybe"))


PEOPLE = "--model model.npz --data people.csv --label hired --features age,income,score --group sex"
IMAGES = "--model reader.npz --data images.npz --group camera"
TABLE = "--distances table.csv --group sex"

# What is typed after `fairmargin audit --out run`, and the words that the sentence must hold.
REFUSED = [
    # what to audit
    ("", "What to measure is missing: give --model with --data, or --distances"),
    ("--model model.npz", "give --data"),
    ("--data people.csv", "give --model"),
    (
        f"{PEOPLE} --distances table.csv",
        "--distances goes without --model and --data: give either; or a model with data",
    ),
    # the table
    (PEOPLE.replace("people.csv", "nowhere.csv"), "There is no file; nowhere.csv; Check the path"),
    (PEOPLE.replace("people.csv", "."), "holds no images"),
    (PEOPLE.replace("people.csv", "peeple"), "Unknown dataset 'peeple'; digits; with its ending"),
    (PEOPLE.replace("people.csv", "empty.csv"), "empty.csv is empty"),
    (PEOPLE.replace("people.csv", "header.csv"), "has a header but no rows"),
    (PEOPLE.replace("people.csv", "semicolons.csv"), "separator seems to be another character"),
    (PEOPLE.replace("people.csv", "noise.parquet"), "not a readable Parquet file"),
    (PEOPLE.replace("people.csv", "nan.csv"), "Column 'age' has no number in 1 of 360 rows"),
    (PEOPLE.replace("people.csv", "inf.csv"), "Column 'age' holds infinity; row 4"),
    (PEOPLE.replace("people.csv", "perhaps.csv"), "not among the model's classes; 'perhaps'; 'no', 'yes'"),
    (PEOPLE.replace("--label hired", "--label hird"), "no column 'hird' (label); Did you mean 'hired'?"),
    (PEOPLE.replace("--label hired", ""), "Which column of people.csv is the label?; hired"),
    (PEOPLE.replace("income", "incme"), "no column 'incme' (feature); Did you mean 'income'?"),
    (PEOPLE.replace("--group sex", "--group sxe"), "no column 'sxe'; Did you mean 'sex'?"),
    (f"{PEOPLE} --control clas", "no column 'clas'"),
    (f"{PEOPLE} --cluster persn", "no column 'persn'; Did you mean 'person'?"),
    (f"{PEOPLE} --group age", "Column 'age'; looks continuous; Bin it first"),
    # arrays
    (IMAGES.replace("images", "short-labels"), "`y` has 597 labels but `x` has 600 samples"),
    (IMAGES.replace("images", "short-groups"), "'camera' has 597 values but `x` has 600 samples"),
    (IMAGES.replace("images", "flat"), "must hold one row per sample"),
    (IMAGES.replace("images", "nan"), "holds NaN or infinity; index 5"),
    (IMAGES.replace("images", "objects"), "'camera'; holds Python objects; run untrusted code"),
    (IMAGES.replace("images", "noise"), "not a readable .npz file"),
    (IMAGES.replace("camera", "camra"), "no array 'camra'; Did you mean 'camera'?"),
    (f"{IMAGES} --label z", "no array 'z'"),
    (f"{IMAGES} --split test", "A file has no splits"),
    # bounds and crossings
    (f"{IMAGES} --bounds 0,0.5", "outside `bounds`; Widen the bounds"),
    (f"{IMAGES} --bounds 1", "--bounds must be two numbers, low and high; given '1'"),
    (f"{IMAGES} --bounds low,high", "--bounds must be two numbers; given 'low,high'"),
    (f"{IMAGES} --bounds 1,0", "Did you swap them?"),
    (f"{IMAGES} --bounds nan,1", "NaN"),
    (f"{PEOPLE} --cross race", "--cross must name two or more different columns; given 'race'"),
    (f"{PEOPLE} --cross race,sxe", "no column 'sxe'"),
    # the model
    (PEOPLE.replace("model.npz", "modle.npz"), "There is no model file 'modle.npz'"),
    (PEOPLE.replace("model.npz", "model"), "Unknown model 'model'; import path"),
    (PEOPLE.replace("model.npz", "model.pkl"), "can run any code; --trust-model"),
    (PEOPLE.replace("model.npz", "weightless.npz"), "lacks the array weight; it holds bias"),
    (PEOPLE.replace("model.npz", "words.npz"), "words.npz; weight; arrays of numbers"),
    (PEOPLE.replace("model.npz", "noise.npz"), "cannot be read as an .npz"),
    (PEOPLE.replace("model.npz", "nowhere.py:model"), "There is no file 'nowhere.py'"),
    (PEOPLE.replace("model.npz", "fails.py:model"), "ZeroDivisionError"),
    (PEOPLE.replace("model.npz", "strange.py:modle"), "has no 'modle'; it defines model"),
    (PEOPLE.replace("model.npz", "strange.py:model"), "Cannot read a model of type `str`"),
    (PEOPLE.replace("model.npz", "no.such.package:model"), "Importing 'no.such.package' failed"),
    # names
    (f"{PEOPLE} --estimator exact_liner", "Unknown estimator `exact_liner`; Did you mean; exact_linear"),
    (f"{PEOPLE} --estimator exact_linear:nrm=l2", "unknown field `nrm`; Did you mean; norm"),
    (f"{PEOPLE} --estimator exact_linear:norm=l3", "Unknown norm 'l3'; l1, l2, linf"),
    (f"{PEOPLE} --estimator exact_linear:norm", "expected field=value"),
    (f"{PEOPLE} --engine proceses", "Unknown engine; Did you mean 'processes'?"),
    (f"{PEOPLE} --engine processes:wokers=2", "unknown field `wokers`; Did you mean 'workers'?"),
    (f"{PEOPLE} --engine processes:workers=0", "`workers` must be at least 1"),
    (f"{PEOPLE} --scale sdt", "--scale must be one of std, none; given 'sdt'"),
    (f"{PEOPLE} --split tset", "--split must be one of all, train, test; given 'tset'"),
    (f"{TABLE} --norm l7", "--norm must be one of l1, l2, linf; given 'l7'"),
    (f"{TABLE} --bound uper", "--bound must be one of exact, upper, lower, neither; given 'uper'"),
    # numbers
    (f"{PEOPLE} --confidence 2", "--confidence must lie in; given '2'"),
    (f"{PEOPLE} --smallest-group 1", "--smallest-group must be at least 2; given '1'"),
    (f"{PEOPLE} --resamples 10", "--resamples must be at least 200; given '10'"),
    (f"{PEOPLE} --up-to 0", "--up-to must be a radius above 0; given '0'"),
    # distances
    (TABLE.replace("table", "nowhere"), "There is no file; nowhere.csv"),
    (TABLE.replace("table", "negative"), "negative distances; signed margins"),
    (TABLE.replace("table", "gap"), "has no number in 1 of 300 rows; Write inf"),
    (TABLE.replace("table", "wrong-yet-far"), "misclassified samples have a distance above 0"),
    (TABLE.replace("table", "text"), "holds 'far' in data row 1; expected a number"),
    (TABLE.replace("table", "maybe"), "must hold true and false; 'maybe'"),
    (TABLE.replace("--group sex", ""), "--group is missing; there is no column 'class'; sex, site"),
    (TABLE.replace("--group sex", "--group race"), "no column 'race'; There are: sex, site"),
    (f"{TABLE} --distance-column distanc", "no column 'distanc'; Did you mean 'distance'?"),
    (f"{TABLE} --correct-column corect", "no column 'corect'; Did you mean 'correct'?"),
    # what would be ignored in silence
    (f"{PEOPLE} --seed -1", "--seed"),
    (IMAGES.replace("images", "flipped"), "not a readable .npz file"),
    (PEOPLE.replace("model.npz", "flipped-model.npz"), ".npz"),
    (PEOPLE.replace("model.npz", "word-low.npz"), "low"),
    (PEOPLE.replace("model.npz", "exits.py:model"), "exits.py; SystemExit"),
    (PEOPLE.replace("age,income,score", "age,income"), "The model takes 3 features; has 2: age, income; --features"),
    (PEOPLE.replace("model.npz", "narrow.npz"), "The model takes 2 features; has 3"),
    (IMAGES.replace("images", "wider"), "The model takes 16 features; has 32"),
    (f"{PEOPLE} --merge-below -3", "--merge-below; -3"),
    (f"{PEOPLE} --cross sex,sex", "two or more different columns; sex,sex"),
    ("--model reader.npz --data digits --bounds 0,2", "digits; bounds"),
    (f"{TABLE} --estimator exact_linear:norm=linf", "--estimator goes with --model with --data"),
    (f"{TABLE} --label sex", "--label goes with --model with --data"),
    (f"{PEOPLE} --bound upper", "--bound goes with --distances"),
]


@pytest.mark.parametrize(
    ("typed", "words"),
    REFUSED,
    ids=lambda value: re.sub(r"[^\w.,:=-]+", " ", value)[-60:].strip(),
)
def test_bad_input_is_refused_in_a_sentence(files, tmp_path, monkeypatch, typed, words):
    monkeypatch.chdir(files)
    sentence = refused(fairmargin("audit", "--out", tmp_path / "run", "--resamples", "200", *typed.split()))
    for part in words.split("; "):
        assert part in sentence
    assert not (tmp_path / "run").exists()  # nothing is begun that cannot be ended


def test_distances_of_which_none_is_finite_need_a_cap(files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    arguments = ["audit", "--out", tmp_path / "run", *TABLE.replace("table", "unreached").split(), *QUICK]
    sentence = refused(fairmargin(*arguments))
    assert "300 of 300 samples have no finite distance" in sentence
    assert "--up-to" in sentence
    succeeded(fairmargin(*arguments, "--up-to", "2"))


def test_the_same_files_pass_when_nothing_is_wrong(files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    for number, typed in enumerate((PEOPLE, f"{IMAGES} --bounds 0,1", TABLE)):
        succeeded(fairmargin("audit", "--out", tmp_path / f"{number}", *typed.split(), *QUICK))
    trusted = PEOPLE.replace("model.npz", "model.pkl").split()
    succeeded(fairmargin("audit", "--out", tmp_path / "pickle", *trusted, "--trust-model", *QUICK))


@pytest.mark.parametrize(
    "typed",
    [
        "audit",
        "audit --out run --confidence high",
        "audit --out run --no-such-option",
        "gate run",
        "compare run",
        "list colours",
        "no-such-command",
    ],
)
def test_a_command_that_cannot_be_parsed_exits_with_2_and_says_what_is_missing(typed):
    result = fairmargin(*typed.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr


# Where the run is written


@pytest.mark.parametrize("below", ["", "/run"])
@pytest.mark.parametrize(
    "command",
    [f"audit {PEOPLE} --resamples 200", pytest.param("demo")],
    ids=["audit", "demo"],
)
def test_a_place_that_cannot_be_written_is_refused(files, tmp_path, monkeypatch, command, below):
    monkeypatch.chdir(files)
    (tmp_path / "file").write_text("in the way")
    sentence = refused(fairmargin(*command.split(), "--out", f"{tmp_path / 'file'}{below}"))
    assert "file" in sentence
    assert (tmp_path / "file").read_text() == "in the way"


def test_a_report_that_cannot_be_written_is_refused(run, tmp_path):
    assert "its folder does not exist" in refused(fairmargin("report", run, "--out", tmp_path / "no/such/page.html"))
    assert "it is a folder" in refused(fairmargin("report", run, "--out", tmp_path))


# Runs that are no longer what they were


@pytest.fixture(scope="module")
def sound(files, tmp_path_factory):
    run = tmp_path_factory.mktemp("sound") / "run"
    succeeded(fairmargin(*people_audit(files, "--group", "sex", "--out", run)))
    return run


@pytest.fixture
def run(sound, tmp_path):
    """A copy of a sound run, to be damaged."""
    return shutil.copytree(sound, tmp_path / "run")


READERS = {
    "report": lambda run: ["report", run],
    "gate": lambda run: ["gate", run, "--if", "size > 1"],
    "power": lambda run: ["power", run],
    "compare": lambda run: ["compare", run, run],
}


@pytest.mark.parametrize("command", READERS)
def test_a_folder_without_a_run_is_no_run(tmp_path, command):
    assert "no folder" in refused(fairmargin(*READERS[command](tmp_path / "nowhere")))
    assert "without a run" in refused(fairmargin(*READERS[command](tmp_path)))


@pytest.mark.parametrize("command", READERS)
def test_a_run_that_was_not_finished_is_said_to_be_so(run, command):
    content = record_of(run)
    (run / "record.json").write_text(json.dumps(content | {"status": "running", "results": []}))
    for _ in range(2):  # amid its work, and before it began
        _check_unfinished(run, command)
        (run / "record.json").unlink(missing_ok=True)


def _check_unfinished(run, command):
    sentence = refused(fairmargin(*READERS[command](run)))
    assert "did not finish" in sentence
    assert "again" in sentence


@pytest.mark.parametrize("command", READERS)
def test_a_store_of_another_format_is_refused(run, command):
    (run / "store.json").write_text('{"format": 99}')
    assert "has format 99; this version of Fairmargin reads format 1" in refused(fairmargin(*READERS[command](run)))


def test_an_audit_leaves_a_store_of_another_format_alone(files, run):
    (run / "store.json").write_text('{"format": 99}')
    assert "format 99" in refused(fairmargin(*people_audit(files, "--group", "sex", "--out", run)))
    assert (run / "store.json").read_text() == '{"format": 99}'


BROKEN = ["", "{", "null", "5", '"text"', "[]", "[1]", "{}"]


@pytest.mark.parametrize("kind", ["record", "result"])
@pytest.mark.parametrize("content", BROKEN)
def test_a_damaged_file_is_named_by_every_command_that_reads_it(run, kind, content):
    path = run / "record.json" if kind == "record" else result_files(run)[0]
    path.write_text(content)
    for command in READERS.values():
        sentence = refused(fairmargin(*command(run)))
        assert str(path.relative_to(run)) in sentence
        assert "again" in sentence


@pytest.mark.parametrize("content", BROKEN)
def test_a_damaged_result_is_named_whatever_its_checksum(run, content):
    (path,) = result_files(run)
    name = str(path.relative_to(run))
    for text in (content, stamped(content) if content not in ("", "{") else content):
        path.write_text(text)
        seal(run, [name])
        for command in READERS.values():
            assert f"{name} is damaged" in refused(fairmargin(*command(run)))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no parquet",
        pytest.param(b"PAR1" + bytes(50) + b"PAR1"),
    ],
    ids=["empty", "no parquet", "hollow parquet"],
)
def test_damaged_samples_are_named_by_the_commands_that_read_them(run, content):
    (run / "samples.parquet").write_bytes(content)
    for command in ("power", "compare"):
        assert "samples.parquet does not match its checksum" in refused(fairmargin(*READERS[command](run)))
    seal(run, ["samples.parquet"])
    for command in ("power", "compare"):
        assert "samples.parquet is damaged" in refused(fairmargin(*READERS[command](run)))


@pytest.mark.parametrize("command", ["compare", pytest.param("power")])
def test_samples_of_another_run_do_not_fit(run, command):
    frame = pd.read_parquet(run / "samples.parquet")
    frame.iloc[:-5].to_parquet(run / "samples.parquet")
    seal(run, ["samples.parquet"])
    sentence = refused(fairmargin(*READERS[command](run)))
    assert "360" in sentence
    assert "355" in sentence


def damage_shard(run: Path) -> Path:
    (shard,) = run.glob("shards/??/*.parquet")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    return shard


def test_a_damaged_shard_is_set_aside_and_measured_anew(files, run):
    before, shard = contents_of(run), damage_shard(run)
    found = json_of(fairmargin(*people_audit(files, "--group", "sex", "--out", run, "--json")))
    assert (found["measured_shards"], found["reused_shards"]) == (1, 0)
    assert contents_of(run) == before
    assert shard.with_name(shard.name + ".corrupt").is_file()


def test_a_damaged_shard_is_named_by_the_commands_that_read_it(run):
    shard = damage_shard(run)
    for command in ("power", "compare"):
        sentence = refused(fairmargin(*READERS[command](run)))
        assert f"{shard} is damaged" in sentence
        assert "run the audit again" in sentence


def test_a_missing_shard_is_named(run):
    (shard,) = run.glob("shards/??/*.parquet")
    shard.unlink()
    assert f"has no shard {shard.stem}" in refused(fairmargin("power", run))


# Strange, but fine


def audit_of(folder: Path, column: str, values) -> dict:
    write_people(folder / "people.csv", people().assign(**{column: values}))
    write_model(folder / "model.npz", folder / "people.csv")
    found = json_of(fairmargin(*people_audit(folder, "--group", column, "--out", folder / "run", "--json")))
    return {row["group"]: row for row in found["audits"][0]["groups"]}


def test_a_group_of_one_sample_has_no_verdict_and_harms_no_other(tmp_path):
    rows = audit_of(tmp_path, "sex", people().sex.mask(np.arange(360) == 3, "X"))
    assert rows["X"]["verdict"] == "too few samples"
    assert rows["F"]["verdict"] == "less robust"
    for command, arguments in READERS.items():
        result = fairmargin(*arguments(tmp_path / "run"))
        assert result.exit_code == (1 if command == "gate" else 0)
        assert "nan" not in result.stdout.lower()


@pytest.mark.parametrize(
    ("values", "groups"),
    [
        (np.arange(360) % 3, ["0", "1", "2"]),
        (np.where(np.arange(360) % 2, 1.0, 2.5), ["1", "2.5"]),
        (np.arange(360) % 2 == 0, ["False", "True"]),
        (np.where(np.arange(360) % 2, "F", None), ["F", "missing"]),
        (np.array([10, 9])[np.arange(360) % 2], ["9", "10"]),
    ],
    ids=["integers", "fractions", "truths", "missing values", "numbers by size"],
)
def test_attributes_need_not_be_text(tmp_path, values, groups):
    assert list(audit_of(tmp_path, "kind", values)) == groups


def test_a_column_without_any_value_is_one_group_without_a_rest(tmp_path):
    rows = audit_of(tmp_path, "kind", np.nan)
    assert list(rows) == ["missing"]
    assert rows["missing"]["sigma"]["value"] is None
    assert "no sample outside" in rows["missing"]["sigma"]["reason"]


def test_a_partition_of_one_group_can_be_read_by_every_command(tmp_path):
    audit_of(tmp_path, "kind", np.nan)
    compared = succeeded(fairmargin("compare", tmp_path / "run", tmp_path / "run"))
    assert "nan" not in compared.stdout.lower()
    powered = fairmargin("power", tmp_path / "run")
    assert "Setting(" not in powered.stderr


HOSTILE = [
    "<script>alert(1)</script>",
    "a & b",
    '"quoted"',
    "żółć 漢字 🙂",
    "[bold]no markup[/]",
    "{{ 7 * 7 }}",
    "x" * 200,
]


def test_hostile_names_of_groups_are_names(tmp_path):
    rows = audit_of(tmp_path, "kind", np.array(HOSTILE)[np.arange(360) % len(HOSTILE)])
    assert set(rows) == set(HOSTILE)
    page = (tmp_path / "run/report.html").read_text(encoding="utf-8")
    assert "<script>alert(1)" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "{{ 7 * 7 }}" in page
    shown = succeeded(fairmargin("report", tmp_path / "run")).stdout
    assert "[bold]no markup[/]" in shown
    assert set(results_of(tmp_path / "run")[0]["groups"][0]) >= {"group", "sigma"}


def test_a_column_may_be_named_like_a_tag(tmp_path):
    name = "<script>alert(1)</script>"
    assert list(audit_of(tmp_path, name, people().sex)) == ["F", "M"]
    assert f"{name}: " not in (tmp_path / "run/report.html").read_text(encoding="utf-8")
    for command, arguments in READERS.items():
        result = fairmargin(*arguments(tmp_path / "run"))
        assert result.exit_code == (1 if command == "gate" else 0)
        assert name in result.stdout


def test_a_column_may_have_an_ampersand_in_its_name(tmp_path):
    assert list(audit_of(tmp_path, "R&D", people().sex)) == ["F", "M"]
    for command in ("power", "compare"):
        succeeded(fairmargin(*READERS[command](tmp_path / "run")))


def test_a_name_between_colons_is_no_emoji(tmp_path):
    audit_of(tmp_path, "kind", np.where(people().sex == "F", ":smile:", "M"))
    assert ":smile:" in succeeded(fairmargin("report", tmp_path / "run")).stdout


def test_a_name_cannot_steer_the_terminal(tmp_path):
    audit_of(tmp_path, "kind", np.where(people().sex == "F", "\x1b[2Jcleared", "M"))
    assert "\x1b" not in succeeded(fairmargin("report", tmp_path / "run")).stdout


def test_a_group_that_is_asked_for_twice_is_audited_once(files, tmp_path):
    found = json_of(fairmargin(*people_audit(files, *["--group", "sex"] * 2, "--out", tmp_path / "run", "--json")))
    assert len(found["audits"]) == 1
