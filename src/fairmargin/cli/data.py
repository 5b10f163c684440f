"""`fairmargin data`: describe a dataset, its files and its samples."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from fairmargin.cli.console import output, print_json, shown
from fairmargin.cli.listing import What, show
from fairmargin.cli.options import Json
from fairmargin.cli.progress import progress
from fairmargin.core.suggestion import suggest
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from fairmargin.data.card import Card, OfficialFile
    from fairmargin.data.dataset import Dataset

_SHOWN = 20  # groups of an attribute that a terminal lists; --json has all of them
_MOST_GROUPS = 120


def data(
    name: Annotated[str | None, typer.Argument(help="A dataset; all of them are listed if left out.")] = None,
    root: Annotated[
        Path | None,
        typer.Option(help="The folder or archive with its files; the user's cache folder if left out."),
    ] = None,
    split: Annotated[str, typer.Option(help="Which samples to count: all, train or test.")] = "all",
    task: Annotated[str | None, typer.Option(help="What is to be predicted, if there is a choice.")] = None,
    download: Annotated[
        bool, typer.Option("--download", help="First fetch the files, where their makers let one and the network does.")
    ] = False,
    json_: Json = False,
) -> None:
    """Show what one should know of a dataset: classes, groups, split, licence, ethics, and where its files belong.

    If the files are found, samples, classes and groups are counted too. If they are not found, the command says which
    file to put where and exits with 0; it fails only if a given --root does not contain them.

    Examples:

    [dim]# all datasets, one line each[/]
    fairmargin data

    fairmargin data digits

    fairmargin data utkface --root ~/faces/UTKFace.zip --task race --split test

    fairmargin data adult --download
    """
    if name is None:
        if root is not None or task is not None or download or split != "all":
            raise InputError("Which dataset? Name it, for instance `fairmargin data adult`.")
        show(What.datasets, json_)
        return
    card = _card(name)
    if download:
        root = _downloaded(name, card, root, quiet=json_)
    dataset, absence = _loaded(name, card, root, split, task, quiet=json_)
    if json_:
        print_json(_as_json(name, card, root, dataset, absence))
        return
    output.print(_grid((("dataset", name), *_rows(name, card, root))))
    output.print()
    if dataset is None:
        output.print(shown(absence))
        return
    shape = " × ".join(f"{side:,}" for side in dataset.x.shape[1:])
    counts = ((what, _counts_text(groups)) for what, groups in _counts(dataset).items())
    output.print(_grid((("samples", f"{len(dataset):,} of {shape} numbers (split: {split})"), *counts)))
    for note in dataset.notes:
        output.print(f"[yellow]Note:[/] {shown(note)}")


def _card(name: str) -> "Card":
    from fairmargin.data.catalog import DATASETS

    if name not in DATASETS:
        raise InputError(f"Unknown dataset {name!r}. {suggest(name, DATASETS)}")
    return DATASETS[name].card


def _downloaded(name: str, card: "Card", root: Path | None, *, quiet: bool) -> Path | None:
    """Return the folder of the downloaded files; None for a dataset without files."""
    if not card.files:
        return root
    from fairmargin.data.fetch.download import download
    from fairmargin.data.fetch.sources import data_folder

    folder = data_folder(name) if root is None else root
    with progress(quiet) as report:
        download(card, folder, report)
    return folder


def _loaded(
    name: str, card: "Card", root: Path | None, split: str, task: str | None, *, quiet: bool
) -> "tuple[Dataset | None, str]":
    """Return the dataset, or a sentence that names the missing files and their place."""
    from fairmargin.data.card import checked_request
    from fairmargin.data.catalog import load
    from fairmargin.data.fetch.sources import data_folder

    checked_request(name, card, split, root, task, None, None)  # refuses wrong options even without the files
    at_hand = root is not None or not card.files or _holds_files(data_folder(name))
    try:
        with progress(quiet) as report:
            return load(name, root=root, split=split, task=task, progress=report), ""
    except InputError as error:
        if at_hand:  # then something is wrong with them
            raise
        return None, str(error)


def _holds_files(folder: Path) -> bool:
    """Return whether the folder holds files other than those of an interrupted download."""
    return folder.is_dir() and any(not f.name.startswith(".") and f.suffix != ".part" for f in folder.iterdir())


def _rows(name: str, card: "Card", root: Path | None) -> Iterator[tuple[str, str]]:
    yield "title", card.title
    yield "classes", card.classes
    if card.tasks:
        yield "tasks", f"{', '.join(card.tasks)} (the first unless --task says otherwise)"
    yield "groups", ", ".join(card.groups)
    yield "split", card.split
    if card.files:
        yield "files", "\n".join(map(_file_text, card.files))
        yield "looked for in", str(_place(name, root))
    else:
        yield "files", "none needed"
    yield "licence", card.licence
    yield "ethics", card.ethics
    yield "citation", card.citation


def _file_text(file: "OfficialFile") -> str:
    sums = [f"{kind} {value}" for kind, value in (("md5", file.md5), ("sha256", file.sha256)) if value]
    return "\n  ".join((file.name, file.url or "no public address: see the citation", *sums))


def _place(name: str, root: Path | None) -> Path:
    from fairmargin.data.fetch.sources import data_folder

    return data_folder(name) if root is None else root


def _grid(rows: "tuple[tuple[str, str], ...]") -> Table:
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for what, text in rows:
        # Line by line: only line breaks of this module are kept, those in texts from data are escaped.
        grid.add_row(shown(what), "\n".join(map(shown, text.split("\n"))))
    return grid


def _counts(dataset: "Dataset") -> dict[str, dict[str, int]]:
    """Count the samples of each class and of each group of every attribute; those without samples are left out."""
    partitions = {what: dataset.partition(what) for what in ("class", *dataset.attributes)}
    counts = {what: dict(zip(p.labels, p.sizes.tolist(), strict=True)) for what, p in partitions.items()}
    if dataset.class_names:  # in the order of their numbers, which is that of a network's outputs
        counts["class"] = {name: counts["class"][name] for name in dataset.class_names if name in counts["class"]}
    return counts


def _counts_text(groups: Mapping[str, int]) -> str:
    if len(groups) > _MOST_GROUPS:
        return f"{len(groups):,} different values"  # ids of people, say
    listed = [f"{group}: {size:,}" for group, size in list(groups.items())[:_SHOWN]]
    more = len(groups) - _SHOWN
    return ", ".join(listed) + (f" and {more:,} more" if more > 0 else "")


def _as_json(name: str, card: "Card", root: Path | None, dataset: "Dataset | None", absence: str) -> dict[str, Any]:
    found = None
    if dataset is not None:
        counts = _counts(dataset)
        found = {
            "samples": len(dataset),
            "shape": [int(side) for side in dataset.x.shape[1:]],
            "classes": counts["class"],
            "groups": {attribute: counts[attribute] for attribute in dataset.attributes},
            "fingerprint": dataset.fingerprint,
            "notes": list(dataset.notes),
        }
    place = str(_place(name, root)) if card.files else None
    return {"name": name, **asdict(card), "looked_for_in": place, "found": found, "absent": absence or None}
