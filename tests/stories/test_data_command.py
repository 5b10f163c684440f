"""`fairmargin data`: what a dataset is, where its files belong, and what they contain."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fairmargin.data.catalog import DATASETS
from fairmargin.data.fetch.cache import FOLDER_VARIABLE
from fairmargin.errors import InputError
from tests.data.official_layouts import write_adult, write_german
from tests.stories.examples import fairmargin, json_of, refused, succeeded


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use an empty cache folder."""
    folder = tmp_path / "cache"
    monkeypatch.setenv(FOLDER_VARIABLE, str(folder))
    return folder


@pytest.fixture
def downloads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Replace the download by one that writes German credit; return the folders it was called with."""
    folders: list[Path] = []

    def download(card: Any, folder: Path, progress: Any) -> None:
        if card is not DATASETS["german-credit"].card:
            raise InputError("The network is down. Put the files there yourself.")
        folders.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        write_german(folder)

    network = ModuleType("fairmargin.data.fetch.download")
    network.download = download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "fairmargin.data.fetch.download", network)
    return folders


def words(text: str) -> str:
    return " ".join(text.split())


def test_without_a_name_every_dataset_is_listed_with_its_title() -> None:
    text = words(succeeded(fairmargin("data")).stdout)
    assert all(name in text and words(entry.card.title) in text for name, entry in DATASETS.items())
    assert json_of(fairmargin("data", "--json")) == json_of(fairmargin("list", "datasets", "--json"))


@pytest.mark.parametrize("name", sorted(DATASETS))
def test_a_card_is_shown_without_the_files(name: str) -> None:
    card = DATASETS[name].card
    known = (card.title, card.classes, card.split, card.licence, card.ethics, card.citation, *card.groups, *card.tasks)
    of_files = (word for file in card.files for word in (file.name, file.url, file.md5, file.sha256))
    text = "".join(succeeded(fairmargin("data", name)).stdout.split())  # wherever lines were broken
    for sentence in (*known, *of_files):
        assert "".join(sentence.split()) in text


def test_embedded_data_are_counted_by_class_and_group() -> None:
    text = words(succeeded(fairmargin("data", "toy-round-cross", "--split", "test")).stdout)
    assert "files none needed" in text
    assert "samples 40 of 2 numbers (split: test)" in text
    assert "class blue: 20, green: 20 shape cross: 20, round: 20" in text


def test_missing_files_are_no_error_and_the_output_says_where_they_belong(cache: Path) -> None:
    result = fairmargin("data", "adult", "--json")
    found = json_of(result)
    folder = str(cache / "files" / "adult")
    assert found["found"] is None
    assert found["looked_for_in"] == folder
    assert f"There is no folder {folder} with files of adult. Put adult.data, adult.test there" in found["absent"]
    text = words(succeeded(fairmargin("data", "adult")).stdout)
    assert "Put adult.data, adult.test there, or give their folder or archive with --root" in text


def test_files_in_the_cache_or_under_root_are_counted_with_notes(cache: Path, tmp_path: Path) -> None:
    usual, elsewhere = cache / "files" / "adult", tmp_path / "elsewhere"
    for folder in (usual, elsewhere):
        folder.mkdir(parents=True)
        write_adult(folder)
    by_default, by_root = (json_of(fairmargin("data", "adult", "--json", *m)) for m in ((), ("--root", elsewhere)))
    assert by_default["found"] == by_root["found"]
    assert by_root["looked_for_in"] == str(elsewhere)
    assert by_root["found"]["samples"] == 5
    assert by_root["found"]["classes"] == {"<=50K": 3, ">50K": 2}
    assert by_root["found"]["groups"]["sex"] == {"Female": 2, "Male": 3}
    assert by_root["absent"] is None
    text = words(succeeded(fairmargin("data", "adult", "--root", elsewhere, "--split", "train")).stdout)
    assert "samples 3 of" in text
    assert "Note: Distances are in standard deviations" in text


def test_a_text_from_a_file_is_escaped_in_the_terminal(tmp_path: Path) -> None:
    write_adult(tmp_path)
    path = tmp_path / "adult.data"
    path.write_text(path.read_text(encoding="utf-8").replace("Black", "[red]\x1b[31mB"), encoding="utf-8")
    text = succeeded(fairmargin("data", "adult", "--root", tmp_path)).stdout
    assert "[red]\\x1b[31mB: 1" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["adlut"], "Unknown dataset 'adlut'. Did you mean 'adult'?"),
        (["digits", "--split", "tset"], "Unknown split 'tset' of digits. Expected one of all, train, test."),
        (["adult", "--task", "sex"], "Dataset 'adult' has only one task"),
        (["adult", "--root", "nowhere"], "There is no file or folder nowhere"),
        (["--split", "test"], "Which dataset?"),
        (["--download"], "Which dataset?"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], sentence: str) -> None:
    assert refused(fairmargin("data", *arguments)).startswith(sentence)


def test_a_root_without_the_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    sentence = refused(fairmargin("data", "adult", "--root", tmp_path / "empty"))
    assert sentence.startswith(f"No files of adult at {tmp_path / 'empty'}. Put adult.data, adult.test there.")


def test_damaged_files_are_refused(cache: Path) -> None:
    folder = cache / "files" / "german-credit"
    folder.mkdir(parents=True)
    write_german(folder, ["A11 6"])
    assert "german.data, line 1 has 2 columns; expected 21." in refused(fairmargin("data", "german-credit"))


@pytest.mark.parametrize("root", [(), ("--root", "mine")])
def test_download_writes_the_files_to_the_cache_or_to_root_and_counts_them(
    cache: Path, downloads: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = json_of(fairmargin("data", "german-credit", "--download", *root, "--json"))
    assert [folder.resolve() for folder in downloads] == [
        tmp_path / "mine" if root else cache / "files" / "german-credit"
    ]
    assert found["found"]["samples"] == 5
    assert json_of(fairmargin("data", "german-credit", *root, "--json"))["found"] == found["found"]


def test_a_download_that_fails_is_an_error(downloads: list[Path]) -> None:
    assert refused(fairmargin("data", "adult", "--download")).startswith("The network is down.")


def test_the_remains_of_an_incomplete_download_are_not_used_as_files(cache: Path) -> None:
    folder = cache / "files" / "adult"
    folder.mkdir(parents=True)
    for name in (".download.lock", "adult.data.part"):
        (folder / name).write_bytes(b"39, State")
    assert f"No files of adult at {folder}. Put" in json_of(fairmargin("data", "adult", "--json"))["absent"]


def test_data_that_need_no_files_need_no_download(downloads: list[Path]) -> None:
    assert "600 of 2 numbers" in succeeded(fairmargin("data", "toy-three-classes", "--download")).stdout
    assert downloads == []
