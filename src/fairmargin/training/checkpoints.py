"""A training on disk: whole files of tensors, no pickles, from which it goes on as if nothing had happened."""

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
from fairmargin.store.received import files_below, folders_below, refuse_links
from fairmargin.training.history import Epoch, as_frame

LATEST, MIDWAY = "latest.safetensors", "midway.safetensors"
BEST, FINAL = "best.safetensors", "model.safetensors"
_ABOUT = "fairmargin"


@dataclass(frozen=True, slots=True, eq=False)
class Frozen:
    """A training at some moment: tensors by name, and plain values."""

    tensors: Mapping[str, Tensor]
    about: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TrainingFolder:
    """RUN of a training.

    RUN/training.json       what was asked, what came of it
    RUN/history.parquet     one row an epoch
    RUN/latest.safetensors  everything needed to go on after the last whole epoch
    RUN/midway.safetensors  the same amid an epoch that takes long; gone at its end
    RUN/epoch-0001.safetensors, best.safetensors, model.safetensors   weights alone: of an epoch, the best, the end
    """

    path: Path

    def make(self) -> None:
        """Make the folder, or say why not. Folders and files inside it must not be links: what is there is read."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except FileExistsError:
            raise StoreError(f"{self.path} is a file; a training is kept in a folder. Choose another `out`.") from None
        except OSError as error:
            raise cannot_write(self.path, error) from error
        refuse_links([*folders_below(self.path), *files_below(self.path)])

    def epoch_file(self, epoch: int) -> Path:
        """Where the weights after an epoch, counted from 1, lie."""
        return self.path / f"epoch-{epoch:04d}.safetensors"

    def write_weights(self, path: Path, module: nn.Module) -> None:
        """The weights of a network, without the normalisation around it, as `--weights` reads them."""
        inner = module.model if isinstance(module, Normalized) else module
        assert isinstance(inner, nn.Module)
        atomic_write_bytes(path, save(_own_memory(inner.state_dict())))

    def write_frozen(self, name: str, kept: Frozen) -> None:
        """Everything needed to go on, under the name `LATEST` or `MIDWAY`."""
        about = {**kept.about, "history": [asdict(epoch) for epoch in kept.about["history"]]}
        content = save(_own_memory(kept.tensors), {_ABOUT: json.dumps(about)})
        atomic_write_bytes(self.path / name, content)

    def forget_midway(self) -> None:
        """At the end of an epoch, which `LATEST` is newer than."""
        (self.path / MIDWAY).unlink(missing_ok=True)

    def read_frozen(self, name: str) -> Frozen | None:
        """What `write_frozen` wrote; None if there is nothing yet."""
        path = self.path / name
        if not path.exists():
            return None
        refuse_links([path])
        try:
            with safe_open(path, framework="pt") as file:
                about = json.loads(file.metadata()[_ABOUT])
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
                return Frozen(tensors, {**about, "history": _epochs(about["history"])})
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise StoreError(
                f"{path} cannot be read ({error}). Remove it to begin anew, or choose another folder."
            ) from None

    def write_history(self, history: tuple[Epoch, ...]) -> None:
        """One row an epoch."""
        content = io.BytesIO()
        as_frame(history).to_parquet(content)
        atomic_write_bytes(self.path / "history.parquet", content.getvalue())

    def write_about(self, about: Mapping[str, Any]) -> None:
        """What was asked, and what came of it."""
        atomic_write_text(self.path / "training.json", json.dumps(about, ensure_ascii=False, indent=1, default=str))


def epochs_to_keep(epochs: int, every: int) -> frozenset[int]:
    """First, middle, last, and every so many, counted from 1.

    >>> sorted(epochs_to_keep(10, 4))
    [1, 4, 5, 8, 10]
    """
    return frozenset({1, max(epochs // 2, 1), epochs, *(range(every, epochs + 1, every) if every else ())})


def _epochs(rows: list[dict[str, Any]]) -> tuple[Epoch, ...]:
    return tuple(Epoch(**{**row, "terms": tuple((name, value) for name, value in row["terms"])}) for row in rows)


def _own_memory(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Contiguous copies on the CPU: safetensors refuses tensors that share memory, as tied weights do."""
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in tensors.items()}
