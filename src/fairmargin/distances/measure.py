"""Measure distances of samples: check model, samples and labels once, then work shard by shard."""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from fairmargin.core.arrays import Ints
from fairmargin.core.distances import Distances, concatenate
from fairmargin.core.keys import check_seed, sample_keys
from fairmargin.core.progress import Count, silent
from fairmargin.distances.catalog import spelled
from fairmargin.distances.first_use import first_use
from fairmargin.distances.on_tables.search import check_on_table, on_table
from fairmargin.distances.protocol import DistanceEstimator, accepted_norm, keeps_several
from fairmargin.errors import InputError, ModelError
from fairmargin.models.as_classifier import as_classifier
from fairmargin.models.kept_classes import keeping, kept_positions
from fairmargin.models.layers.linear_network import served
from fairmargin.models.probe import probed
from fairmargin.models.protocol import Classifier, Differentiable, as_rows, check_inside, encode_labels, in_model_order
from fairmargin.models.references import Referenced, References, as_references

# Maximum number of samples of a shard, after which progress is reported: fewer if a sample is slow or large.
_MOST, _MOST_OF_A_NETWORK, _FEWEST_OF_A_NETWORK = 1024, 512, 128
_SHARDS = 6  # minimum number of shards of a small audit, so that progress is visible and can be stored
_MEMORY = 4 * 2**30
_CHECKED_AT_ONCE = 2**22  # maximum number of values checked at a time
_ARRAYS = 16  # number of double-precision arrays of a shard's size that an estimator needs at a time

_MISSING = {
    "linear": "its weights, and works on linear models only (scikit-learn's, a pair (weight, bias), or a torch module "
    "whose layers are all affine)",
    "trees": "its trees, and works on decision trees, forests and boosted trees only",
    "gradient": "its gradients",
    "layers": "its layers",
    "predict": "its predictions",
}


