"""Torch modules as classifiers: evaluated in padded batches of fixed size, without changing the user's module."""

import copy
import io
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import cloudpickle
import numpy as np
import torch
from torch import Tensor, nn

from fairmargin.core.arrays import Ints
from fairmargin.core.domain import Domain
from fairmargin.engine.task import DEVICE
from fairmargin.errors import FairmarginError, InputError, ModelError, exits_refused, reason_of
from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.models.network import TILE, Network, example_of, finite, padded, space
from fairmargin.models.normalized import Normalized
from fairmargin.models.outputs import Outputs, Returned, TwoColumns, is_single, outputs_of, without_layer
from fairmargin.models.protocol import as_classes, as_rows
from fairmargin.models.reading.user_file import Origin, is_in_main, origins_of
from fairmargin.models.search_copy import SearchCopy, chosen, copied

_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, eq=False)
class TorchClassifier:
    """Classifier that predicts the class with the largest output of a torch module.

    Searches may use the gradients of a faster copy, see `search_copy`; whether an input is misclassified is always
    decided by the module itself.

    Guarantee: while a method runs, the module is in evaluation mode and its parameters need no gradients; afterwards,
    modes, parameters, gradients and random states are restored, also after errors. The scores of a sample are identical
    in any batch, for one type of machine, one version of torch and one tile.

    Parameters
    ----------
    module
        Module that takes (n, *shape) and returns one score or probability per class, (n, C); for two classes also one
        logit or probability of the second class, (n,) or (n, 1).
    classes
        Label values.
    domain
        Valid inputs.
    tile
        Fixed batch size; the last batch is padded.
    outputs
        How to convert the outputs of the module to scores; None until `with_outputs_for` has determined it.
    """

    module: nn.Module
    classes: tuple[Any, ...]
    domain: Domain = field(default_factory=lambda: Domain(0, 1))
    tile: int = TILE
    outputs: Outputs | None = None
    # Not copied by `replace`, because another module, or another kind of outputs, needs its own copies. The module
    # without its final layer is stored under the shape ().
    _ready: dict[tuple[int, ...], nn.Module] = field(default_factory=dict, init=False, repr=False)
    _copies: dict[tuple[int, ...], SearchCopy] = field(default_factory=dict, init=False, repr=False)

    @property
    def offers(self) -> frozenset[str]:
        """The capabilities of the model: predictions, gradients, and layers if the module can be traced."""
        traceable = not isinstance(self.module, torch.jit.ScriptModule)
        return frozenset({"predict", "gradient", "layers"} if traceable else {"predict", "gradient"})

    @property
    def device(self) -> torch.device:
        """The device of the module's parameters."""
        return example_of(self.module).device

    @property
    def dtype(self) -> torch.dtype:
        """The floating-point type of the module's parameters."""
        return example_of(self.module).dtype

    def predict(self, x: Any) -> Ints:
        """Predict the position of the largest score of each sample; ties go to the first class."""
        if self.outputs is None and len(self.classes) == 2 and len(x):
            return self.with_outputs_for(x).predict(x)
        out = np.empty(len(x), dtype=np.int64)
        with self.network(tuple(np.shape(x)[1:])) as network:
            for start in range(0, len(x), self.tile):
                scores = finite(network.plain(self._tile(x[start : start + self.tile], start)))
                count = min(self.tile, len(x) - start)
                out[start : start + count] = scores.argmax(dim=1)[:count].cpu().numpy()
        return out

    def with_outputs_for(self, x: Any) -> "TorchClassifier":
        """Return the classifier with `outputs` determined from the outputs for the first of these samples."""
        if self.outputs is not None:
            return self
        shape = tuple(np.shape(x)[1:])
        tile = self._tile(x[: self.tile], 0).reshape(self.tile, *shape)
        with undisturbed(self.module), self._explained(self.tile, shape):
            return replace(self, outputs=outputs_of(self.module, tile, len(self.classes)))

    def saturated(self, x: Any) -> int:
        """Count the samples with probabilities of exactly 0 or 1, for a module that returns probabilities."""
        assert self.outputs is not None
        return self._counted(x, self.outputs.saturated)

    def tied(self, x: Any) -> int:
        """Count the samples with several sigmoids of exactly 1, for a module that returns one sigmoid per class."""
        assert self.outputs is not None
        return self._counted(x, self.outputs.tied)

    def _counted(self, x: Any, found: Callable[[Tensor], Tensor]) -> int:
        answer, count = self._answers(self.module, tuple(np.shape(x)[1:])), 0
        with undisturbed(self.module), torch.no_grad():
            for start in range(0, len(x), self.tile):
                those = found(answer(self._tile(x[start : start + self.tile], start)))
                count += int(those[: len(x) - start].sum())
        return count

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> Iterator[Network]:
        """Open the module for measurements on samples of this shape; its state is restored at the end."""
        outputs, whole = self.outputs or Outputs(), self._searched()
        if self.dtype in _HALF:
            kind = str(self.dtype).removeprefix("torch.")
            raise ModelError(
                f"The network's parameters are {kind}, too imprecise for a search. Convert it by `.float()`; inside, "
                "`torch.autocast` may still compute in half precision."
            )
        low, high, scale = space(self.domain, shape, self.dtype, self.device)
        answer = self._answers(whole, shape)
        with undisturbed(self.module), undisturbed(whole):
            yield Network(
                # The copy is made when it is first needed; predictions do not need it.
                scores=lambda rows: outputs.scores(self._answers(self._copy(shape), shape)(rows)),
                plain=torch.no_grad()(lambda rows: outputs.decided(self.module, answer(rows))),
                classes=len(self.classes),
                tile=self.tile,
                low=low,
                high=high,
                scale=scale,
            )

    def search_copy(self, shape: tuple[int, ...]) -> SearchCopy:
        """Return how the copy is made that searches use for samples of this shape.

        It depends on the module, the shape, the domain and the tile, not on samples.
        """
        if shape not in self._copies:
            whole, outputs = self._searched(), self.outputs or Outputs()

            def scores_of(module: nn.Module, rows: Tensor) -> Tensor:
                return outputs.scores(self._answers(module, shape)(rows))

            with undisturbed(self.module), undisturbed(whole):
                how, made = chosen(whole, shape, scores_of, self._random_tile(shape))
            self._copies[shape], self._ready[shape] = how, made
        return self._copies[shape]

    def fingerprint(self) -> str:
        """Compute a hash of parameters, buffers, structure, settings and code of the module, classes and domain."""
        parts: tuple[Any, ...] = (self.classes, self.domain.fingerprint(), module_fingerprint(self.module))
        if self.outputs is not None and self.outputs != Outputs():
            parts = (*parts, repr(self.outputs))  # distances depend on the scores that searches use
        return sha256(repr(parts).encode()).hexdigest()

    def __repr__(self) -> str:
        kind = type(self.module.model if isinstance(self.module, Normalized) else self.module).__name__
        count = sum(parameter.numel() for parameter in self.module.parameters())
        return f"TorchClassifier({kind}, {len(self.classes)} classes, {count:,} parameters, {self.domain!r})"

    def __reduce__(self) -> tuple[Callable[..., "TorchClassifier"], tuple[Any, ...]]:
        # Send the module as bytes. Otherwise each of its tensors would need a file descriptor, of which there are about
        # a thousand per process, and its classes would be looked up before their files are imported.
        content = io.BytesIO()
        try:
            # Other processes cannot import the classes of a script or notebook, so that these are sent by value.
            torch.save(self.module, content, pickle_module=cloudpickle if is_in_main(self.module) else pickle)
        except Exception as error:  # pickling the user's objects can raise anything
            raise ModelError(
                f"The module cannot be sent to another process ({type(error).__name__}: {error}). Define its classes "
                "and functions at the top level of a file, or measure in one process: --engine serial."
            ) from error
        settings = (self.classes, self.domain, self.tile, self.outputs)
        return _restored, (origins_of(self.module), content.getvalue(), self._copies, *settings)

    def layered(self) -> nn.Module:
        """Return the module for proofs: without a final Softmax or Sigmoid layer, with one score per class."""
        outputs = self.outputs or Outputs()
        if outputs.kind is Returned.SIGMOIDS:
            return self.module  # if several sigmoids round to 1, the largest logit does not decide
        whole = self._searched()
        return TwoColumns(whole, example_of(whole)).eval() if outputs.single else whole

    def _searched(self) -> nn.Module:
        """Return the module without a final Softmax or Sigmoid layer."""
        if () not in self._ready:
            self._ready[()] = without_layer(self.module, self.outputs.layer if self.outputs else "")
        return self._ready[()]

    def _copy(self, shape: tuple[int, ...]) -> nn.Module:
        """Return the copy that searches use; make it if it was chosen in another process."""
        how = self.search_copy(shape)
        if shape not in self._ready:
            self._ready[shape] = copied(self._searched(), how)
        return self._ready[shape]

    def _random_tile(self, shape: tuple[int, ...]) -> Tensor:
        """Return a tile of random rows inside the domain, from a fixed seed."""
        low, high, scale = space(self.domain, shape, self.dtype, self.device)
        draws = torch.rand(self.tile, len(low), generator=torch.Generator().manual_seed(0)).to(self.device, self.dtype)
        bounded = torch.isfinite(low) & torch.isfinite(high)
        return torch.where(bounded, low + draws * (high - low), scale * (draws - 0.5))

    def _tile(self, x: Any, start: int) -> Tensor:
        """Convert up to one tile of samples to rows with the module's device and type; the last row is repeated."""
        # A copy, because the module could modify it in place.
        return padded(torch.tensor(as_rows(x, start), device=self.device, dtype=self.dtype), self.tile)

    def _answers(self, module: nn.Module, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        def answer(rows: Tensor) -> Tensor:
            with self._explained(len(rows), shape), exits_refused():
                out = module(rows.reshape(len(rows), *shape))
            return self._checked(out, len(rows))

        return answer

    @contextmanager
    def _explained(self, count: int, shape: tuple[int, ...]) -> Iterator[None]:
        """Convert exceptions of the module, for instance on samples of a wrong shape, to a `ModelError`."""
        try:
            yield
        except FairmarginError:
            raise
        except Exception as error:  # a user's module can raise anything
            kind = f"{type(error).__name__}: " if isinstance(error, LookupError) else ""
            raise ModelError(
                f"The model cannot take {count} samples of shape {shape} ({kind}{reason_of(error)}). Is that the shape "
                "it was made for? Images are (channels, height, width)."
            ) from error

    def _checked(self, out: object, count: int) -> Tensor:
        expected = f"expected one score per class, shape ({count}, {len(self.classes)})"
        if not isinstance(out, Tensor):
            raise ModelError(
                f"The model returns a {type(out).__name__}; {expected}, as one tensor. Wrap it so that it returns only "
                "that."
            )
        if out.is_complex():
            raise ModelError(f"The model returns complex numbers; {expected}, of real numbers.")
        if not out.is_floating_point():
            kind = str(out.dtype).removeprefix("torch.")
            raise ModelError(
                f"The model returns {kind} numbers; {expected}, of floating-point numbers. Return the scores before "
                "they are rounded or compared."
            )
        out = out.to(self.dtype)  # the outputs can have another precision than the parameters
        if self.outputs is not None and self.outputs.single:
            if is_single(out, len(self.classes)) and len(out) == count:
                return out
            expected = f"expected one number per sample, shape ({count},) or ({count}, 1)"
        elif out.shape == (count, len(self.classes)):
            return out
        hint = "Give the label values with `classes=` (--class-names)."
        if out.shape in ((count,), (count, 1)):
            hint = "One number per sample is for two classes."
            if self.outputs is None and len(self.classes) == 2:
                hint = "Call `with_outputs_for(x)` first, as `fm.measure` does, to tell a logit from a probability."
        if out.dim() > 2:
            hint = "Is a pooling or flattening layer missing before the last layer?"
        raise ModelError(f"The model returns shape {tuple(out.shape)} for {count} samples; {expected}. {hint}")


def from_torch(
    module: nn.Module,
    *,
    domain: Domain | None = None,
    classes: Any = None,
    mean: Any = None,
    std: Any = None,
    device: str | torch.device | None = None,
    tile: int = TILE,
) -> TorchClassifier:
    """Convert a torch module to a classifier of un-normalised inputs.

    Parameters
    ----------
    module
        Module that returns one score or probability per class, or one logit or probability of the second of two
        classes.
    domain
        Valid inputs; by default pixels in [0, 1].
    classes
        Label values; by default 0 … C−1, where C is the width of the module's last linear or convolutional layer (2 if
        the width is 1).
    mean, std
        Normalisation of inputs that the module expects; it becomes the first layer, so that distances are in pixels.
    device
        Device for computations; by default a GPU if available. The module is copied if it is on another device.
    tile
        Fixed batch size; smaller batches need less memory. Results can depend on it in the last digits.

    >>> layer = nn.Linear(2, 3)
    >>> from_torch(layer)
    TorchClassifier(Linear, 3 classes, 9 parameters, Domain(low=0, high=1, scale=1))
    """
    if tile < 1:
        raise InputError("must be at least 1", field="tile", given=tile)
    labels = range(_count_of_outputs(module)) if classes is None else classes
    names = as_classes(labels, len(labels) if hasattr(labels, "__len__") else 0)
    if len(names) < 2:
        raise ModelError(f"A classifier needs at least 2 classes; `classes` names {len(names)}.")
    whole = (
        module
        if mean is None and std is None
        else Normalized(module, 0.0 if mean is None else mean, 1.0 if std is None else std)
    )
    return TorchClassifier(_on_device(whole, device), names, Domain(0, 1) if domain is None else domain, tile)


def _restored(
    origins: tuple[Origin, ...], content: bytes, copies: dict[tuple[int, ...], SearchCopy], *settings: Any
) -> TorchClassifier:
    """Restore a classifier from another process of this run, whose data are trusted."""
    for origin in origins:
        origin.import_again()
    device = os.environ.get(DEVICE)
    module = torch.load(io.BytesIO(content), weights_only=False, map_location=device and "cpu")
    if device == "cuda" and torch.cuda.is_available():
        module = module.to(device)
    restored = TorchClassifier(module, *settings)
    restored._copies.update(copies)
    return restored


def _on_device(module: nn.Module, device: str | torch.device | None) -> nn.Module:
    """Return the module if it is on the device, else a copy on the device."""
    try:
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        here = example_of(module).device
        if here.type == target.type and target.index in (None, here.index):
            return module
        return copy.deepcopy(module).to(target)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = reason_of(error).partition(":")[0].rstrip(".")
        raise InputError(f"cannot be {device!r} here ({reason}). Use 'cpu', or leave it out", field="device") from None


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Set evaluation mode and disable gradients of parameters; restore them and the random state at the end."""
    modes = [(part, part.training) for part in module.modules()]
    gradients = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    # Also leave a caller's inference mode, in which nothing can be differentiated.
    with torch.inference_mode(False), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            for part, _ in modes:
                part.training = False  # not `.eval()`, which exported programs do not support
            for parameter, _ in gradients:
                parameter.requires_grad_(False)
            yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter, required in gradients:
                parameter.requires_grad_(required)


def last_width(module: nn.Module) -> int:
    """Return the width of the last linear or convolutional layer, or 0 if there is none.

    >>> last_width(nn.Sequential(nn.Linear(2, 3), nn.ReLU())), last_width(nn.ReLU())
    (3, 0)
    """
    widths = [getattr(part, "out_features", None) or getattr(part, "out_channels", None) for part in module.modules()]
    return next((width for width in reversed(widths) if isinstance(width, int) and width), 0)


def _count_of_outputs(module: nn.Module) -> int:
    """Return the number of classes according to the last layer; it is checked when the module is first called."""
    width = last_width(module)
    if not width:
        raise ModelError(
            f"Cannot tell how many classes `{type(module).__name__}` has: it has no linear or convolutional layer. "
            "Give the label values, for instance `fm.as_classifier(network, classes=range(10))`."
        )
    return max(2, width)  # one output means two classes
