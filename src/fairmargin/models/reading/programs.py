"""Networks stored as programs: TorchScript and programs of torch.export."""

import io
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.jit import load as load_script
from torch.jit import optimized_execution  # type: ignore[attr-defined]

from fairmargin.errors import ModelError, reason_of
from fairmargin.models.reading.torch_files import TorchFile


# The source code of this class, including its docstrings, is part of the fingerprints of models, and stored distances
# are found by these fingerprints. Do not edit the class.
class Program(nn.Module):
    """A program read from a file, as a module that can be copied, sent to other processes and told from others.

    Guarantee: two programs that differ look different (`repr` holds a hash of the file): parameters alone do not say
    what is calculated. TorchScript runs without its optimiser, which would change last bits after some calls.

    Parameters
    ----------
    content
        The file. Reading it can run code: only for those who are trusted.
    kind
        TorchScript or exported.
    """

    def __init__(self, content: bytes, kind: TorchFile) -> None:
        super().__init__()
        self.content, self.kind, self.batch = content, kind, 0
        if kind is TorchFile.TORCHSCRIPT:
            self.inner: Any = load_script(io.BytesIO(content), map_location="cpu")  # type: ignore[no-untyped-call]
            self.out_features = _last_width(self.inner)
        else:
            program = torch.export.load(io.BytesIO(content))
            self.inner = program.module()
            self.batch, self.out_features = _sizes(program)

    def forward(self, x: Tensor) -> Tensor:
        """What the program returns."""
        if self.batch and len(x) != self.batch:
            raise ModelError(
                f"it was exported for exactly {self.batch} samples at once; export it with a dynamic batch, "
                "`dynamic_shapes=({0: torch.export.Dim.DYNAMIC},)`, or measure with `tile="
                f"{self.batch}`"
            )
        if self.kind is TorchFile.TORCHSCRIPT:
            with optimized_execution(False):
                scores: Tensor = self.inner(x)
        else:
            scores = self.inner(x)
        return scores

    def extra_repr(self) -> str:
        """The kind and a hash of the file."""
        return f"{self.kind.name.lower()}, sha256={sha256(self.content).hexdigest()}"

    def __reduce__(self) -> tuple[Callable[..., "Program"], tuple[Any, ...]]:
        return _again, (self.content, self.kind, dict(self.inner.state_dict()), self.training)


def read_program(path: Path, kind: TorchFile) -> Program:
    """Read the program in a trusted file."""
    try:
        return Program(path.read_bytes(), kind)
    except Exception as error:  # damaged archives, newer formats and missing operators raise different exceptions
        raise ModelError(
            f"'{path}' cannot be read as {kind.value} ({reason_of(error)}). It may be damaged, or created by another "
            "version of torch."
        ) from error


def _again(content: bytes, kind: TorchFile, state: dict[str, Tensor], training: bool) -> Program:
    program = Program(content, kind)
    program.inner.load_state_dict(state)
    program.training = training
    return program


def _last_width(inner: nn.Module) -> int:
    """Return the number of outputs of the last layer of a TorchScript program; 0 if it is unknown."""
    layers = [part for part in inner.modules() if getattr(part, "original_name", "").startswith(("Linear", "Conv"))]
    weights = [weight for part in layers if isinstance(weight := getattr(part, "weight", None), Tensor)]
    return len(weights[-1]) if weights else 0


def _sizes(program: Any) -> tuple[int, int]:
    """Return the fixed batch size and the number of outputs of an exported program; 0 if they are not fixed."""
    batch = width = 0
    for node in program.graph.nodes:
        if node.op == "placeholder" and node.name in program.graph_signature.user_inputs:
            shape = getattr(node.meta.get("val"), "shape", ())
            batch = shape[0] if shape and isinstance(shape[0], int) else 0
        if node.op == "output" and node.args[0]:
            shape = getattr(getattr(node.args[0][0], "meta", {}).get("val"), "shape", ())
            width = shape[-1] if shape and isinstance(shape[-1], int) else 0
    return batch, width
