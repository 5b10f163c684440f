"""`fairmargin theory`: the closed forms at given parameters, with which statements of the papers hold there."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from fairmargin.cli.console import output, plain_table, print_json, shown
from fairmargin.cli.options import Json
from fairmargin.core.radius import parse_radius
from fairmargin.errors import FairmarginError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from fairmargin_papers.theory.statement import Statement

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Two normal classes and a linear classifier, where fairness and robustness can be calculated: thresholds, "
    "errors, and which theorems of the papers hold at these parameters.\n\n`docs/theory.md` explains.",
)

Out = Annotated[Path, typer.Option(help="Where the figures are written (SVG).")]
Prior = Annotated[float, typer.Option(help="The share of class +, between 0 and 1.")]


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
    with _named_as_options(parameters):
        pair, length = GaussianPair(**parameters), parse_radius(radius)
    statements = pair.statements(length)
    rows = {name: _at(pair, at, length) for name, at in thresholds_of(pair, length).items()}
    losses = {loss: float(np.asarray(pair.threshold_under(loss))) for loss in LOSSES}
    files = _written(out, {"tran-densities": pair_densities(pair, length), "tran-losses": pair_losses(pair, length)})
    if json_:
        given = {**parameters, "radius": length}
        return _as_json({"parameters": given, "thresholds": rows, "threshold_under": losses}, statements, files)
    columns = list(next(iter(rows.values())))
    title = f"μ = {low:g}, {high:g}; K = {spread:g}; share of + {prior:g}; ε = {length:g}"
    table = plain_table(_minus(title), left=("",))("", *columns)
    for name, row in rows.items():
        table.add_row(name, *(_number(value) for value in row.values()))
    output.print(table)
    under = plain_table("The best threshold under other losses", left=("loss",))("loss", "threshold", "robust error")
    for loss, at in losses.items():
        under.add_row(loss.replace("_", "/"), _number(at), _number(_at(pair, at, length)["robust error"]))
    output.print(under)
    _say(statements, files)
    return None


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
    with _named_as_options([*parameters, "dim", "prior"]):
        classes = GaussianClasses(**parameters, dim=dim, prior=prior)
    trained, tested = parse_radius(train_radius), parse_radius(test_radius)
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
    files = _written(out, {"ma-vcra": classes_by_training(classes, tested, trained)})
    if json_:
        given = {**parameters, "dim": dim, "prior": prior, "train_radius": trained, "test_radius": tested}
        return _as_json({"parameters": given, "classifiers": rows}, statements, files)
    title = (
        f"μ = {mean_plus:g}, {mean_minus:g}; σ = {std_plus:g}, {std_minus:g}; d = {dim}; attacked with ε = {tested:g}"
    )
    table = plain_table(_minus(title), left=("",))("", *next(iter(rows.values())))
    for name, row in rows.items():
        table.add_row(name, *(_number(value) for value in row.values()))
    output.print(table)
    _say(statements, files)
    return None


def _at(pair: Any, at: float, radius: float) -> dict[str, float]:
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
    return _minus(f"{value:.4f}" if abs(value) >= 0.001 or not value else f"{value:.2e}")


def _minus(text: str) -> str:
    return text.replace("-", "−")


def _written(out: Path, figures: "dict[str, Figure]") -> list[Path]:
    from fairmargin.store.atomic import cannot_write
    from fairmargin_papers.shared.pictures import write_picture

    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(out, error) from error
    return [write_picture(out / f"{name}.svg", figure) for name, figure in figures.items()]


def _as_json(numbers: dict[str, Any], statements: "Sequence[Statement]", files: list[Path]) -> None:
    said = [
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
    finite = {kind: {name: _plain(value) for name, value in rows.items()} for kind, rows in numbers.items()}
    print_json({**finite, "statements": said, "figures": [str(file) for file in files]})


def _plain(value: Any) -> Any:
    """Return a value that JSON knows, which has no infinity."""
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return value if not isinstance(value, float) or math.isfinite(value) else str(value)


def _say(statements: "Sequence[Statement]", files: list[Path]) -> None:
    words = ("statement", "says", "here")
    table = plain_table("What the paper says, at these parameters", left=words, wrap=("statement", "says"))(*words)
    for each in statements:
        table.add_row(shown(each.name), shown(each.conclusion), _COLOURED[each.verdict])
    output.print(table)
    for each in statements:
        if each.remark and each.verdict == "refuted":
            output.print(f"{shown(each.name)}: {shown(each.remark)}", soft_wrap=True)
    output.print("Figures: " + ", ".join(shown(str(file)) for file in files), soft_wrap=True)


_COLOURED = {"holds": "[green]holds[/]", "refuted": "[bold red]refuted[/]", "premise fails": "[dim]premise fails[/]"}


@contextmanager
def _named_as_options(fields: Iterable[str]) -> Iterator[None]:
    """Name these fields as options in errors about them.

    >>> from fairmargin.errors import InputError
    >>> with _named_as_options(["std_plus"]):
    ...     raise InputError("`std_plus` must be above 0.")
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: --std-plus must be above 0.
    """
    pattern = rf"`({'|'.join(fields)})`(?: of [A-Z]\w+)?"
    try:
        yield
    except FairmarginError as error:
        said = re.sub(pattern, lambda found: "--" + found[1].replace("_", "-"), str(error))
        raise type(error)(said) from None
