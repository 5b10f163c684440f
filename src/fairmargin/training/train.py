"""Training a network by a method of the catalog, in one call."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from torch import nn

from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.errors import FairmarginError, InputError, ModelError
from fairmargin.models.protocol import check_inside, encode_labels
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.training.catalog import describe_method
from fairmargin.training.checkpoints import FINAL, TrainingFolder
from fairmargin.training.history import Epoch, as_frame
from fairmargin.training.loop import Progress, Training
from fairmargin.training.material import as_material, class_values
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.running import identity_of
from fairmargin.training.watching import Watch


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
    """A trained network and how it came about.

    Parameters
    ----------
    module
        The network after the last epoch, in evaluation mode; the moving average if one was kept.
    classifier
        The same, ready to be measured and audited.
    history
        One entry an epoch.
    best_epoch
        The one with the best worst group on validation data, counted from 1; 0 without such data.
    stopped
        Why it ended before the last epoch; empty if it did not.
    folder
        Where checkpoints lie, if they were kept.
    """

    module: nn.Module
    classifier: TorchClassifier
    history: tuple[Epoch, ...]
    best_epoch: int
    stopped: str
    folder: Path | None = None

    def to_frame(self) -> pd.DataFrame:
        """One row an epoch."""
        return as_frame(self.history)


def train(
    model: nn.Module,
    dataset: Dataset,
    method: TrainingMethod,
    *,
    epochs: int,
    partition: Partition | str | None = None,
    validation: Dataset | None = None,
    plan: TrainingPlan | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
    heard: Callable[[Epoch], None] | None = None,
) -> TrainingResult:
    """Train a copy of a network; the one given stays as it is.

    Guarantee: the same arguments give the same weights on the same kind of machine; with `out`, a training that was
    killed and is started again goes on and comes to the same weights. If the loss is no longer a number the training
    stops with the weights of the last whole epoch.

    Parameters
    ----------
    model
        Takes (n, *shape) and returns one score per class; its weights are the start. Normalisation is part of it.
    dataset
        Samples, labels, attributes and the domain in which attacks stay.
    method
        A row of `fm.METHODS`, for instance `fm.METHODS["fat"](weight=0.5)`.
    epochs
        How often each sample is seen.
    partition
        The groups that the method speaks of: a partition, or the name of an attribute; the classes if left out.
    validation
        Data to look at between epochs, with the same attribute; never what the result is judged on.
    plan
        Rate, batches, schedule, what is watched, seed.
    out
        A folder for checkpoints and history.
    progress
        Called with (what is being done, steps done, steps in all).
    heard
        Called with each finished epoch.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(64, 2))
    >>> data = Dataset(x, (x[:, 0] > 0).astype(int))
    >>> from fairmargin.training.methods import ERM
    >>> torch.manual_seed(0) and None
    >>> found = train(torch.nn.Linear(2, 2), data, ERM(), epochs=5, plan=TrainingPlan(rate=0.5, batch=16))
    >>> found.history[-1].accuracy > 0.9
    True
    """
    plan = TrainingPlan() if plan is None else plan
    _check(model, dataset, method, epochs)
    example = next(iter(model.parameters()), torch.empty(0))
    groups = groups_of(dataset, partition)
    classes = class_values(dataset, _outputs(model, dataset, example))
    watch = Watch(
        (dataset, groups),
        None if validation is None else (validation, _groups_there(validation, partition, groups)),
        classes,
        plan.watch,
        plan.watch_radius,
        plan.watch_samples,
        plan.seed,
    )
    classifier = watch.classifier(model)
    material = as_material(dataset, encode_labels(classifier, dataset.y), groups, example.dtype, example.device)
    about = {"method": describe_method(method), "plan": asdict(plan), "epochs": epochs}
    seen = dataset.fingerprint + ("" if validation is None else validation.fingerprint)
    folder = None if out is None else TrainingFolder(Path(out))
    training = Training(
        material,
        method,
        plan,
        epochs,
        watch,
        identity_of(model, material, about, seen),
        folder,
        progress or _silent,
        heard or _unheard,
    )
    running, stopped = training.run(model)
    module = running.shown.eval()
    if folder is not None:
        folder.write_weights(folder.path / FINAL, module)
        folder.write_about({**about, "data": dataset.name, "stopped": stopped, "best_epoch": running.best})
    return TrainingResult(
        module, watch.classifier(module), running.history, running.best, stopped, folder.path if folder else None
    )


def groups_of(dataset: Dataset, partition: Partition | str | None) -> Partition:
    """The partition, by its name if that is given; by class if nothing is."""
    if isinstance(partition, Partition):
        if len(partition) != len(dataset):
            raise InputError(
                f"The partition has {len(partition):,} samples but the data have {len(dataset):,}. Did you drop rows "
                "from only one of them?"
            )
        return partition
    return dataset.partition(partition or "class")


def _groups_there(validation: Dataset, partition: Partition | str | None, groups: Partition) -> Partition:
    """The same groups of the validation data."""
    name = groups.name if isinstance(partition, Partition) else partition or "class"
    try:
        there = validation.partition(name)
    except InputError as error:
        raise InputError(f"Validation data: {error} Groups of training and validation data must be the same.") from None
    unknown = [label for label in there.labels if label not in groups.labels]
    if unknown:
        raise InputError(
            f"The validation data have a group {unknown[0]!r} of {name!r} that the training data do not have. Leave it "
            "out, or merge it with another in both."
        )
    return there


def _check(model: object, dataset: object, method: object, epochs: object) -> None:
    if not isinstance(model, nn.Module):
        raise ModelError(f"`model` must be a torch module; given a {type(model).__name__}.")
    if not isinstance(dataset, Dataset):
        raise InputError(
            f"`dataset` must be a `fm.Dataset` (samples, labels, attributes, domain); given a {type(dataset).__name__}."
        )
    if isinstance(method, type) or not isinstance(method, TrainingMethod):
        given = f"the class `{method.__name__}`" if isinstance(method, type) else repr(method)
        raise InputError(f"`method` must be a training method such as `fm.METHODS['fat'](weight=0.5)`; given {given}.")
    if not isinstance(epochs, int) or isinstance(epochs, bool) or epochs < 1:
        raise InputError(f"`epochs` must be a whole number, 1 or more; given {epochs!r}.")
    check_inside(dataset.domain, dataset.x[: min(len(dataset), 1024)])


def _outputs(model: nn.Module, dataset: Dataset, example: torch.Tensor) -> int:
    """How many scores the network gives, found by asking it about two samples."""
    from fairmargin.models.torch_model import undisturbed

    two = torch.as_tensor(dataset.x[:2]).to(example)
    try:
        with undisturbed(model), torch.no_grad():
            scores = model(two)
    except FairmarginError:
        raise
    except (RuntimeError, ValueError, TypeError, IndexError, AssertionError) as error:
        first = (str(error) or type(error).__name__).strip().splitlines()[0].rstrip(".")
        raise ModelError(
            f"The network cannot take samples of shape {tuple(two.shape[1:])} ({first}). Is that the shape it was made "
            "for? Images are (channels, height, width)."
        ) from None
    if not isinstance(scores, torch.Tensor) or scores.ndim != 2 or len(scores) != len(two):
        shape: Any = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
        raise ModelError(f"The network must return one score per class, shape (n, classes); it returned {shape}.")
    return int(scores.shape[1])


def _silent(_what: str, _done: int, _total: int) -> None:
    return None


def _unheard(_epoch: Epoch) -> None:
    return None
