"""Store a training on disk, as files of tensors without pickles, so that it can continue after an interruption."""

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from fairmargin.errors import StoreError
from fairmargin.models.normalized import Normalized
from fairmargin.store.atomic import atomic_write_bytes, atomic_write_text, cannot_write
from fairmargin.store.plain_files import files_below, folders_below, refuse_links
from fairmargin.training.loop.history import Epoch, as_frame

LATEST, MIDWAY = "latest.safetensors", "midway.safetensors"
BEST, FINAL = "best.safetensors", "model.safetensors"
_ABOUT = "fairmargin"


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """The state of a training at one moment: tensors by name, and plain values."""

    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingFolder:
    """The folder RUN of a training.

    RUN/training.json       the arguments and the outcome
    RUN/history.parquet     one row per epoch
    RUN/latest.safetensors  everything needed to continue after the last complete epoch
    RUN/midway.safetensors  the same within an epoch that takes long; removed at its end
    RUN/epoch-0001.safetensors, best.safetensors, model.safetensors   weights only: of an epoch, of the best, at the end
    """

    path: Path

    def make(self) -> None:
        """Create the folder or raise an error; links inside it are refused, since its files are read."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise StoreError(
                f"{self.path} is a file; a training is stored in a folder. Choose another `out`."
            ) from None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        refuse_links([*folders_below(self.path), *files_below(self.path)])

    def epoch_file(self, epoch: int) -> Path:
        """Return the path of the weights after an epoch, counted from 1."""
        return self.path / f"epoch-{epoch:04d}.safetensors"

    def write_weights(self, path: Path, module: nn.Module) -> None:
        """Write the weights of a network, without the normalisation around it, in the form that `--weights` reads."""
        inner = module.model if isinstance(module, Normalized) else module
        assert isinstance(inner, nn.Module)
        atomic_write_bytes(path, save(_own_memory(inner.state_dict())))

    def write_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Write everything needed to continue, under the name `LATEST` or `MIDWAY`."""
        about = {**snapshot.about, "history": [asdict(epoch) for epoch in snapshot.about["history"]]}
        content = save(_own_memory(snapshot.tensors), {_ABOUT: json.dumps(about)})
        atomic_write_bytes(self.path / name, content)

    def remove_midway(self) -> None:
        """Remove the snapshot within an epoch once `LATEST` is newer."""
        (self.path / MIDWAY).unlink(missing_ok=True)

    def read_snapshot(self, name: str) -> Snapshot | None:
        """Return what `write_snapshot` wrote; None if there is nothing yet."""
        path = self.path / name
        if not path.exists():
            return None
        refuse_links([path])
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads(file.metadata()[_ABOUT])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                return Snapshot(tensors, {**about, "history": _epochs(about["history"])})
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}). Remove it to start again, or choose another folder."
            ) from None

    def finished(self) -> tuple[tuple[Epoch, ...], dict[str, Any]] | None:
        """Return the history of a finished training and what `write_about` wrote; None for others."""
        if not (self.path / FINAL).is_file():
            return None
        refuse_links([*folders_below(self.path), *files_below(self.path)])
        try:
            about = json.loads((self.path / "training.json").read_text(encoding="utf-8"))
            history: tuple[Epoch, ...] = ()
            if (self.path / LATEST).is_file():
                with safe_open(self.path / LATEST, framework="pt") as file:
                    history = _epochs(json.loads(file.metadata()[_ABOUT])["history"])
            return history, dict(about)
        except (SafetensorError, OSError, KeyError, TypeError, ValueError):
            return None  # training again continues from the checkpoints

    def write_history(self, history: tuple[Epoch, ...]) -> None:
        """Write the history as a table with one row per epoch."""
        content = io.BytesIO()
        as_frame(history).to_parquet(content)
        atomic_write_bytes(self.path / "history.parquet", content.getvalue())

    def write_about(self, about: Mapping[str, Any]) -> None:
        """Write the arguments and the outcome."""
        atomic_write_text(self.path / "training.json", json.dumps(about, ensure_ascii=False, indent=1))


def epochs_to_keep(epochs: int, every: int) -> frozenset[int]:
    """Return the first, middle and last epoch, and every `every`-th, counted from 1.

    >>> sorted(epochs_to_keep(10, 4))
    [1, 4, 5, 8, 10]
    """
    return frozenset({1, max(epochs // 2, 1), epochs, *(range(every, epochs + 1, every) if every else ())})


def _epochs(rows: list[dict[str, Any]]) -> tuple[Epoch, ...]:
    """Return the epochs of a history that was read from JSON."""
    return tuple(Epoch(**{**row, "terms": tuple((name, value) for name, value in row["terms"])}) for row in rows)


def _own_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return contiguous copies on the CPU: safetensors refuses tensors that share memory, as tied weights do."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
