"""Loading of weights from files into networks, matched strictly by name."""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fairmargin.errors import ModelError
from fairmargin.models.reading.programs import read_program
from fairmargin.models.reading.torch_files import TorchFile, kind_of, read_checkpoint, read_safetensors, refuse

_WRAPPERS = re.compile(r"(?:^|(?<=\.))(?:module|_orig_mod)\.")  # of DataParallel and torch.compile, at any depth
_COUNTERS = ("num_batches_tracked", "n_averaged")  # not used in evaluation mode
_SHOWN = 5


def load_weights(network: nn.Module, path: Path, *, trust: bool = False, user: str = "the network") -> None:
    """Load the weights in a file into a network, in place.

    Guarantee: the file must contain exactly the parameters and buffers of the network, with their shapes; otherwise an
    error is raised and the network is unchanged. Names may differ by a prefix ("module.", "model.", …), and the weights
    can be inside a checkpoint ("state_dict", "model", …). Without `trust`, no code of the file runs.

    Parameters
    ----------
    network
        Network that the weights belong to.
    path
        Path of a .safetensors file or of a checkpoint of `torch.save`.
    trust
        Whether to read pickled objects, which can run code.
    user
        Where the number of classes of the network comes from, for error messages.

    >>> import tempfile, torch
    >>> layer, other = nn.Linear(2, 3), nn.Linear(2, 4)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "weights.pt"
    ...     torch.save({"state_dict": {"module." + name: part for name, part in layer.state_dict().items()}}, path)
    ...     load_weights(nn.Linear(2, 3), path)
    """
    if not path.is_file():
        raise ModelError(f"There is no file of weights '{path}'. Check the path.")
    candidates = weights_in(_content(path, trust))
    if not candidates:
        raise ModelError(f"'{path}' holds no weights: expected tensors by name, as `model.state_dict()` gives them.")
    wanted = {name: part for name, part in network.state_dict().items() if isinstance(part, Tensor)}
    fits = {place: fit(wanted, given) for place, given in candidates.items()}
    complete = [place for place, found in fits.items() if found.complete]
    if len(complete) > 1:
        raise ModelError(
            f"'{path}' holds several weights that fit: {', '.join(map(repr, complete))}. Save only one of them, "
            f'for instance `torch.save(torch.load("{path.name}")[{complete[0]!r}], "weights.pt")`.'
        )
    best = fits[complete[0]] if complete else max(fits.values(), key=lambda found: len(found.matched))
    if not best.complete:
        raise ModelError(_mismatch(path, best, list(wanted), user))
    network.load_state_dict({**network.state_dict(), **best.matched})


