"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no table.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")]
Run = Annotated[Path, typer.Argument(help="The folder of a run, as `fairmargin audit --out` wrote it.")]
Confidence = Annotated[
    float, typer.Option(help="Confidence of the intervals; 1 − confidence is the level of the tests.")
]
Engine = Annotated[str, typer.Option(help="Where tasks run: serial, or processes:workers=2. The numbers are the same.")]
