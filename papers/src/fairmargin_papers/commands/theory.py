"""`fairmargin theory`: closed forms at given parameters, and the statements of the papers that hold there."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fairmargin.cli.console import output, plain_table, print_json, shown
from fairmargin.cli.options import Json
from fairmargin.core.radius import parse_radius
from fairmargin.errors import InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fairmargin_papers.theory.gaussian_pair import GaussianPair
    from fairmargin_papers.theory.statement import Statement

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Two normal classes and a linear classifier, where fairness and robustness can be calculated: thresholds, "
    "errors, and which theorems of the papers hold at these parameters.\n\n`docs/theory.md` explains.",
)

Out = Annotated[Path, typer.Option(help="Folder in which the figures are written (SVG).")]
Prior = Annotated[float, typer.Option(help="The share of class +, between 0 and 1.")]
Rows = dict[str, dict[str, float]]
_COLOURED = {"holds": "[green]holds[/]", "refuted": "[bold red]refuted[/]", "premise fails": "[dim]premise fails[/]"}


@app.command("tran")
def tran(
    low: Annotated[float, typer.Option(help="The mean of class −.")] = 0.0,
    high: Annotated[float, typer.Option(help="The mean of class +.")] = 4.0,
    spread: Annotated[float, typer.Option(help="The standard deviation of class +; that of class − is 1.")] = 1.5,
    prior: Prior = 0.5,
    radius: Annotated[str, typer.Option(help="How far an attacker moves a sample.")] = "0.5",
    out: Out = Path("fairmargin-theory"),
    json_: Json = False,
) -> None:
    """Show a fair, a natural and a robust threshold between two classes on a line (Tran et al.).

    Examples:

    [dim]# inside the theorem[/]
    fairmargin theory tran --low 0 --high 4 --spread 1.5 --radius 0.5

    [dim]# the paper's Figure 2, which lies outside of it[/]
    fairmargin theory tran --low -1 --high 1 --spread 10 --radius 0.1
    """
    from fairmargin_papers.shared.theory_pictures import LOSSES, pair_densities, pair_losses, thresholds_of
    from fairmargin_papers.theory.gaussian_pair import GaussianPair

    parameters = {"low": low, "high": high, "spread": spread, "prior": prior}
    pair, length = GaussianPair(**parameters), _radius(radius, "radius")
    statements = pair.statements(length)
    rows = {name: _at(pair, at, length) for name, at in thresholds_of(pair, length).items()}
    losses = {loss: _float(pair.threshold_under(loss)) for loss in LOSSES}
    files = _write(out, {"tran-densities": pair_densities(pair, length), "tran-losses": pair_losses(pair, length)})
    if json_:
        given = {**parameters, "radius": length}
        return _print_json({"parameters": given, "thresholds": rows, "threshold_under": losses}, statements, files)
    _print_rows(f"μ = {low:g}, {high:g}; K = {spread:g}; share of + {prior:g}; ε = {length:g}", rows)
    under = plain_table("The best threshold under other losses", left=("loss",))("loss", "threshold", "robust error")
    for loss, at in losses.items():
        under.add_row(loss.replace("_", "/"), _number(at), _number(_at(pair, at, length)["robust error"]))
    output.print(under)
    return _print_statements(statements, files)


@app.command("ma")
def ma(
    mean_plus: Annotated[float, typer.Option(help="Class + is centred at this in every feature.")] = 1.0,
    mean_minus: Annotated[float, typer.Option(help="Class − is centred at minus this in every feature.")] = 1.0,
    std_plus: Annotated[float, typer.Option(help="The standard deviation of class +.")] = 1.0,
    std_minus: Annotated[float, typer.Option(help="The standard deviation of class −.")] = 2.0,
    dim: Annotated[int, typer.Option(help="The number of features.")] = 10,
    prior: Prior = 0.5,
    train_radius: Annotated[str, typer.Option(help="The L∞ radius that the classifier is trained with.")] = "0.2",
    test_radius: Annotated[str, typer.Option(help="The L∞ radius that it is attacked with.")] = "0.4",
    out: Out = Path("fairmargin-theory"),
    json_: Json = False,
) -> None:
    """Show adversarial training of a linear classifier of two classes in many dimensions (Ma et al.).

    Examples:

    [dim]# where Theorem 5.5 fails[/]
    fairmargin theory ma --std-plus 1 --std-minus 2 --dim 10 --train-radius 0.2 --test-radius 0.4

    [dim]# equal variances, more of class +[/]
    fairmargin theory ma --std-plus 1 --std-minus 1 --prior 0.7
    """
    from fairmargin_papers.shared.theory_pictures import classes_by_training
    from fairmargin_papers.theory.gaussian_classes import GaussianClasses

    parameters = {"mean_plus": mean_plus, "mean_minus": mean_minus, "std_plus": std_plus, "std_minus": std_minus}
    classes = GaussianClasses(**parameters, dim=dim, prior=prior)
    trained, tested = _radius(train_radius, "train_radius"), _radius(test_radius, "test_radius")
    statements = classes.statements(trained, tested)
    rows = {}
    for name, radius in (("natural training", 0.0), (f"trained with ε = {trained:g}", trained)):
        plus, minus = classes.class_errors(radius, tested)
        rows[name] = {
            "bias b": _float(classes.bias(radius)),
            "error of +": _float(plus),
            "error of −": _float(minus),
            "error of all": _float(classes.risk(radius, tested)),
            "VCRA": _float(classes.vcra(radius, tested)),
            "VCA": _float(classes.vca(radius)),
        }
    files = _write(out, {"ma-vcra": classes_by_training(classes, tested, trained)})
    if json_:
        given = {**parameters, "dim": dim, "prior": prior, "train_radius": trained, "test_radius": tested}
        return _print_json({"parameters": given, "classifiers": rows}, statements, files)
    means, stds = f"μ = {mean_plus:g}, {mean_minus:g}", f"σ = {std_plus:g}, {std_minus:g}"
    _print_rows(f"{means}; {stds}; d = {dim}; attacked with ε = {tested:g}", rows)
    return _print_statements(statements, files)


def _radius(text: str, option: str) -> float:
    """Return a radius, and name the option in errors about it."""
    try:
        return parse_radius(text)
    except InputError as error:
        raise InputError(error.problem, field=option, given=error.given) from None


def _at(pair: "GaussianPair", at: float, radius: float) -> dict[str, float]:
    """Return the errors and the mean distance at a threshold."""
    plus, minus = pair.error_by_class(at)
    return {
        "threshold": at,
        "error of +": _float(plus),
        "error of −": _float(minus),
        "natural error": _float(pair.natural_error(at)),
        "boundary error": _float(pair.boundary_error(at, radius)),
        "robust error": _float(pair.robust_error(at, radius)),
        "mean distance": _float(pair.mean_distance(at)),
    }


def _float(value: Any) -> float:
    return float(np.asarray(value))


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "∞" if value > 0 else "−∞"
    return (f"{value:.4f}" if abs(value) >= 0.001 or not value else f"{value:.2e}").replace("-", "−")


def _write(out: Path, figures: "dict[str, Figure]") -> list[Path]:
    from fairmargin.store.atomic import cannot_write
    from fairmargin_papers.shared.pictures import write_picture

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from error
    return [write_picture(out / f"{name}.svg", figure) for name, figure in figures.items()]


def _print_json(numbers: dict[str, Any], statements: "Sequence[Statement]", files: list[Path]) -> None:
    found = [
        {
            "name": each.name,
            "premise": each.premise,
            "conclusion": each.conclusion,
            "premise_holds": bool(each.premise_holds),
            "conclusion_holds": bool(each.conclusion_holds),
            "verdict": each.verdict,
            "remark": each.remark,
        }
        for each in statements
    ]
    print_json({**_finite(numbers), "statements": found, "figures": [str(file) for file in files]})


def _finite(value: Any) -> Any:
    """Return a value with infinite numbers as text, because JSON has none."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _print_rows(title: str, rows: Rows) -> None:
    table = plain_table(title.replace("-", "−"), left=("",))("", *next(iter(rows.values())))
    for name, row in rows.items():
        table.add_row(name, *map(_number, row.values()))
    output.print(table)


def _print_statements(statements: "Sequence[Statement]", files: list[Path]) -> None:
    columns = ("statement", "says", "here")
    title = "What the paper says, at these parameters"
    table = plain_table(title, left=columns, wrap=("statement", "says"))(*columns)
    for each in statements:
        table.add_row(shown(each.name), shown(each.conclusion), _COLOURED[each.verdict])
    output.print(table)
    for each in statements:
        if each.remark and each.verdict == "refuted":
            output.print(f"{shown(each.name)}: {shown(each.remark)}", soft_wrap=True)
    output.print("Figures: " + ", ".join(shown(str(file)) for file in files), soft_wrap=True)