def measure(
    model: object,
    x: Any,
    y: Any,
    estimator: DistanceEstimator,
    *,
    seed: int = 0,
    references: Any = None,
    keep: Any = None,
    progress: Count | bool | None = None,
) -> Distances:
    """Measure how far each sample lies from the decision boundary.

    r(x, A) = inf{‖δ‖ : x+δ in the domain, f(x+δ) not in A}; 0 if f(x) is not in A already. A, the classes to keep, is
    the sample's own label unless `keep` is given. With y = the model's own predictions and without `keep` it is the
    distance to the decision boundary, for every sample.

    Guarantee: a sample's result does not depend on the other samples, on their order or on the shards.

    Parameters
    ----------
    model
        Anything that `as_classifier` accepts; pass its result to set a domain.
    x
        Samples of any shape (n, …): an array, a memory map or anything else that slices. The columns of a data frame
        are put in the model's order if the model knows the names of its features.
    y
        One label per sample, a value of the model's `classes`.
    estimator
        The estimator, for instance `ExactLinear(Norm.L2)`.
    seed
        Seed of everything random. A sample's random numbers depend on the seed and on its own content.
    references
        Samples of the same shape, fixed in advance, for instance some of the training data. Where a search by gradients
        finds nothing, it follows the way to the nearest reference that the model assigns to another class, so every
        sample has a distance if there is such a reference. At most 256 are kept. If omitted, noise over the domain is
        used.
    keep
        The classes A to keep, the same for all samples: one label of the model's classes, or several, but not all. Then
        distances do not depend on `y`, and `correct` says whether the model's class is in A. With the favorable
        classes, a distance is the smallest change that loses a favorable decision; with the others, the smallest that
        obtains one.
    progress
        Called with (samples done, number of samples) after each shard; True shows a bar, False shows none. By default a
        bar is shown if standard error is a terminal.

    >>> from fairmargin.distances.exact_linear import ExactLinear
    >>> measure(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [0, 1], ExactLinear()).values.tolist()
    [1.0, 4.0]
    >>> measure(([3.0, 4.0], -5.0), [[0.0, 0.0], [3.0, 4.0]], [0, 1], ExactLinear(), keep=0).values.tolist()
    [1.0, 0.0]
    """
    ready = prepared(model, x, y, estimator, seed, references, keep)
    for warning in ready.warnings:
        warnings.warn(warning, UserWarning, stacklevel=2)
    return concatenate([measure_shard(ready.model, estimator, *shard) for shard in ready.shards(estimator, progress)])


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A checked model and checked samples, in the form that an estimator takes.

    Parameters
    ----------
    model
        The model that is measured, with its references.
    original
        The model as it was given. Its predictions are authoritative.
    samples, positions
        The samples in the model's order of columns, and their class positions.
    seed, kept
        Arguments of `measure_shard`.
    warnings
        Sentences about doubts in the results.
    """

    model: Classifier
    original: Classifier
    samples: Any
    positions: Ints
    seed: int
    kept: tuple[int, ...]
    warnings: tuple[str, ...]

    def shards(
        self, estimator: DistanceEstimator, progress: Count | bool | None
    ) -> Iterator[tuple[Any, Ints, int, tuple[int, ...]]]:
        """Yield the arguments of `measure_shard` for one shard after the other, and report progress."""
        features, count = math.prod(self.samples.shape[1:]), len(self.positions)
        size = shard_size(self.model, features, count, memory=min(_MEMORY, _free_memory() // 2))
        with reported(progress, first_use(estimator, self.model)) as report:
            for start in range(0, count, size):
                stop = min(start + size, count)
                yield self.samples[start:stop], self.positions[start:stop], self.seed, self.kept
                report(stop, count)


def prepared(
    model: object, x: Any, y: Any, estimator: DistanceEstimator, seed: int, references: Any, keep: Any
) -> Prepared:
    """Check all arguments of `measure` and convert them to the form that an estimator takes."""
    check_seed(seed)
    original = as_classifier(model)
    named = in_model_order(original, x)
    samples = named if hasattr(named, "shape") else _array(named)
    classifier = model_for(original, estimator, tuple(samples.shape[1:]))
    kept = kept_positions(classifier, keep)
    check_keep(estimator, kept)
    checked = check_samples(classifier, samples, y)
    original = checked.model if classifier is original else original
    measured = checked.model
    if references is not None:
        fixed = as_references(
            in_model_order(classifier, references, "references"), tuple(samples.shape[1:]), classifier.domain
        )
        measured = with_references(measured, fixed, estimator)
    return Prepared(measured, original, samples, checked.positions, seed, kept, checked.warnings)


def shard_size(model: Classifier, features: int, samples: int, memory: int = _MEMORY) -> int:
    """Return how many samples are measured at a time: whole tiles, as many as fit into the memory.

    Unless `memory` is given it depends on the data and not on the machine, since it is part of the names of shards.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[0.0], [1.0]], [0.0, 0.0])
    >>> shard_size(model, 3 * 32 * 32, 10_000), shard_size(model, 3 * 200 * 200, 10_000)
    (1024, 279)
    """
    most = max(_MOST, min(getattr(model, "at_a_time", 0), math.ceil(samples / _SHARDS)))
    if model.tile > 1:
        most = max(_FEWEST_OF_A_NETWORK, min(_MOST_OF_A_NETWORK, math.ceil(samples / _SHARDS)))
    fitting = memory // (8 * _ARRAYS * max(1, features))
    return max(model.tile, min(math.ceil(most / model.tile), fitting // model.tile) * model.tile)


def measure_shard(
    model: Classifier,
    estimator: DistanceEstimator,
    x: Any,
    y_positions: Ints,
    seed: int = 0,
    kept: tuple[int, ...] = (),
) -> Distances:
    """Measure one checked shard. Serial and parallel runs both call this function, so their results are bit-identical.

    `kept` holds the positions of the classes to keep, as `kept_positions` returns them; empty for each sample's own
    class.
    """
    samples = np.asarray(x)
    measured, classes = keeping(model, y_positions, kept)
    found = on_table(estimator, measured)(measured, samples, classes, keys=sample_keys(samples, classes, seed))
    return replace(found, estimator=spelled(estimator), keep=tuple(model.classes[place] for place in kept))


def with_references(model: Classifier, references: References | None, estimator: DistanceEstimator) -> Classifier:
    """Return the model that the estimator is given: with references if the estimator searches by gradients."""
    if references is None or estimator.needs != "gradient" or "gradient" not in model.offers:
        return model
    return Referenced(cast(Differentiable, model), references)


def model_for(model: Classifier, estimator: DistanceEstimator, shape: tuple[int, ...], name: str = "") -> Classifier:
    """Return the model in the form that an estimator works on; refuse a model that lacks what the estimator needs.

    An estimator of linear models is given an affine network as a linear classifier.

    Parameters
    ----------
    model, estimator
        The model and the estimator.
    shape
        Shape of one sample.
    name
        How the user spelled the estimator, if not by its class.
    """
    found = served(model, getattr(estimator, "needs", ""), shape)
    check_estimator(found, estimator, name)
    return found


def check_estimator(model: Classifier, estimator: DistanceEstimator, name: str = "") -> None:
    """Refuse anything that is not an estimator, and an estimator that needs what the model does not offer.

    `name` is how the user spelled the estimator, if not by its class.
    """
    if isinstance(estimator, type) or not isinstance(estimator, DistanceEstimator):
        given = f"the class `{estimator.__name__}`" if isinstance(estimator, type) else repr(estimator)
        raise InputError(f"`estimator` must be an estimator such as `ExactLinear(norm='l2')`; given {given}.")
    accepted_norm(type(estimator), estimator.norm)
    check_on_table(estimator, model, name or type(estimator).__name__)
    if estimator.needs not in model.offers:
        offered = ", ".join(sorted(model.offers))
        raise ModelError(
            f"`{name or type(estimator).__name__}` needs from the model "
            f"{_MISSING.get(estimator.needs, estimator.needs)}; "
            f"{'this model' if name else f'`{type(model).__name__}`'} offers {offered}. Choose another estimator."
        )


def check_keep(estimator: DistanceEstimator, kept: tuple[int, ...]) -> None:
    """Refuse several classes to keep if the estimator supports a single class only."""
    if len(kept) > 1 and not keeps_several(estimator):
        raise InputError(
            f"`{type(estimator).__name__}` cannot keep several classes. Give `keep` a single class, or choose another "
            "estimator."
        )


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """A model and labels that passed all checks.

    Parameters
    ----------
    model
        The model that is measured.
    positions
        The class position of each label.
    notes, warnings
        Sentences about the model for readers of the results; warnings put the results in doubt.
    """

    model: Classifier
    positions: Ints
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def check_samples(model: Classifier, x: Any, y: Any) -> Checked:
    """Check every sample and label, and the model on some samples, before anything is measured."""
    if hasattr(x, "toarray"):
        raise InputError("`x` is a sparse matrix; pass `x.toarray()`.")
    if len(np.shape(x)) < 2:
        raise InputError(f"`x` must hold one row per sample; its shape is {np.shape(x)}. Pass one sample as `x[None]`.")
    if len(x) == 0:
        raise InputError("`x` is empty. Give at least one sample.")
    if not hasattr(y, "__len__"):
        raise InputError(f"`y` must hold one label per sample; given {y!r}.")
    if len(y) != len(x):
        raise InputError(
            f"`y` has {len(y):,} labels but `x` has {len(x):,} samples. Did you drop rows from only one of them?"
        )
    positions = encode_labels(model, y)
    model.predict(np.array(x[: model.tile]))  # refuses a wrong shape before the work begins
    low, high = getattr(x, "limits", (-math.inf, math.inf))
    inside = (model.domain.low <= low).all() and (high <= model.domain.high).all() and math.isfinite(high - low)
    missing = getattr(model, "accepts_missing", False)
    at_once = max(1, _CHECKED_AT_ONCE // max(1, math.prod(np.shape(x)[1:])))
    for start in () if inside else range(0, len(x), at_once):  # images stored as bytes cannot lie outside
        check_inside(model.domain, as_rows(x[start : start + at_once], start, missing=missing), start)
    found = probed(model, x)
    return Checked(found.model, positions, found.notes, found.warnings)


@contextmanager
def reported(progress: Count | bool | None, sentence: str = "") -> Iterator[Count]:
    """Yield the callback for progress: the caller's, one that updates a bar, or one that does nothing.

    A sentence is shown above the bar.
    """
    if callable(progress):
        yield progress
        return
    from rich.console import Console

    console = Console(stderr=True)
    if progress is False or (progress is None and not console.is_terminal):
        yield silent
        return
    from rich.progress import Progress

    if sentence:
        console.print(sentence, soft_wrap=True)
    with Progress(console=console, transient=True) as bars:
        bar = bars.add_task("measuring", total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _free_memory() -> int:
    """Return the free memory of the system, or a default where the system does not report it."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 2 * _MEMORY


def _array(x: Any) -> Any:
    """Return samples without a shape as an array, or refuse them."""
    try:
        return np.asarray(x)
    except ValueError as error:
        raise InputError(f"The samples of `x` must all have the same shape; {error}.") from None
