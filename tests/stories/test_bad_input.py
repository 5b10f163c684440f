"""Bad input is refused with one sentence and exit code 2, never with a traceback.

The tables in `tests/spec/refusals` hold what the Python API refuses. Here is what belongs to the command line: how
options are spelled in a message, that nothing is written, and how every command reads a damaged run.
"""

import json
import pickle
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
    succeeded,
    write_distances,
    write_images,
    write_model,
    write_people,
)

PEOPLE = f"--model model.npz --data people.csv --label {LABEL} --features age,income,score --group sex"
IMAGES = "--model reader.npz --data images.npz --group camera"
TABLE = "--distances table.csv --group sex"

# Options after `fairmargin audit --out run`, and the words that the message must contain.
REFUSED = [
    ("", "What to measure is missing: give --model with --data, or --distances"),
    ("--model model.npz", "give --data"),
    ("--data people.csv", "give --model"),
    (f"{PEOPLE} --distances table.csv", "--distances goes without --model and --data: give either; or a model"),
    (f"{TABLE} --estimator exact_linear", "--estimator goes with --model with --data"),
    (f"{TABLE} --adequacy", "--adequacy goes with --model with --data"),
    (f"{PEOPLE} --bound upper", "--bound goes with --distances"),
    (f"{PEOPLE} --id person", "--id goes with --distances"),
    (PEOPLE.replace("people.csv", "peeple"), "Unknown dataset 'peeple'; digits; with its ending"),
    (PEOPLE.replace("age,income,score", "age,income"), "The model takes 3 features; has 2: age, income; --features"),
    (PEOPLE.replace("model.npz", "narrow.npz"), "The model takes 2 features; has 3"),
    (PEOPLE.replace("model.npz", "exits.py:model"), "exits.py; SystemExit"),
    ("--model reader.npz --data digits --bounds 0,2", "digits; bounds"),
    (f"{PEOPLE} --bounds 1,0", "--bounds must be two numbers, low and high, in this order; given '1,0'"),
    (f"{PEOPLE} --by nope --per-group 5", "--by names a column that is not there: people.csv has no column 'nope'"),
    (f"{PEOPLE} --control nope", "--control names a column that is not there; no column 'nope'"),
    (f"{PEOPLE} --cross sex,nope", "--cross names a column that is not there; no column 'nope'"),
    (PEOPLE.replace("--group sex", "--group nope"), "--group names a column that is not there; no column 'nope'"),
    (f"{TABLE} --control nope", "--control names a column that is not there: there is no column 'nope' in table.csv"),
    (f"{PEOPLE} --cluster persn", "--cluster; no column 'persn'; Did you mean 'person'?"),
    (f"{PEOPLE} --cross race", "--cross must name two or more different columns; given 'race'"),
    (f"{PEOPLE} --merge-below -3", "--merge-below; -3"),
    (f"{PEOPLE} --seed 1180591620717411303424", "--seed must be a whole number below 2**63; 1180591620717411303424"),
    (f"{PEOPLE} --smallest-group {10**20}", "--smallest-group must be a whole number below 2**63"),
    (f"{PEOPLE} --up-to 1e300", "--up-to must be a radius above 0 and below 2**63, or inf"),
    (PEOPLE.replace("people.csv", "x" * 300), "--data is too long for the name of a file"),
    (TABLE.replace("table.csv", "x" * 300), "--distances is too long for the name of a file"),
    (f"{PEOPLE} --estimator exact_liner", "Unknown estimator `exact_liner`; Did you mean; exact_linear"),
    (f"{PEOPLE} --engine proceses", "Unknown engine; Did you mean 'processes'?"),
    (f"{PEOPLE} --scale sdt", "--scale must be one of std, none; given 'sdt'"),
    (f"{PEOPLE} --confidence 2", "--confidence must lie in; given '2'"),
    (f"{PEOPLE} --seed -1", "--seed"),
    (f"{IMAGES} --bounds 1", "--bounds must be two numbers, low and high; given '1'"),
    (f"{IMAGES} --bounds nan,1", "NaN"),
    (TABLE.replace("--group sex", ""), "--group is missing; there is no column 'class'; sex, site"),
    (f"{TABLE} --distance-column distanc", "no column 'distanc'; Did you mean 'distance'?"),
    (f"{TABLE} --correct-column corect", "no column 'corect'; Did you mean 'correct'?"),
]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write valid files, and three that do not fit them."""
    folder = tmp_path_factory.mktemp("files")
    write_people(folder / "people.csv")
    write_model(folder / "model.npz", folder / "people.csv")
    write_images(folder)
    write_distances(folder / "table.csv")
    write_distances(folder / "unreached.csv", distances().assign(distance=np.inf, correct=True))
    np.savez(folder / "narrow.npz", weight=np.ones((2, 2)), bias=np.zeros(2), classes=["no", "yes"])
    (folder / "model.pkl").write_bytes(pickle.dumps(fitted(folder / "people.csv")))
    (folder / "exits.py").write_text("import sys\nsys.exit(0)\n")
    return folder


@pytest.mark.parametrize(("typed", "words"), REFUSED, ids=lambda value: value[-60:].strip())
def test_bad_input_is_refused_with_one_sentence(files, tmp_path, monkeypatch, typed, words):
    monkeypatch.chdir(files)
    sentence = refused(fairmargin("audit", "--out", tmp_path / "run", "--resamples", "200", *typed.split()))
    for part in words.split("; "):
        assert part in sentence
    assert not (tmp_path / "run").exists()  # nothing is written


def test_valid_files_are_accepted(files, tmp_path, monkeypatch):
    monkeypatch.chdir(files)
    trusted = f"{PEOPLE.replace('model.npz', 'model.pkl')} --trust-model"
    for number, typed in enumerate((PEOPLE, f"{IMAGES} --bounds 0,1", TABLE, trusted)):
        succeeded(fairmargin("audit", "--out", tmp_path / f"{number}", *typed.split(), *QUICK))


def test_distances_of_which_none_is_finite_need_a_cap(files, tmp_path):
    arguments = ["audit", "--out", tmp_path / "run", "--distances", files / "unreached.csv", "--group", "sex", *QUICK]
    sentence = refused(fairmargin(*arguments))
    assert "300 of 300 samples have no finite distance" in sentence
    assert "--up-to" in sentence
    succeeded(fairmargin(*arguments, "--up-to", "2"))


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
def test_a_command_that_cannot_be_parsed_exits_with_2(typed):
    result = fairmargin(*typed.split())
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error" in result.stderr
    assert "Traceback" not in result.stderr


def test_a_power_that_is_no_probability_is_refused():
    assert "--power must lie between 0 and 1" in refused(fairmargin("power", "--power", 2, "--size", 9, "--rest", 90))


@pytest.mark.parametrize("below", ["", "/run"])
@pytest.mark.parametrize("command", [f"audit {PEOPLE} --resamples 200", "demo"], ids=["audit", "demo"])
def test_a_folder_that_cannot_be_created_is_refused(files, tmp_path, monkeypatch, command, below):
    monkeypatch.chdir(files)
    (tmp_path / "file").write_text("in the way")
    sentence = refused(fairmargin(*command.split(), "--out", f"{tmp_path / 'file'}{below}"))
    assert "file" in sentence
    assert (tmp_path / "file").read_text() == "in the way"


# Runs that are incomplete or damaged


@pytest.fixture(scope="module")
def complete(files, tmp_path_factory):
    """Return the folder of a complete run."""
    run = tmp_path_factory.mktemp("complete") / "run"
    succeeded(fairmargin(*people_audit(files, "--group", "sex", "--out", run)))
    return run


@pytest.fixture
def run(complete, tmp_path):
    """Return a copy of a complete run, which a test may damage."""
    return shutil.copytree(complete, tmp_path / "run")


READERS = {
    "report": lambda run: ["report", run],
    "gate": lambda run: ["gate", run, "--if", "size > 1"],
    "power": lambda run: ["power", run],
    "compare": lambda run: ["compare", run, run],
}
every_reader = pytest.mark.parametrize("command", READERS.values(), ids=READERS)


@every_reader
def test_a_folder_without_a_run_is_refused(tmp_path, command):
    assert "no folder" in refused(fairmargin(*command(tmp_path / "nowhere")))
    assert "without a run" in refused(fairmargin(*command(tmp_path)))


@every_reader
@pytest.mark.parametrize("begun", [True, False])
def test_a_run_that_did_not_finish_is_refused(run, command, begun):
    content = record_of(run)
    (run / "record.json").unlink()
    if begun:
        (run / "record.json").write_text(json.dumps(content | {"status": "running", "results": []}))
    sentence = refused(fairmargin(*command(run)))
    assert "did not finish" in sentence
    assert "again" in sentence


def test_a_store_of_another_format_is_refused_and_left_unchanged(files, run):
    (run / "store.json").write_text('{"format": 99}')
    audit = people_audit(files, "--group", "sex", "--out", run)
    for arguments in (audit, *(command(run) for command in READERS.values())):
        assert "has format 99; this version of Fairmargin reads format 1" in refused(fairmargin(*arguments))
    assert (run / "store.json").read_text() == '{"format": 99}'


@pytest.mark.parametrize("sealed", [False, True], ids=["", "with its checksum"])
@pytest.mark.parametrize("kind", ["record", "result"])
@pytest.mark.parametrize("content", ["", "{", "null", "5", '"text"', "[1]", "{}"])
def test_a_damaged_file_is_named_by_every_command_that_reads_it(run, kind, content, sealed):
    path = run / "record.json" if kind == "record" else result_files(run)[0]
    name = str(path.relative_to(run))
    path.write_text(stamped(content) if sealed and kind == "result" and content not in ("", "{") else content)
    if sealed:
        seal(run, [name])
    for command in READERS.values():
        sentence = refused(fairmargin(*command(run)))
        assert name in sentence
        assert "again" in sentence


@pytest.mark.parametrize("content", [b"", b"no parquet", b"PAR1" + bytes(50) + b"PAR1"])
def test_damaged_samples_are_named_by_the_commands_that_read_them(run, content):
    (run / "samples.parquet").write_bytes(content)
    for words in ("does not match its checksum", "is damaged"):
        for command in ("power", "compare"):
            assert f"samples.parquet {words}" in refused(fairmargin(*READERS[command](run)))
        seal(run, ["samples.parquet"])


def test_samples_of_another_run_are_refused(run):
    pd.read_parquet(run / "samples.parquet").iloc[:-5].to_parquet(run / "samples.parquet")
    seal(run, ["samples.parquet"])
    for command in ("power", "compare"):
        sentence = refused(fairmargin(*READERS[command](run)))
        assert "360" in sentence
        assert "355" in sentence


def test_an_audit_renames_a_damaged_shard_and_measures_it_again(files, run):
    (shard,) = run.glob("shards/??/*.parquet")
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 0xFF
    shard.write_bytes(content)
    before = contents_of(run)
    found = json_of(fairmargin(*people_audit(files, "--group", "sex", "--out", run, "--json")))
    assert (found["measured_shards"], found["reused_shards"]) == (1, 0)
    assert contents_of(run) == before
    assert shard.with_name(shard.name + ".corrupt").is_file()


# Unusual input that is accepted


def groups_of(folder: Path, column: str, values) -> dict:
    """Audit the people with these values in a column, and return the rows of the groups."""
    write_people(folder / "people.csv", people().assign(**{column: values}))
    write_model(folder / "model.npz", folder / "people.csv")
    found = json_of(fairmargin(*people_audit(folder, "--group", column, "--out", folder / "run", "--json")))
    return {row["group"]: row for row in found["audits"][0]["groups"]}


def test_a_group_of_one_sample_has_no_verdict_and_changes_no_other(tmp_path):
    rows = groups_of(tmp_path, "sex", people().sex.mask(np.arange(360) == 3, "X"))
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
    ids=["integers", "fractions", "booleans", "missing values", "numbers by size"],
)
def test_attributes_may_have_any_type(tmp_path, values, groups):
    assert list(groups_of(tmp_path, "kind", values)) == groups


def test_a_column_without_values_is_one_group_which_every_command_can_read(tmp_path):
    rows = groups_of(tmp_path, "kind", np.nan)
    assert list(rows) == ["missing"]
    assert rows["missing"]["sigma"]["value"] is None
    assert "no sample outside" in rows["missing"]["sigma"]["reason"]
    compared = succeeded(fairmargin("compare", tmp_path / "run", tmp_path / "run"))
    assert "nan" not in compared.stdout.lower()
    assert "Setting(" not in fairmargin("power", tmp_path / "run").stderr


def test_a_group_that_is_given_twice_is_audited_once(files, tmp_path):
    found = json_of(fairmargin(*people_audit(files, *["--group", "sex"] * 2, "--out", tmp_path / "run", "--json")))
    assert len(found["audits"]) == 1


@pytest.mark.parametrize("plan", [[], ["--plan"]])
def test_the_name_of_a_run_that_no_folder_can_have_is_refused(plan):
    said = refused(fairmargin("audit", "--data", "digits", "--model", "arch:logistic", "--out", "x" * 300, *plan))
    assert said == "--out is too long for the name of a file. Choose a shorter one."
    assert "Cannot read x" in refused(fairmargin("report", "x" * 300))
