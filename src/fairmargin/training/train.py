"""Training a network by a method of the catalog, in one call."""

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
from fairmargin.training.beforehand import check_arguments, check_method, check_watch, scores_of
from fairmargin.training.catalog import describe_method
from fairmargin.training.checkpoints import FINAL, TrainingFolder
from fairmargin.training.groups import groups_of, groups_there
from fairmargin.training.history import Epoch, as_frame
from fairmargin.training.loop import Training
from fairmargin.training.material import as_material, class_values
from fairmargin.training.notes import notes_on
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.running import identity_of
from fairmargin.training.threads import threads
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
    best_module
        The network after the best epoch; None without validation data.
    notes
        What a person should know before quoting a number.
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
    validation_partition: Partition | None = None,
    plan: TrainingPlan | None = None,
    out: Path | str | None = None,
    progress: Progress | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> TrainingResult:
    """Train a copy of a network; the one given stays as it is.

    Guarantee: the same arguments give the same weights on the same kind of machine, in any process if
    `plan.threads` is given; with `out`, a training that was
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
    validation_partition
        Its groups, where `partition` is one of your own: crossed, say, or merged.
    plan
        Rate, batches, schedule, what is watched, seed, number of threads.
    out
        A folder for checkpoints and history.
    progress
        Called with (what is being done, steps done, steps in all).
    on_epoch
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
    if not isinstance(plan, TrainingPlan):
        raise InputError(f"`plan` must be a `fm.TrainingPlan`; given a {type(plan).__name__}.")
    check_arguments(model, dataset, method, epochs)
    groups = groups_of(dataset, partition)
    there = None if validation is None else groups_there(validation, partition, groups, validation_partition)
    watch = Watch(
        (dataset, groups),
        None if validation is None or there is None else (validation, there),
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
    material = as_material(dataset, positions, groups, classifier.dtype, classifier.device)
    about = {"method": describe_method(method), "plan": plan.model_dump(mode="json"), "epochs": epochs}
    folder = None if out is None else TrainingFolder(Path(out))
    training = Training(
        material,
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
        running, stopped = training.run(model)
    module = running.shown.eval()
    if folder is not None:
        folder.write_weights(folder.path / FINAL, module)
        folder.write_about(
            {
                **about,
                "data": dataset.name,
                "threads": used,
                "stopped": stopped,
                "best_epoch": running.best,
                "notes": notes,
            }
        )
    return TrainingResult(
        module,
        watch.classifier(module),
        running.history,
        running.best,
        stopped,
        folder.path if folder else None,
        _with_weights(module, running.best_weights),
        notes,
    )


def _in_short(found: TrainingResult) -> list[str]:
    """Summarise a training in a few words: the network itself would fill pages."""
    module = found.module.model if isinstance(found.module, Normalized) else found.module
    told = [type(module).__name__, f"{len(found.history)} epoch{'' if len(found.history) == 1 else 's'}"]
    if found.history:
        last = found.history[-1]
        told += [f"loss {last.loss:.4g}", f"accuracy {last.accuracy:.1%}"]
        told.append(f"worst group {last.worst_group!r} {last.worst_accuracy:.1%}")
    told += [f"best epoch {found.best_epoch}"] if found.best_epoch else []
    told += ["stopped early"] if found.stopped else []
    return [*told, f"in {str(found.folder)!r}"] if found.folder else told


def _with_weights(module: nn.Module, weights: dict[str, torch.Tensor]) -> nn.Module | None:
    if not weights:
        return None
    made = copy.deepcopy(module)
    made.load_state_dict(weights)
    return made
