"""Networks that start with weights trained on other data, and the rows of Nanda's claim 14 on their bias."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor, nn

from fairmargin.core.arrays import Floats
from fairmargin.core.distances import Distances
from fairmargin.core.partition import Partition
from fairmargin.errors import InputError
from fairmargin.models.architectures.catalog import build_architecture
from fairmargin.models.architectures.pretrained import pretrained
from fairmargin.models.reading.weights import load_weights
from fairmargin.runner.study_run import StudyRun
from fairmargin.store.atomic import atomic_write_bytes
from fairmargin_papers.nanda.claims import OVERS, network_agreement
from fairmargin_papers.nanda.linear import counted, explained
from fairmargin_papers.nanda.settings import FIRST, LAST, PRETRAINED, SMOOTHING
from fairmargin_papers.nanda.signs import NEGLIGIBLE, Measured, decided, sigmas
from fairmargin_papers.shared.claims import Claim, directed
from fairmargin_papers.shared.trained import over_seeds

_SHUFFLES = 100
_MOST = 1.0  # larger σ count as this, because σ has no limit if the rest is close to the boundary
_HEAD_SEED = 0


def start_from(grid: StudyRun, architecture: str, shape: Sequence[int], classes: int, path: Path) -> Path:
    """Save the weights of a study's first network of that architecture, with a new last layer.

    Guarantee: equal networks give equal bytes. Samples must have the shape on which the network was trained.
    """
    source = next(each for each in grid.networks() if each.architecture == architecture and not each.begun)
    assert source.prepared is not None
    data = source.prepared.job.data
    known = tuple(data.training.x.shape[1:])
    if known != tuple(shape):
        raise InputError(
            f"Weights trained on samples of shape {known} cannot be the initial weights for shape {shape}."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_HEAD_SEED)
        taught = build_architecture(architecture, shape, data.outputs)
        fresh = build_architecture(architecture, shape, classes)
    load_weights(taught, source.weights())
    return _kept(with_new_head(taught, fresh), path)


def start_from_imagenet(architecture: str, shape: Sequence[int], classes: int, path: Path) -> Path:
    """Save public weights, learned on ImageNet, with a new last layer, and return their file."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(_HEAD_SEED)
        return _kept(pretrained(architecture, tuple(shape), classes).state_dict(), path)


def with_new_head(taught: nn.Module, fresh: nn.Module) -> dict[str, Tensor]:
    """Return all weights of the first network, except for its last linear layer, which is that of the second.

    >>> taught, fresh = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 3)), nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 5))
    >>> weights = with_new_head(taught, fresh)
    >>> bool((weights["0.weight"] == taught[0].weight).all()), tuple(weights["1.weight"].shape)
    (True, (5, 2))
    """
    head = [name for name, part in fresh.named_modules() if isinstance(part, nn.Linear)][-1]
    new = fresh.state_dict()
    return {name: new[name] if name.startswith(f"{head}.") else part for name, part in taught.state_dict().items()}


def _kept(weights: Mapping[str, Tensor], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write_bytes(path, save({name: part.contiguous() for name, part in weights.items()}))
    return path.resolve()


def warm_rows(claim: Claim, found: Sequence[Measured], reason: str) -> list[Claim]:
    """Return the rows of claim 14: bias after the first epoch, from scratch and pre-trained, and whether it stays."""
    faces = [each for each in found if each.warm]
    measured = next((each for each in faces if each.name == "utkface"), faces[0] if faces else None)
    if measured is None:
        return [claim.untested(reason or "no network with initial weights from other data was trained")]
    classes = [part for part in measured.partitions if part.name == "class"]
    others = [part for part in measured.partitions if part.name != "class"]
    rows = [row for parts in (classes, others) if parts for row in _early_rows(claim, measured, parts)]
    return [*rows, _stays(claim, measured)]


def _early_rows(claim: Claim, measured: Measured, parts: Sequence[Partition]) -> list[Claim]:
    """Test the bias after the first epoch, from scratch, and how much more there is in pre-trained networks."""
    scratch = [network for network in measured.networks if network not in measured.warm]
    same = [network.removesuffix(PRETRAINED) for network in measured.warm]

    def bias(networks: Sequence[str], epoch: str) -> Floats:
        """Return the mean over networks, one number per seed."""
        found = [
            [excess_bias(measured.distances(network, seed, SMOOTHING, epoch), parts) for network in networks]
            for seed in measured.seeds
        ]
        return np.asarray(np.mean(found, axis=1))

    early, late = over_seeds(bias(scratch, FIRST)), float(bias(scratch, LAST).mean())
    taught = over_seeds(bias(measured.warm, FIRST))
    more = over_seeds(bias(measured.warm, FIRST) - bias(same, FIRST))
    by = " and ".join(part.name for part in parts)
    how = (
        f"{measured.title}, σ by smoothing, by {by}. Mean |σ| over groups, less what shuffled groups of the same sizes "
        f"give ({_SHUFFLES} times): noise alone makes |σ| positive. A σ above {_MOST:g} counts as {_MOST:g}, since "
        "none can lie below −1 (chosen after a first run, in which one σ of 157 outweighed all others). The interval "
        "is over seeds, which are measured on the same samples."
    )
    if any(part.name == "class" for part in parts):
        how += " A class that is never predicted has σ = −1: after one epoch that is most of what is seen."
    return [
        claim.found(
            f"{early.text()} after the first epoch, {late:.3f} after the last",
            directed(early, "below", NEGLIGIBLE),
            text=f"A network trained from scratch shows σ ≈ 0 after the first epoch, by {by}.",
            remark=f"{how} From scratch: {', '.join(scratch)}. ≈ 0: below {NEGLIGIBLE:g}.",
        ),
        claim.found(
            f"{taught.text()} pre-trained, {more.text()} more than from scratch",
            directed(more, "above"),
            text=f"A pre-trained network shows more bias after the first epoch than one from scratch, by {by}.",
            remark=f"{how} {', '.join(measured.warm)} against {', '.join(same)}; the paper's began with ImageNet's "
            "weights. All pre-trained ones of an architecture begin with the same weights.",
        ),
    ]


def _stays(claim: Claim, measured: Measured) -> Claim:
    """Test whether the signs after the first epoch are those after the last."""
    pretrained = [replace(measured, networks=measured.warm)]
    both, narrow = (network_agreement(pretrained, (SMOOTHING, FIRST), (SMOOTHING, LAST), over) for over in OVERS)
    return claim.found(
        counted(both),
        decided(both, narrow),
        text="The bias of a pre-trained network persists: σ has the same sign after the first and the last epoch.",
        remark=explained(both, narrow),
    )


def excess_bias(distances: Distances, partitions: Sequence[Partition]) -> float:
    """Return the mean of min(|σ|, 1) over all groups, minus its mean when samples are assigned to groups at random.

    It is 0 if no sample is robust.

    >>> same = Distances(np.ones(60), np.ones(60, bool), "exact", "L2")
    >>> excess_bias(same, [Partition.by("class", np.arange(60) % 3)])
    0.0
    """
    stream = np.random.default_rng(0)
    shuffles = (distances.take(stream.permutation(len(distances))) for _ in range(_SHUFFLES))
    shuffled = [_mean_size(each, partitions) for each in shuffles]
    return _mean_size(distances, partitions) - float(np.mean(shuffled))


def _mean_size(distances: Distances, partitions: Sequence[Partition]) -> float:
    sizes = np.abs([value for value in sigmas(distances, partitions).values() if value == value])
    return float(np.minimum(sizes, _MOST).mean()) if len(sizes) else 0.0
