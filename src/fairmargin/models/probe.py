"""Checks of a model on some of the samples, before distances are measured.

A distance is defined only if the output of a model for a sample depends on nothing else. Models that modify their
input, that are random, or whose outputs depend on the other samples of a batch are refused.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.errors import FairmarginError, ModelError
from fairmargin.models.linear import LinearClassifier
from fairmargin.models.protocol import Classifier, Differentiable

if TYPE_CHECKING:
    from torch import Tensor

    from fairmargin.models.network import Network

Numbers = npt.NDArray[Any]
Evaluate = Callable[[Numbers], Numbers]  # from samples to one row of comparable scores each, or to one label
Batch = tuple[str, Numbers, Numbers]  # description of a batch, positions of some samples, and the outputs for them

_SAMPLES = 32
_BESIDE = 96  # inputs that are evaluated together with the samples
_ALONE = 4  # samples that are also evaluated one by one
# The scores of a sample can differ between batches by rounding, since products are added in another order. The square
# root of the precision is far above such differences, and far below real dependencies on the batch.
_PRECISION = float(np.finfo(np.float32).eps)
_COARSE = 4e-4  # precision for batches of other sizes, since networks may use half precision internally
_REFUSALS = (RuntimeError, ValueError, TypeError, IndexError, AssertionError)


@dataclass(frozen=True, slots=True, eq=False)
class Probed:
    """A model that passed all checks.

    Parameters
    ----------
    model
        The model to be measured; for a network, the kind of its outputs is known.
    notes, warnings
        Sentences about the model for readers of the results; warnings are notes that question the results.
    """

    model: Classifier
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def probed(model: Classifier, x: Any) -> Probed:
    """Check a model on some of the samples, and determine the kind of its outputs.

    Guarantee: the samples are never modified. A model that modifies its input, is random or depends on the batch raises
    a `ModelError` with the number of affected samples and the size of the differences.

    Parameters
    ----------
    model
        Any classifier.
    x
        The samples to be measured; up to 32 of them, spread evenly, are used.

    >>> probed(LinearClassifier([[0.0], [1.0]], [0.0, -1.0]), np.zeros((3, 1))).notes
    ()
    """
    if isinstance(model, LinearClassifier):
        return Probed(model)  # our own code, in which samples are independent
    samples = _spread(x)
    if not _is_network(model):
        _check_predictions(model, samples)
        return Probed(model)
    from fairmargin.models.output_notes import notes_on_outputs
    from fairmargin.models.torch_model import TorchClassifier

    if not isinstance(model, TorchClassifier):
        _check_network(model, samples)  # type: ignore[arg-type]
        _check_predictions(model, samples)
        return Probed(model)
    known = model.with_outputs_for(samples)
    _check_network(known, samples)  # predictions are computed from the same scores
    return Probed(known, *notes_on_outputs(known, x, samples))


def _spread(x: Any) -> Numbers:
    """Return copies of up to 32 samples, spread evenly, since the first ones may all have one class."""
    places = np.unique(np.linspace(0, len(x) - 1, _SAMPLES).astype(np.int64))
    return np.concatenate([np.asarray(x[i : i + 1]) for i in places.tolist()])


def _is_network(model: Classifier) -> bool:
    return "gradient" in model.offers and isinstance(model, Differentiable)


def _check_network(model: Differentiable, x: Numbers) -> None:
    """Check the scores that a search follows, in full tiles of rows, as in a measurement."""
    import torch

    from fairmargin.models.network import finite, padded, rows_of

    shape, comparable = x.shape[1:], _comparable(model)
    with model.network(shape) as network:
        rows = rows_of(network, x)
        tile = padded(rows[: network.tile], network.tile)
        _check_tensor_unchanged(network, tile)
        finite(network.plain(tile))

        def evaluate(samples: Numbers) -> Numbers:
            batch = torch.as_tensor(samples.copy(), device=network.device).to(network.dtype)
            tiles = [padded(part, network.tile) for part in torch.split(batch, network.tile)]
            return np.concatenate([comparable(network.plain(tile)) for tile in tiles])[: len(samples)]

        precision = float(torch.finfo(network.dtype).eps)
        # Through numpy in double precision, which represents every number of a network exactly.
        flat, moved = (each.double().cpu().numpy() for each in (rows, _inside(network, 0.75 * rows)))
        first = evaluate(flat)
        _check_again(first, evaluate(flat), precision)
        if network.tile > 1:
            _check_batches(first, _batches(flat, moved, evaluate), precision)
    _check_batches(first, _other_sizes(model, shape, rows), max(precision, _COARSE))


def _check_tensor_unchanged(network: "Network", tile: "Tensor") -> None:
    given = tile.clone()
    version = given._version  # counts every in-place operation, even one that changes no value
    network.plain(given)
    changed = (given != tile).cpu().numpy()
    if changed.any() or given._version != version:
        raise _in_place(int(changed.sum()), changed.size, float((given - tile).abs().max()), "x = x.clone()")


def _comparable(model: Any) -> Callable[["Tensor"], Numbers]:
    """Return a function from scores to comparable numbers: log-odds, imprecise near 0 and 1, become probabilities."""
    outputs = getattr(model, "outputs", None)

    def comparable(scores: "Tensor") -> Numbers:
        same = scores.double()
        if outputs is not None and outputs.searched_as_log_odds:
            same = same.softmax(dim=1)
        return np.asarray(same.cpu().numpy())

    return comparable


def _inside(network: "Network", rows: "Tensor") -> "Tensor":
    return rows.clamp(network.low, network.high)


def _other_sizes(model: Any, shape: tuple[int, ...], rows: "Tensor") -> Iterator[Batch]:
    """Evaluate a torch module in batches smaller than a tile, if it supports other batch sizes."""
    from fairmargin.models.torch_model import TorchClassifier

    if not isinstance(model, TorchClassifier) or model.tile == 1:
        return
    comparable = _comparable(model)
    for size in {1, len(rows) // 2 + 1} - {model.tile}:
        with replace(model, tile=size).network(shape) as network:
            try:
                answers = comparable(network.plain(rows[:size].clone()))
            except FairmarginError:
                continue  # for instance because the module has a fixed batch size
        yield f"in a batch of {size} instead of {model.tile}", np.arange(size), answers


def _check_predictions(model: Classifier, x: Numbers) -> None:
    """Check the predictions of a model, and its scores if it has any."""
    scored = _scored(model, x)
    _check_positions(model, _outputs_unless_modified(model.predict, x), len(x))
    if scored is not None:
        _outputs_unless_modified(scored, x)

    def evaluate(samples: Numbers) -> Numbers:
        given = np.array(samples, dtype=x.dtype)  # a contiguous copy, since samples can be a view
        return np.asarray(model.predict(given))[:, None] if scored is None else scored(given)

    first = evaluate(x)
    _check_again(first, evaluate(x), _PRECISION)
    _check_batches(first, _batches(x, None, evaluate), _PRECISION)


def _outputs_unless_modified(call: Evaluate, x: Numbers) -> Any:
    """Return the outputs for a copy of the samples, which must not be modified."""
    given = x.copy()
    answers = call(given)
    changed = (given != x) & ((given == given) | (x == x))  # NaN is unchanged
    if changed.any():
        most = np.abs(given[changed].astype(np.float64) - x[changed].astype(np.float64)).max()
        raise _in_place(int(changed.sum()), changed.size, float(most), "x = x.copy()")
    return answers


def _check_positions(model: Classifier, answers: Any, count: int) -> None:
    """Check that predictions are one class position per sample."""
    name = f"`{type(model).__name__}.predict`"
    if not hasattr(answers, "shape"):
        raise ModelError(
            f"{name} must return an array of class positions; it returned a `{type(answers).__name__}`. Return "
            "`np.asarray(…)` of it."
        )
    positions = np.asarray(answers)
    if positions.shape != (count,):
        raise ModelError(
            f"{name} must return one class position for each of {count} samples; it returned shape {positions.shape}."
        )
    strange = positions[~np.isin(positions, np.arange(len(model.classes)))]
    if strange.size:
        raise ModelError(
            f"{name} must return class positions from 0 to {len(model.classes) - 1}; it returned "
            f"{strange.tolist()[0]!r}. Return the position of each label in `classes`."
        )


def _scored(model: Any, x: Numbers) -> Evaluate | None:
    """Return the method `scores` of the model if it gives one number per class for each sample, else None."""
    scores = getattr(model, "scores", None)
    if not callable(scores):
        return None
    try:
        tried = np.asarray(scores(x.copy()), dtype=np.float64)
    except _REFUSALS:
        return None  # a method with another meaning
    if tried.shape != (len(x), len(model.classes)) or not np.isfinite(tried).all():
        return None
    return lambda samples: np.asarray(scores(samples), dtype=np.float64)


def _batches(x: Numbers, moved: Numbers | None, evaluate: Evaluate) -> Iterator[Batch]:
    """Evaluate the same samples in other batches; small batches that the model refuses are skipped."""
    everyone = np.arange(len(x))
    if len(x) > 1:
        yield "when their order is reversed", everyone, evaluate(x[::-1])[::-1]
    if moved is not None:
        yield "with other samples beside them", everyone, evaluate(np.concatenate([x, moved]))[: len(x)]
    else:  # labels change only if a batch has a large effect, so add many copies of extreme inputs
        for words, corner in (("large", x.max(axis=0)), ("small", x.min(axis=0))):
            beside = np.repeat(corner[None], _BESIDE, axis=0)
            try:
                answers = evaluate(np.concatenate([x, beside]))
            except _REFUSALS:
                continue
            yield f"with {_BESIDE} {words} inputs beside them", everyone, answers[: len(x)]
    parts = [everyone[: len(x) // 2], everyone[len(x) // 2 :], *everyone[:_ALONE, None]]
    for which in filter(len, parts):
        try:
            answers = evaluate(x[which])
        except _REFUSALS:
            continue
        yield f"in a batch of {len(which)} instead of {len(x)} samples", which, answers


def _check_again(first: Numbers, second: Numbers, precision: float) -> None:
    """Refuse a model with different outputs for equal inputs, because it has no fixed decision boundary."""
    apart = _apart(first, second, first, precision)
    if apart.any():
        raise ModelError(
            "The model returns different outputs when the same inputs are evaluated again, so it is random even in "
            f"evaluation mode (the outputs for {apart.sum()} of {len(first)} samples differ, by up to "
            f"{np.abs(first - second).max():.2g}). Make it deterministic, or measure a smoothed version of it."
        )


def _check_batches(first: Numbers, others: Iterator[Batch], precision: float) -> None:
    """Refuse a model whose output for a sample depends on the other samples of the batch."""
    differing, most, first_words = np.zeros(len(first), dtype=bool), 0.0, ""
    relabelled = np.zeros(len(first), dtype=bool)
    for words, which, answers in others:
        apart = _apart(first[which], answers, first, precision)
        if not apart.any():
            continue
        first_words = first_words or words
        differing[which] |= apart
        labels = [a.argmax(axis=1) if a.shape[1] > 1 else a[:, 0] for a in (first[which], answers)]
        relabelled[which] |= apart & (labels[0] != labels[1])
        if first.shape[1] > 1:
            most = max(most, float(np.abs(first[which] - answers)[apart].max()))
    if not differing.any():
        return
    scores = f"the scores of {differing.sum()} of {len(first)} samples change by up to {most:.2g}, and "
    raise ModelError(
        "The model's output for a sample depends on the other samples of its batch, so its distance is not "
        f"defined: {scores if first.shape[1] > 1 else ''}the predictions of {relabelled.sum()} of {len(first)} samples "
        f"change, for instance {first_words}. Normalise each sample alone or by fixed statistics: BatchNorm with "
        "`track_running_stats=True` and trained statistics, or a mean and deviation of the training data."
    )


def _apart(first: Numbers, second: Numbers, every: Numbers, precision: float) -> npt.NDArray[np.bool_]:
    """Return which rows differ by more than rounding; labels, one number per row, differ if they are not equal.

    Scores are compared up to a common offset, relative to their differences between classes.
    """
    if first.shape[1] == 1:
        return np.asarray((first != second).any(axis=1))
    centred, other, whole = (each - each.mean(axis=1, keepdims=True) for each in (first, second, every))
    usual = float(np.median(np.abs(whole).max(axis=1)))
    size = np.maximum(np.abs(centred).max(axis=1), usual)
    rounding = max(precision, _PRECISION)
    allowed = rounding**0.5 * size + 100 * rounding * np.abs(first).max(axis=1)
    return np.asarray(~(np.abs(centred - other).max(axis=1) <= allowed))


def _in_place(changed: int, total: int, most: float, remedy: str) -> ModelError:
    return ModelError(
        f"The model modifies its input in place: {changed:,} of {total:,} numbers of the probed samples changed, by up "
        f"to {most:.2g}, so that other inputs than the samples would be measured. Let it work on a copy, by starting "
        f"with `{remedy}`."
    )