def weights_in(content: object, place: str = "", depth: int = 2) -> dict[str, Mapping[str, Tensor]]:
    """Find all mappings from names to tensors in the content of a file, by the path of their entries.

    >>> import torch
    >>> list(weights_in({"epoch": 3, "net": {"weight": torch.ones(1)}, "optimizer": {"state": {0: torch.ones(1)}}}))
    ['net']
    """
    if isinstance(content, nn.Module):
        return {place: content.state_dict()}
    if not isinstance(content, Mapping):
        return {}
    entries = {name: part for name, part in content.items() if isinstance(name, str)}
    tensors = {name: part for name, part in entries.items() if isinstance(part, Tensor)}
    found: dict[str, Mapping[str, Tensor]] = {place: tensors} if tensors else {}
    if depth:
        for name, part in entries.items():
            found |= weights_in(part, f"{place}.{name}" if place else name, depth - 1)
    return found


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of matching the tensors of a file with those of a network.

    Parameters
    ----------
    matched
        Tensors of the file by their names in the network.
    missing, unexpected
        Names that only the network has, and names that only the file has.
    reshaped
        Expected and given shape of the tensors whose shapes differ, by name.
    """

    matched: dict[str, Tensor]
    missing: tuple[str, ...]
    unexpected: tuple[str, ...]
    reshaped: dict[str, tuple[tuple[int, ...], tuple[int, ...]]]

    @property
    def complete(self) -> bool:
        """Whether all names and shapes match."""
        return not (self.missing or self.unexpected or self.reshaped)


def fit(wanted: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> Fit:
    """Match the names in a file with those of a network, with the renaming that gives the most matches."""
    spelling = max(_spellings(given, wanted), key=lambda names: sum(name in wanted for name in names.values()))
    matched = {spelling[name]: part for name, part in given.items() if spelling[name] in wanted}
    # safetensors saves a tensor with two names only once.
    shared = {_memory(wanted[name]) for name in matched}
    missing = [n for n in wanted if n not in matched and not n.endswith(_COUNTERS) and _memory(wanted[n]) not in shared]
    unexpected = [n for n in given if spelling[n] not in wanted and not n.endswith(_COUNTERS)]
    shapes = {n: (tuple(wanted[n].shape), tuple(part.shape)) for n, part in matched.items() if not is_lazy(wanted[n])}
    reshaped = {name: pair for name, pair in shapes.items() if pair[0] != pair[1]}
    return Fit(matched, tuple(missing), tuple(unexpected), reshaped)


def _memory(tensor: Tensor) -> Any:
    return id(tensor) if is_lazy(tensor) or not tensor.numel() else (tensor.data_ptr(), tensor.shape, tensor.stride())


def _spellings(given: Collection[str], wanted: Collection[str]) -> Iterator[dict[str, str]]:
    """Yield ways to rename the names in a file, the simplest first; all keep the names distinct."""
    for plain in ({name: name for name in given}, {name: _WRAPPERS.sub("", name) for name in given}):
        for lead in _leads(plain.values()):
            for added in _leads(wanted):
                spelling = {name: added + short.removeprefix(lead) for name, short in plain.items()}
                if len(set(spelling.values())) == len(spelling):
                    yield spelling


def _leads(names: Collection[str]) -> list[str]:
    """Return the prefixes shared by most names, from "" to the longest, such as "module." and "module.model."."""
    leads, inside = [""], list(names)
    while inside:
        firsts = Counter(name[len(leads[-1]) :].partition(".")[0] for name in inside)
        longer = f"{leads[-1]}{firsts.most_common(1)[0][0]}."
        inside = [name for name in inside if name.startswith(longer)]
        if len(inside) * 2 <= len(names):
            break
        leads.append(longer)
    return leads


def _content(path: Path, trust: bool) -> object:
    kind = kind_of(path)
    if kind is TorchFile.SAFETENSORS:
        return read_safetensors(path)
    if kind is TorchFile.CHECKPOINT:
        return read_checkpoint(path, trust=trust)
    if not trust:
        raise refuse(path, kind.value)
    return read_program(path, kind)


def _mismatch(path: Path, found: Fit, order: list[str], user: str) -> str:
    shapes = [f"{name} (expected {expected}, given {given})" for name, (expected, given) in found.reshaped.items()]
    parts = [
        f"{len(names):,} {words}: {', '.join(names[:_SHOWN])}" + (" …" if len(names) > _SHOWN else "")
        for names, words in (
            (found.missing, "missing from the file"),
            (found.unexpected, "unknown to the network"),
            (shapes, "of another shape"),
        )
        if names
    ]
    return f"The weights in '{path}' do not fit the network. {'; '.join(parts)}. {_hint(found, order, user)}"


def _hint(found: Fit, order: list[str], user: str) -> str:
    if not found.matched:
        return "No names match: do the weights belong to another architecture?"
    if found.missing or found.unexpected:
        return "Do the weights belong to another architecture, or to another version of it?"
    layers = {name.rpartition(".")[0] for name in found.reshaped}
    expected, given = next(iter(found.reshaped.values()))
    if layers == {order[-1].rpartition(".")[0]} and expected[1:] == given[1:] and expected and given:
        return f"The file has {given[0]} classes, {user} {expected[0]}."
    first = len(found.reshaped) == 1 and order[0] in found.reshaped
    if first and len(expected) == len(given) > 1 and expected[0] == given[0] and expected[2:] == given[2:]:
        return f"The file takes inputs with {given[1]} channels, {user} {expected[1]}."
    return "Do they belong to a narrower or wider version of the network, or to samples of another size?"
