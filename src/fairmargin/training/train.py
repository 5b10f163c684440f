"""Train a network by a method of the catalog, in one call."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import torch
from torch import nn

from fairmargin.core.partition import Partition
from fairmargin.core.progress import Progress, silent
from fairmargin.data.dataset import Dataset
from fairmargin.distances.measure import check_samples
from fairmargin.errors import InputError
from fairmargin.models.normalized import Normalized
from fairmargin.models.torch_model import TorchClassifier
from fairmargin.training.catalog import describe_method
from fairmargin.training.loop.checkpoints import FINAL, TrainingFolder
from fairmargin.training.loop.checks import check_arguments, check_method, check_watch, notes_on, scores_of
from fairmargin.training.loop.data import as_tensors, class_values, groups_of, groups_of_validation
from fairmargin.training.loop.epochs import Training
from fairmargin.training.loop.history import Epoch, as_frame
from fairmargin.training.loop.reproducibility import identity_of, threads
from fairmargin.training.loop.validation import Watch
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
    """A trained network and the history of its training.

    Parameters
    ----------
    module
        The network after the last epoch, in evaluation mode; its moving average if one was kept.
    classifier
        The same network as a classifier, ready to be measured and audited.
    history
        One entry per epoch.
    best_epoch
        The epoch with the best worst group on validation data, counted from 1; 0 without such data.
    stopped
        Why the training ended before the last epoch; empty if it did not.
    folder
        The folder of the checkpoints, if they were kept.
    best_module
        The network after the best epoch; None without validation data.
    notes
        Sentences that a person should know before quoting a number.
    """

    module: nn.Module
    classifier: TorchClassifier
    history: tuple[Epoch, ...]
    best_epoch: int
    stopped: str
    folder: Path | None = None
    best_module: nn.Module | None = None
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"TrainingResult({', '.join(_in_short(self))})"

    def to_frame(self) -> pd.DataFrame:
        """Return the history as a data frame with one row per epoch."""
        return as_frame(self.history)


def train(
    model: nn.Module,
    dataset: Dataset,
    method: TrainingMethod,
    *,
    epochs: int,
    partition: Partition | str | None = None,
    validation: Dataset | None = None,
    validation_partition: Partition | None = None,
    plan: TrainingPlan | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> TrainingResult:
    """Train a copy of a network; the given network is not changed.

    Guarantee: the same arguments give the same weights on the same kind of machine, in any process if `plan.threads` is
    given. With `out`, a training that was killed and is started again continues and gives the same weights. If the loss
    is no longer finite, the training stops with the weights of the last complete epoch.

    Parameters
    ----------
    model
        Takes (n, *shape) and returns one score per class; the training starts from its weights. Normalisation is part
        of the model.
    dataset
        Samples, labels, attributes and the domain that attacks respect.
    method
        A training method, for instance `fm.METHODS["fat"](weight=0.5)`.
    epochs
        Number of times that each sample is used.
    partition
        The groups that the method compares: a partition, or the name of an attribute; by default the classes.
    validation
        Data that are evaluated after each epoch, with the same attribute; not the data that the result is judged on.
    validation_partition
        The groups of the validation data, if `partition` is not an attribute, for instance a crossed or merged
        partition.
    plan
        Rate, batches, schedule, validation, seed, number of threads.
    out
        A folder for checkpoints and history.
    progress
        Called with (description, steps done, number of steps).
    on_epoch
        Called with each finished epoch.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(64, 2))
    >>> data = Dataset(x, (x[:, 0] > 0).astype(int))
    >>> from fairmargin.training.methods.plain import ERM
    >>> torch.manual_seed(0) and None
    >>> found = train(torch.nn.Linear(2, 2), data, ERM(), epochs=5, plan=TrainingPlan(rate=0.5, batch=16))
    >>> found.history[-1].accuracy > 0.9
    True
    """
    plan = TrainingPlan() if plan is None else plan
    if not isinstance(plan, TrainingPlan):
        raise InputError(f"`plan` must be a `fm.TrainingPlan`; given a {type(plan).__name__}.")
    check_arguments(model, dataset, method, epochs)
    groups = groups_of(dataset, partition)
    validation_groups = (
        None if validation is None else groups_of_validation(validation, partition, groups, validation_partition)
    )
    watch = Watch(
        (dataset, groups),
        None if validation is None or validation_groups is None else (validation, validation_groups),
        class_values(dataset, scores_of(model, dataset)),
        plan.watch,
        plan.watch_radius,
        plan.watch_samples,
        plan.seed,
    )
    classifier = watch.classifier(model)
    positions = check_samples(classifier, dataset.x, dataset.y).positions
    check_watch(watch, model, plan.patience)
    check_method(method, epochs, model, watch)
    notes = notes_on(method, watch, positions)
    tensors = as_tensors(dataset, positions, groups, classifier.dtype, classifier.device)
    about = {"method": describe_method(method), "plan": plan.model_dump(mode="json"), "epochs": epochs}
    folder = None if out is None else TrainingFolder(Path(out))
    training = Training(
        tensors,
        method,
        plan,
        epochs,
        watch,
        identity_of(model, method, epochs, plan, watch.fingerprint()),
        folder,
        progress or silent,
        on_epoch or silent,
    )
    with threads(plan.threads):
        used = torch.get_num_threads()
        state, stopped = training.run(model)
    module = state.result.eval()
    if folder is not None:
        folder.write_weights(folder.path / FINAL, module)
        folder.write_about(
            {
                **about,
                "data": dataset.name,
                "threads": used,
                "stopped": stopped,
                "best_epoch": state.best,
                "notes": notes,
            }
        )
    return TrainingResult(
        module,
        watch.classifier(module),
        state.history,
        state.best,
        stopped,
        folder.path if folder else None,
        _with_weights(module, state.best_weights),
        notes,
    )


def _in_short(found: TrainingResult) -> list[str]:
    """Return a summary of a training in a few words; the `repr` of the network would fill pages."""
    module = found.module.model if isinstance(found.module, Normalized) else found.module
    parts = [type(module).__name__, f"{len(found.history)} epoch{'' if len(found.history) == 1 else 's'}"]
    if found.history:
        last = found.history[-1]
        parts += [f"loss {last.loss:.4g}", f"accuracy {last.accuracy:.1%}"]
        parts.append(f"worst group {last.worst_group!r} {last.worst_accuracy:.1%}")
    parts += [f"best epoch {found.best_epoch}"] if found.best_epoch else []
    parts += ["stopped early"] if found.stopped else []
    return [*parts, f"in {str(found.folder)!r}"] if found.folder else parts


def _with_weights(module: nn.Module, weights: dict[str, torch.Tensor]) -> nn.Module | None:
    """Return a copy of the module with these weights; None if there are none."""
    if not weights:
        return None
    best = copy.deepcopy(module)
    best.load_state_dict(weights)
    return best
