"""Notes and warnings about the outputs of a network, for readers of the results."""

from typing import Any

import numpy.typing as npt
import torch

from fairmargin.models.network import padded, rows_of
from fairmargin.models.torch_model import TorchClassifier

Numbers = npt.NDArray[Any]

_FAINT = 100  # multiple of the distance between samples: a gradient that predicts a boundary further away is too small
_NEAR = 1e-3  # distance to 0 or 1 that is typical for probabilities of a certain network


def notes_on_outputs(model: TorchClassifier, x: Any, samples: Numbers) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return notes and warnings about the outputs of a network: probabilities, or scores without gradients."""
    outputs = model.outputs
    faint = _warning_about_gradients(model, samples) or _warning_about_range(model, samples)
    if outputs is None or not (outputs.layer or outputs.searched_as_log_odds):
        return faint, faint
    if outputs.layer:
        name = type(model.module.get_submodule(outputs.layer)).__name__
        note = f"Searches leave out the network's final {name} layer; decisions are those of the whole network."
        ties = model.tied(x)
        if not ties:
            return (note, *faint), faint
        tied = (
            f"{note} For {ties:,} of {len(x):,} samples several sigmoids are exactly 1 in the network's precision, so "
            "that the first of these classes is predicted. Their distances may be too large. Let the network "
            "return its scores before the sigmoid."
        )
        return (tied, *faint), (tied, *faint)
    note, count = "The network returns probabilities; searches use their log-odds.", model.saturated(x)
    if not count:
        return (note, *faint), faint
    warning = (
        f"{note} For {count:,} of {len(x):,} samples the probabilities are exactly 0 or 1 in the network's precision: "
        "their gradient is 0, and their distances may be far too large. Let the network return its scores before the "
        "softmax or sigmoid."
    )
    return (warning,), (warning,)


def _warning_about_gradients(model: TorchClassifier, x: Numbers) -> tuple[str, ...]:
    """Return a warning if the scores hardly change with the input, for instance because they are saturated."""
    count = _faint_slopes(model, x)
    if not count:
        return ()
    return (
        f"For {count} of {len(x)} probed samples the gradient of the scores is zero, or so small that it predicts a "
        f"boundary more than {_FAINT} times as far away as the samples are from each other: searches by gradients may "
        "find distances that are far too large, or none. If the network ends with a softmax, a sigmoid, a clamp or a "
        "logarithm of these, let it return its scores before that.",
    )


def _warning_about_range(model: TorchClassifier, x: Numbers) -> tuple[str, ...]:
    """Return a warning if scores look like one probability per class although the last operation is not a sigmoid."""
    if model.outputs is None or model.outputs.kind != "scores":
        return ()
    with model.network(x.shape[1:]) as network:
        scores = network.plain(padded(rows_of(network, x)[: network.tile], network.tile))
    if not (scores.min() >= 0 and scores.max() <= 1 and scores.min() < _NEAR and scores.max() > 1 - _NEAR):
        return ()
    return (
        "All scores of the probed samples are between 0 and 1, and some are near both. If they are probabilities, such "
        "as one sigmoid per class, distances may be far too large: let the network return its scores before the "
        "sigmoid.",
    )


def _faint_slopes(model: TorchClassifier, x: Numbers) -> int:
    """Return the number of samples for which the gradient of the margin is too small to locate the boundary."""
    count = 0
    with model.network(x.shape[1:]) as network:
        rows = rows_of(network, x)
        moving = torch.where(network.scale > 0, 1 / network.scale, 0.0)
        apart = float(((rows.amax(dim=0) - rows.amin(dim=0)) * moving).double().norm()) or float("inf")
        for part in torch.split(rows, network.tile):
            with torch.enable_grad():
                tile = padded(part, network.tile).clone().requires_grad_(True)
                best = network.scores(tile).topk(2, dim=1).values
                lead = best[:, 0] - best[:, 1]
                if not lead.requires_grad:
                    return 0  # estimators that need gradients raise an error
                try:
                    (slope,) = torch.autograd.grad(lead.sum(), tile, materialize_grads=True)
                except (RuntimeError, NotImplementedError, TypeError, ValueError):
                    return 0
            steep = (slope * network.scale).double().norm(dim=1)
            found = (steep > 0) & (lead.detach().double() <= _FAINT * apart * steep)
            count += int((~found)[: len(part)].sum())
    return count
