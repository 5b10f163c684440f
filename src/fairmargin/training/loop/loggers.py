"""Log epochs to TensorBoard or MLflow while they finish. Neither package is needed for training."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from fairmargin.core.catalog import Catalog
from fairmargin.errors import InputError
from fairmargin.store.atomic import atomic_write_text
from fairmargin.training.loop.history import Epoch

OnEpoch = Callable[[Epoch], None]
Logger = Callable[[Path, Mapping[str, Any]], AbstractContextManager[OnEpoch]]
_RUN_ID = "mlflow_run.txt"


@contextmanager
def logging_to(kinds: Sequence[str], folder: Path, about: Mapping[str, Any]) -> Iterator[OnEpoch]:
    """Yield a function to call with each finished epoch, for `train(on_epoch=…)`.

    Guarantee: a missing package is reported before anything is trained. A training that continues also continues its
    log. The log is complete when the block is left.

    Parameters
    ----------
    kinds
        Names of `LOGGERS`.
    folder
        The folder of the training: TensorBoard's events are written to its `tensorboard`, the name of MLflow's run to a
        file in it.
    about
        Hyper-parameters, logged once.

    >>> with logging_to(["mlfow"], Path("run"), {}):
    ...     pass
    Traceback (most recent call last):
        ...
    fairmargin.errors.InputError: Unknown logger `mlfow`. Did you mean 'mlflow'? There are: tensorboard, mlflow.
    """
    loggers = [LOGGERS.find(kind) for kind in dict.fromkeys(kinds)]
    with ExitStack() as stack:
        listeners = [stack.enter_context(logger(folder, about)) for logger in loggers]

        def on_epoch(epoch: Epoch) -> None:
            for listener in listeners:
                listener(epoch)

        yield on_epoch


def check_loggers(kinds: Sequence[str]) -> None:
    """Refuse loggers that are unknown or whose package is missing, where the log is written only after a training."""
    for kind in kinds:
        LOGGERS.find(kind)
        _package(_PACKAGES.get(kind, __name__), kind)


def scalars(epoch: Epoch) -> dict[str, float]:
    """Return the numbers of an epoch by name, without those that were not measured.

    >>> epoch = Epoch(1, 0.1, 2.0, 0.5, (("loss", 0.5),), 0.9, "a", 0.8)
    >>> sorted(scalars(epoch))
    ['accuracy', 'loss', 'rate', 'seconds', 'term/loss', 'worst_accuracy']
    """
    names = ("loss", "rate", "seconds", "accuracy", "worst_accuracy", "natural", "robust", "worst_natural")
    found = {name: float(getattr(epoch, name)) for name in (*names, "worst_robust")}
    found |= {f"term/{name.replace(' ', '_')}": value for name, value in epoch.terms}
    return {name: value for name, value in found.items() if math.isfinite(value)}


@contextmanager
def _tensorboard(folder: Path, about: Mapping[str, Any]) -> Iterator[OnEpoch]:
    """Log to TensorBoard, in the folder `tensorboard` of the training."""
    writer = _package(_PACKAGES["tensorboard"], "tensorboard").SummaryWriter(log_dir=str(folder / "tensorboard"))
    try:
        writer.add_text("settings", "\n".join(f"- {name}: {value}" for name, value in about.items()))

        def on_epoch(epoch: Epoch) -> None:
            for name, value in scalars(epoch).items():
                writer.add_scalar(name, value, epoch.epoch)
            writer.flush()  # shows the epoch at once, and a killed process loses nothing

        yield on_epoch
    finally:
        writer.close()


@contextmanager
def _mlflow(folder: Path, about: Mapping[str, Any]) -> Iterator[OnEpoch]:
    """Log to MLflow, in a run of the training's name, which a training that continues opens again."""
    mlflow = _package(_PACKAGES["mlflow"], "mlflow")
    path = folder / _RUN_ID
    known = path.read_text(encoding="utf-8").strip() if path.is_file() else None
    # As a context manager, MLflow marks the run as failed after an exception.
    with mlflow.start_run(run_id=known, run_name=None if known else folder.name) as run:
        if known is None:
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write_text(path, run.info.run_id)
            mlflow.log_params({name: str(value) for name, value in about.items()})

        def on_epoch(epoch: Epoch) -> None:
            mlflow.log_metrics(scalars(epoch), step=epoch.epoch)

        yield on_epoch


_PACKAGES = {"tensorboard": "torch.utils.tensorboard", "mlflow": "mlflow"}

# A new logger adds one line here, and one above if it needs a package.
LOGGERS: Catalog[Logger] = Catalog("logger", __package__, {"tensorboard": _tensorboard, "mlflow": _mlflow})


def _package(module: str, extra: str) -> Any:
    """Import a package, or raise an error that names the extra to install."""
    try:
        return import_module(module)
    except ImportError as error:
        raise InputError(
            f"Logging to {extra} needs a package that is not installed ({error}). "
            f"Install it: pip install 'fairmargin[{extra}]'."
        ) from None
