"""`fairmargin columns`: a draft of rules for the columns of a table."""

from pathlib import Path
from typing import Annotated

import typer

from fairmargin.errors import ModelError


def columns(
    data: Annotated[Path, typer.Argument(help="A table: .csv, .tsv (also gzipped) or .parquet.")],
    label: Annotated[str, typer.Option(help="Column that holds the class: it has no rule.")] = "",
    model: Annotated[
        str, typer.Option(help="Only the columns that this model takes, as it reads them; see `fairmargin audit`.")
    ] = "",
    trust_model: Annotated[
        bool, typer.Option("--trust-model", help="Read model files that can run code. Only if you made them yourself.")
    ] = False,
) -> None:
    """Write a draft of rules for the columns of a table, for `fairmargin audit --columns`, to standard output.

    The rules say how far and where a value may move: unit, range, step, direction, categories. Columns that look
    sensitive are proposed as immutable: remove what you do not want. Without a file of rules, an audit takes units,
    ranges and steps from its own data or from --training-data, and only columns that define groups are immutable.

    Examples:

    fairmargin columns people.csv --label income > rules.toml

    fairmargin columns people.csv --model model.joblib --trust-model > rules.toml

    [dim]# after editing[/]
    fairmargin audit --model model.joblib --trust-model --data people.csv --label income --group sex
    --columns rules.toml --out run
    """
    from fairmargin.data.formats.files import check_columns, read_table
    from fairmargin.models.loading import load_model
    from fairmargin.models.tables.draft import draft
    from fairmargin.models.tables.reading import is_tabular, read_table_model

    table = read_table(data)
    if label:
        check_columns(data, table.columns, label=[label])
        table = table.drop(columns=label)
    known = None
    if model:
        found = load_model(model, trust=trust_model)
        if not is_tabular(found):
            raise ModelError(f"{model} is no model of scikit-learn, XGBoost or LightGBM. Leave --model out.")
        known = read_table_model(found, data=table).coding.columns
    typer.echo(draft(table, data.name, known), nl=False)
