"""`fairmargin list`: list the entries of the catalogs."""

from collections.abc import Mapping
from dataclasses import fields
from enum import Enum, StrEnum
from typing import Annotated, Any

import typer
from rich.table import Table

from fairmargin.cli.console import output, print_json, shown
from fairmargin.cli.options import Json


class What(StrEnum):
    """The catalogs that can be listed."""

    estimators = "estimators"
    attacks = "attacks"
    methods = "methods"
    datasets = "datasets"
    architectures = "architectures"
    engines = "engines"
    norms = "norms"


def show(
    what: Annotated[What | None, typer.Argument(help="Which catalog; all of them if left out.")] = None,
    json_: Json = False,
) -> None:
    """List estimators, attacks, methods, datasets, architectures, engines and norms, with their options.

    Example:

    fairmargin list estimators
    """
    chosen = [what] if what else list(What)
    found = {kind.value: _catalog(kind) for kind in chosen}
    if json_:
        print_json(found)
        return
    for kind, rows in found.items():
        table = Table(title=kind, title_justify="left", title_style="bold", show_header=False)
        for name, about in rows.items():
            table.add_row(shown(name), shown(about))
        output.print(table)


def _described(catalog: Mapping[str, Any]) -> dict[str, str]:
    rows = {}
    for name, entry in catalog.items():
        first = (entry.__doc__ or "").strip().splitlines()
        options = _options(entry)
        norms = sorted(norm.value for norm in getattr(entry, "norms", ()))
        about = [first[0] if first else "", f"Norms: {', '.join(norms)}." if norms else ""]
        rows[name] = " ".join(filter(None, [*about, f"Options: {options}." if options else ""]))
    return rows


def _options(entry: Any) -> str:
    if not hasattr(entry, "__dataclass_fields__"):
        return ""
    return ", ".join(f"{f.name}={f.default.value if isinstance(f.default, Enum) else f.default}" for f in fields(entry))


def _catalog(kind: What) -> dict[str, str]:
    # Imported one by one, so that only the requested catalogs are loaded.
    if kind is What.norms:
        from fairmargin.core.norm import Norm

        return {norm.value: f"{norm}, the dual of {norm.dual}" for norm in Norm}
    if kind is What.datasets:
        from fairmargin.data.catalog import DATASETS

        return {name: entry.card.title for name, entry in DATASETS.items()}
    if kind is What.architectures:
        from fairmargin.models.architectures.catalog import ARCHITECTURES

        return {name: architecture.title for name, architecture in ARCHITECTURES.items()}
    if kind is What.estimators:
        from fairmargin.distances.catalog import ESTIMATORS

        return _described(ESTIMATORS)
    if kind is What.attacks:
        from fairmargin.attacks.catalog import ATTACKS

        return _described(ATTACKS)
    if kind is What.methods:
        from fairmargin.training.catalog import METHODS

        return _described(METHODS)
    from fairmargin.engine.catalog import ENGINES

    return _described(ENGINES)
