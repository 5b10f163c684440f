"""A torch module as a `Classifier`: padded tiles of one size, evaluation mode, and nothing of the user's changed."""

import copy
import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from fairmargin.core.arrays import Ints
from fairmargin.core.domain import Domain
from fairmargin.errors import FairmarginError, InputError, ModelError, exits_refused
from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.models.network import TILE, Network, finite, space
from fairmargin.models.normalized import Normalized
from fairmargin.models.outputs import Outputs, Returned, TwoColumns, is_single, outputs_of, without_layer
from fairmargin.models.protocol import as_classes, as_rows
from fairmargin.models.search_copy import SearchCopy, chosen, copied
from fairmargin.models.user_file import Origin, origins_of

_HALF = (torch.float16, torch.bfloat16)


@dataclass(frozen=True, slots=True, eq=False)
class TorchClassifier:
    """The class with the largest output of a torch module.

    Searches follow the gradients of a copy with BatchNorm folded and channels last, where `search_copy` says so; the
    module itself has the last word about every input that they find.

    Guarantee: while a method runs, the module is in evaluation mode and its parameters ask for no gradients; afterwards
    modes, parameters, gradients and random states are as before, whatever happened. A sample's answer is the same bits
    in any batch, for one kind of machine, one version of torch and one tile.

    Parameters
    ----------
    module
        Takes (n, *shape) and returns one score or probability per class, (n, C); of two classes also one logit or
        probability of the second, (n,) or (n, 1).
    classes
        The label values.
    domain
        Where inputs may lie.
    tile
        How many samples the module is always given at once; the last ones are padded.
    outputs
        What the module returns; None until `looked_at` has found it out.
    """

    module: nn.Module
    classes: tuple[Any, ...]
    domain: Domain = field(default_factory=lambda: Domain(0, 1))
    tile: int = TILE
    outputs: Outputs | None = None
    # Not copied by `replace`: another module, or another reading of its outputs, needs copies of its own. The module
    # without a final layer is filed under the shape ().
    _ready: dict[tuple[int, ...], nn.Module] = field(default_factory=dict, init=False, repr=False)
    _copies: dict[tuple[int, ...], SearchCopy] = field(default_factory=dict, init=False, repr=False)

    @property
    def offers(self) -> frozenset[str]:
        """Predictions and gradients, and the layers where the module is Python code that can be followed."""
        followed = not isinstance(self.module, torch.jit.ScriptModule)
        return frozenset({"predict", "gradient", "layers"} if followed else {"predict", "gradient"})

    @property
    def device(self) -> torch.device:
        """Where the module's parameters are."""
        return _numbers_of(self.module).device

    @property
    def dtype(self) -> torch.dtype:
        """The kind of number that the module's parameters are."""
        return _numbers_of(self.module).dtype

    def predict(self, x: Any) -> Ints:
        """The position of the largest score of each sample; the first of them if several tie."""
        if self.outputs is None and len(self.classes) == 2 and len(x):
            return self.looked_at(x).predict(x)
        out = np.empty(len(x), dtype=np.int64)
        with self.network(tuple(np.shape(x)[1:])) as network:
            for start in range(0, len(x), self.tile):
                scores = finite(network.plain(self._tile(x[start : start + self.tile], start)))
                count = min(self.tile, len(x) - start)
                out[start : start + count] = scores.argmax(dim=1)[:count].cpu().numpy()
        return out

    def looked_at(self, x: Any) -> "TorchClassifier":
        """The same classifier that knows what its module returns, by its answers on the first of these samples."""
        if self.outputs is not None:
            return self
        shape = tuple(np.shape(x)[1:])
        tile = self._tile(x[: self.tile], 0).reshape(self.tile, *shape)
        with undisturbed(self.module), self._said(self.tile, shape):
            return replace(self, outputs=outputs_of(self.module, tile, len(self.classes)))

    def saturated(self, x: Any) -> int:
        """How many of the samples have probabilities of exactly 0 or 1, for a module that returns probabilities."""
        assert self.outputs is not None
        return self._counted(x, self.outputs.saturated)

    def tied(self, x: Any) -> int:
        """How many of the samples have several sigmoids of exactly 1, for a module that returns one per class."""
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
        """The module ready to be measured, on samples of that shape; its state is restored at the end."""
        outputs, whole = self.outputs or Outputs(), self._searched()
        if self.dtype in _HALF:
            kind = str(self.dtype).removeprefix("torch.")
            raise ModelError(
                f"The network's parameters are {kind}, too coarse for a search. Convert it by `.float()`; inside, "
                "`torch.autocast` may still compute in half precision."
            )
        low, high, scale = space(self.domain, shape, self.dtype, self.device)
        answer = self._answers(whole, shape)
        with undisturbed(self.module), undisturbed(whole):
            yield Network(
                # The copy is made when it is first needed: predictions alone never ask for it.
                scores=lambda rows: outputs.scores(self._answers(self._copy(shape), shape)(rows)),
                plain=torch.no_grad()(lambda rows: outputs.decided(self.module, answer(rows))),
                classes=len(self.classes),
                tile=self.tile,
                low=low,
                high=high,
                scale=scale,
            )

    def search_copy(self, shape: tuple[int, ...]) -> SearchCopy:
        """Return how the copy is made that searches on samples of that shape calculate with.

        It depends on the module, the shape, the domain and the tile, not on samples.
        """
        if shape not in self._copies:
            whole, outputs = self._searched(), self.outputs or Outputs()

            def scores_of(module: nn.Module, rows: Tensor) -> Tensor:
                return outputs.scores(self._answers(module, shape)(rows))

            with undisturbed(self.module), undisturbed(whole):
                how, made = chosen(whole, shape, scores_of, self._made_up(shape))
            self._copies[shape], self._ready[shape] = how, made
        return self._copies[shape]

    def fingerprint(self) -> str:
        """A hash of parameters, buffers, structure, settings and code of the module, of classes and domain."""
        parts: tuple[Any, ...] = (self.classes, self.domain.fingerprint(), module_fingerprint(self.module))
        if self.outputs is not None and self.outputs != Outputs():
            parts = (*parts, repr(self.outputs))  # distances depend on what is searched
        return sha256(repr(parts).encode()).hexdigest()

    def __repr__(self) -> str:
        kind = type(self.module.model if isinstance(self.module, Normalized) else self.module).__name__
        count = sum(parameter.numel() for parameter in self.module.parameters())
        return f"TorchClassifier({kind}, {len(self.classes)} classes, {count:,} parameters, {self.domain!r})"

    def __reduce__(self) -> tuple[Callable[..., "TorchClassifier"], tuple[Any, ...]]:
        # The module travels as bytes: sent as it is, each of its tensors would take a file descriptor of this process,
        # of which there are about a thousand, and its classes would be looked up before their files are read.
        content = io.BytesIO()
        try:
            torch.save(self.module, content)
        except Exception as error:  # pickling asks every object that the user put inside
            raise ModelError(
                f"The module cannot be sent to another process ({type(error).__name__}: {error}). Define its classes "
                "and functions at the top level of a file, or measure in one process: --engine serial."
            ) from error
        settings = (self.classes, self.domain, self.tile, self.outputs)
        return _restored, (origins_of(self.module), content.getvalue(), self._copies, *settings)

    def layered(self) -> nn.Module:
        """The module as proofs read it: without a final Softmax or Sigmoid layer, with one score per class."""
        outputs = self.outputs or Outputs()
        if outputs.kind is Returned.SIGMOIDS:
            return self.module  # several may be 1 by rounding, and then the largest logit does not decide
        whole = self._searched()
        return TwoColumns(whole, _numbers_of(whole)).eval() if outputs.single else whole

    def _searched(self) -> nn.Module:
        """The module without a final Softmax or Sigmoid layer."""
        if () not in self._ready:
            self._ready[()] = without_layer(self.module, self.outputs.layer if self.outputs else "")
        return self._ready[()]

    def _copy(self, shape: tuple[int, ...]) -> nn.Module:
        """The copy that searches calculate with; made again where it was chosen in another process."""
        how = self.search_copy(shape)
        if shape not in self._ready:
            self._ready[shape] = copied(self._searched(), how)
        return self._ready[shape]

    def _made_up(self, shape: tuple[int, ...]) -> Tensor:
        """A tile of random rows inside the domain, always the same."""
        low, high, scale = space(self.domain, shape, self.dtype, self.device)
        draws = torch.rand(self.tile, len(low), generator=torch.Generator().manual_seed(0)).to(self.device, self.dtype)
        bounded = torch.isfinite(low) & torch.isfinite(high)
        return torch.where(bounded, low + draws * (high - low), scale * (draws - 0.5))

    def _tile(self, x: Any, start: int) -> Tensor:
        """Some samples as rows of the module's own kind, as many as a tile holds; the last is repeated."""
        rows = torch.as_tensor(as_rows(x, start)).to(self.device, self.dtype)
        return torch.cat([rows, rows[-1:].expand(self.tile - len(rows), -1)])

    def _answers(self, module: nn.Module, shape: tuple[int, ...]) -> Callable[[Tensor], Tensor]:
        def answer(rows: Tensor) -> Tensor:
            with self._said(len(rows), shape), exits_refused():
                out = module(rows.reshape(len(rows), *shape))
            return self._checked(out, len(rows))

        return answer

    @contextmanager
    def _said(self, count: int, shape: tuple[int, ...]) -> Iterator[None]:
        """Turn what a module raises on samples of the wrong shape into a sentence."""
        try:
            yield
        except FairmarginError:
            raise
        except Exception as error:  # a user's module may raise anything
            first = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
            first = f"{type(error).__name__}: {first}" if isinstance(error, LookupError) else first
            raise ModelError(
                f"The model cannot take {count} samples of shape {shape} ({first}). Is that the shape it was made "
                "for? Images are (channels, height, width)."
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
        if out.is_floating_point():
            out = out.to(self.dtype)  # a network may compute in another precision than it returns
        if self.outputs is not None and self.outputs.single:
            if is_single(out, len(self.classes)) and len(out) == count:
                return out
            expected = f"expected one number per sample, shape ({count},) or ({count}, 1)"
        elif out.shape == (count, len(self.classes)):
            return out
        hint = "Name the label values with `classes=`."
        if out.shape in ((count,), (count, 1)):
            hint = "One number per sample is for two classes."
            if self.outputs is None and len(self.classes) == 2:
                hint = "Call `looked_at(x)` first, as `fm.measure` does, to see if it is a logit or a probability."
        if out.dim() > 2:
            hint = "Does it lack a pooling or flattening layer before the last?"
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
    """A torch module as a classifier of un-normalised inputs.

    Parameters
    ----------
    module
        Returns one score or probability per class, or one logit or probability of the second of two classes.
    domain
        Where inputs may lie; pixels in [0, 1] if left out.
    classes
        The label values; 0 … C−1 if left out, C being the width of the module's last linear or convolutional layer
        (2 where that is 1).
    mean, std
        A normalisation that the module expects its inputs to have gone through; it becomes the first layer, so that
        distances are in pixels.
    device
        Where to calculate; by default a GPU if there is one. The module is copied if it is elsewhere.
    tile
        How many samples are calculated at once; fewer where memory is short. Part of what makes results reproducible.

    >>> layer = nn.Linear(2, 3)
    >>> from_torch(layer)
    TorchClassifier(Linear, 3 classes, 9 parameters, Domain(low=0, high=1, scale=1))
    """
    if tile < 1:
        raise InputError(f"`tile` must be at least 1; given {tile}.")
    labels = range(max(2, _outputs_of(module))) if classes is None else classes  # one output tells two classes apart
    names = as_classes(labels, len(labels) if hasattr(labels, "__len__") else 0)
    if len(names) < 2:
        raise ModelError(f"A classifier tells at least 2 classes apart; `classes` names {len(names)}.")
    whole = (
        module
        if mean is None and std is None
        else Normalized(module, 0.0 if mean is None else mean, 1.0 if std is None else std)
    )
    return TorchClassifier(_on_device(whole, device), names, Domain(0, 1) if domain is None else domain, tile)


def _restored(
    origins: tuple[Origin, ...], content: bytes, copies: dict[tuple[int, ...], SearchCopy], *settings: Any
) -> TorchClassifier:
    """A classifier that comes from another process of this run, and is trusted as that is."""
    for origin in origins:
        origin.read_again()
    restored = TorchClassifier(torch.load(io.BytesIO(content), weights_only=False), *settings)
    restored._copies.update(copies)
    return restored


def _on_device(module: nn.Module, device: str | torch.device | None) -> nn.Module:
    """The module if it is there already, else a copy."""
    try:
        target = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        here = _numbers_of(module).device
        if here.type == target.type and target.index in (None, here.index):
            return module
        return copy.deepcopy(module).to(target)
    except (RuntimeError, AssertionError, TypeError, NotImplementedError) as error:
        reason = (str(error) or type(error).__name__).strip().splitlines()[0].partition(":")[0].rstrip(".")
        raise InputError(f"`device` cannot be {device!r} here ({reason}). Write 'cpu', or leave it out.") from None


@contextmanager
def undisturbed(module: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients of parameters; modes, wishes for gradients and random states come back."""
    modes = [(part, part.training) for part in module.modules()]
    wishes = [(parameter, parameter.requires_grad) for parameter in module.parameters()]
    # Leaving a caller's inference mode too: in it nothing can be differentiated.
    with torch.inference_mode(False), torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        try:
            for part, _ in modes:
                part.training = False  # not `.eval()`: exported programs refuse it, and need none
            for parameter, _ in wishes:
                parameter.requires_grad_(False)
            yield
        finally:
            for part, mode in modes:
                part.training = mode
            for parameter, wish in wishes:
                parameter.requires_grad_(wish)


def _numbers_of(module: nn.Module) -> Tensor:
    """A parameter or buffer whose device and kind of number the inputs must share."""
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():
            return tensor
    return torch.empty(0)


def _outputs_of(module: nn.Module) -> int:
    """How many scores the module returns, by its last layer; checked against reality when it is first asked."""
    widths = [getattr(part, "out_features", None) or getattr(part, "out_channels", None) for part in module.modules()]
    known = [width for width in widths if isinstance(width, int) and width]
    if not known:
        raise ModelError(
            f"Cannot tell how many classes `{type(module).__name__}` has: it has no linear or convolutional layer. "
            "Name the label values, for instance `classes=range(10)`."
        )
    return known[-1]
