"""The loop that all methods share: steps, epochs, validation and checkpoints."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from fairmargin.core.progress import Progress, silent
from fairmargin.errors import ModelError
from fairmargin.store.lock import sole_writer
from fairmargin.training.loop.checkpoints import BEST, LATEST, MIDWAY, Snapshot, TrainingFolder, epochs_to_keep
from fairmargin.training.loop.data import TrainingTensors, augmented, orders_of
from fairmargin.training.loop.history import Epoch
from fairmargin.training.loop.reproducibility import generator_of, seed_dropout, seed_of
from fairmargin.training.loop.state import TrainingState, begin, is_sound, restore, resume, save_snapshot, take_snapshot
from fairmargin.training.loop.validation import Watch
from fairmargin.training.parts.aggregates import State
from fairmargin.training.parts.batch import CLEAN, MOVED, Batch, Losses, Space, Views
from fairmargin.training.parts.controllers import Controller, members
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Part, Recipe, Term, TrainingMethod

_SECONDS_BETWEEN_SAVES = 30.0  # maximum work that a killed training loses, apart from the current step
_SECONDS_BETWEEN_REPORTS = 0.1  # a small network's step takes no longer than a report of progress


@dataclass(frozen=True, slots=True, eq=False)
class StepResult:
    """The result of one step: the loss, its terms by name, the controller's new state, and counts per group.

    The counts are those of samples that were used (`seen`), and of those that were classified correctly (`right`).
    """

    total: Tensor
    terms: tuple[tuple[str, float], ...]
    state: State
    right: Tensor
    seen: Tensor


def sum_up(
    module: nn.Module, recipe: Recipe, batches: tuple[Batch, ...], state: State, space: Space, random: torch.Generator
) -> StepResult:
    """Return the loss of one step; each view of each batch, and each sample loss, is computed once.

    There is one batch for each part of the recipe; `random` gives the random numbers of the adversaries.
    """
    total, terms = torch.zeros((), device=space.scale.device, dtype=space.scale.dtype), []
    right, seen = torch.zeros(2, len(batches[0].names), dtype=torch.int64)
    for number, (part, batch) in enumerate(zip(recipe.parts, batches, strict=True)):
        if not len(batch):  # no sample belongs to this part
            terms += [(term.name, 0.0) for term in part.terms]
            continue
        views = Views(module, batch, space, random, part.adversary)
        controller = recipe.controller if number == 0 else None
        values, state = _values(part, views, state, controller)
        total = total + sum(values)
        terms += [(term.name, float(value.detach())) for term, value in zip(part.terms, values, strict=True)]
        predicted = _predictions(views)
        right += torch.bincount(batch.groups[predicted == batch.y], minlength=len(batch.names)).cpu()
        seen += torch.bincount(batch.groups, minlength=len(batch.names)).cpu()
    return StepResult(total, tuple(terms), state, right, seen)


def _values(part: Part, views: Views, state: State, controller: Controller | None) -> tuple[list[Tensor], State]:
    """Return the value of each term of a part, and the new state of the controller."""
    known: dict[Any, Losses] = {}
    values = []
    for term in part.terms:
        if term.loss not in known:
            losses = term.loss(views)
            if not isinstance(losses, Losses):
                raise _unexpected(losses, "loss", term, "`Losses`, one number per sample")
            known[term.loss] = losses
            if controller is not None and len(known) == 1:
                state = controller.after_losses(state, losses)
        value = term.aggregate(known[term.loss], state)
        if not isinstance(value, Tensor) or value.ndim:
            expected = "one number, a tensor of shape ()"
            raise _unexpected(value, "aggregate", term, expected, " Take a sum or a mean of it.")
        values.append(term.weight * value)
    return values, state


def _unexpected(returned: object, role: str, term: Term, expected: str, advice: str = "") -> ModelError:
    """Return the error for a custom loss or aggregate that returned something else than expected."""
    piece = getattr(term, role)
    kind = f"tensor of shape {tuple(returned.shape)}" if isinstance(returned, Tensor) else type(returned).__name__
    return ModelError(
        f"`{getattr(piece, '__name__', type(piece).__name__)}`, the {role} of the term {term.name!r}, must return "
        f"{expected}; it returned a {kind}.{advice}"
    )


def _predictions(views: Views) -> Tensor:
    """Return the predicted class of each sample in the first view that was computed."""
    for view in (CLEAN, MOVED):
        if view in views.known:
            return views.scores(view)[: len(views.batch)].detach().argmax(dim=1)
    raise ModelError("The method has no loss that uses the network's scores. Add one to its recipe.")


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """A training: data, method and settings; `run` carries it out.

    `identity` is a hash of everything that decides the result, so that a folder is never continued by another training;
    without a folder nothing is stored. For `progress` and `on_epoch` see `train`.
    """

    tensors: TrainingTensors
    method: TrainingMethod
    plan: TrainingPlan
    epochs: int
    watch: Watch
    identity: str
    folder: TrainingFolder | None = None
    progress: Progress = silent
    on_epoch: Callable[[Epoch], None] = silent

    def run(self, module: nn.Module) -> tuple[TrainingState, str]:
        """Train to the end; return the state and why the training stopped early (empty if it did not)."""
        running = begin(module, self.method, self.plan, self.epochs, len(self.tensors.names))
        if self.folder is None:
            return running, self._run(running, take_snapshot(running))
        self.folder.make()
        with sole_writer(self.folder.path):
            return running, self._run(running, resume(running, self.folder, self.identity))

    def _run(self, running: TrainingState, start: Snapshot) -> str:
        """Train to the end; `start` is the state at the beginning of the epoch."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            while running.epoch < self.epochs:
                if self.plan.patience and running.best and running.epoch - running.best >= self.plan.patience:
                    return _not_improving(running, self.epochs)
                if running.step == 0:
                    start = take_snapshot(running)
                if not self._epoch(running) or not is_sound(running):
                    stopped = _not_finite(running)
                    restore(running, start)
                    return stopped
                self._end_epoch(running)
        return ""

    def _epoch(self, running: TrainingState) -> bool:
        """Run the remaining steps of the epoch. Return False if a loss is not finite."""
        recipe = self.method.recipe(running.epoch, self.epochs)
        if running.step == 0:
            progress = self._report(running, "measuring groups", running.epoch)
            survey = partial(self.watch.survey, running.result, progress=progress)
            running.state = recipe.controller.before_epoch(running.state, running.epoch, self.epochs, survey)
        pools = [members(running.state, part.among, self.tensors.groups).cpu() for part in recipe.parts]
        orders = orders_of(pools, self.plan.batch, (self.plan.seed, running.epoch))
        saved, reported, steps = time.monotonic(), -math.inf, len(orders[0])
        while running.step < steps:
            began = time.monotonic()
            found = self._step(running, recipe, tuple(order[running.step] for order in orders), steps)
            if found is None:
                return False
            self._count(running, found, time.monotonic() - began)
            if self.folder is not None and time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                save_snapshot(running, self.folder, MIDWAY, self.identity)
                saved = time.monotonic()
            if running.step == steps or time.monotonic() - reported > _SECONDS_BETWEEN_REPORTS:
                done = running.epoch * steps + running.step
                self.progress(_progress_text(running, self.epochs), done, self.epochs * steps)
                reported = time.monotonic()
        return True

    def _step(self, running: TrainingState, recipe: Recipe, which: tuple[Tensor, ...], steps: int) -> StepResult | None:
        """Make one step; return None if the loss is not finite."""
        place = (running.epoch, running.step)
        random = generator_of(self.plan.seed, "step", *place)
        seed_dropout(seed_of(self.plan.seed, "dropout", *place))
        batches = tuple(self.tensors.batch(indices) for indices in which)
        if self.plan.augmentation != "none":
            batches = tuple(replace(b, x=augmented(b.x, self.plan.augmentation, random)) for b in batches)
        for group in running.optimizer.param_groups:
            group["lr"] = self._rate(running.epoch, running.step, steps)
        running.module.train()
        running.optimizer.zero_grad(set_to_none=True)
        found = sum_up(running.module, recipe, batches, running.state, self.tensors.space, random)
        if not math.isfinite(float(found.total.detach())):
            return None
        if found.total.requires_grad:
            found.total.backward()  # type: ignore[no-untyped-call]
        running.optimizer.step()
        if running.average is not None:
            running.average.update_parameters(running.module)
        return found

    def _rate(self, epoch: int, step: int, steps: int) -> float:
        """Return the learning rate of a step."""
        return self.plan.rate * self.plan.schedule.factor(epoch + step / steps, self.epochs)

    def _count(self, running: TrainingState, found: StepResult, seconds: float) -> None:
        """Add the result of a step to the sums of the epoch."""
        values = [float(found.total.detach()), *(value for _, value in found.terms)]
        running.sums = [a + b for a, b in zip(running.sums or [0.0] * len(values), values, strict=True)]
        running.right, running.seen = running.right + found.right, running.seen + found.seen
        running.state, running.step, running.seconds = found.state, running.step + 1, running.seconds + seconds

    def _end_epoch(self, running: TrainingState) -> None:
        """Evaluate the network on validation data, add the epoch to the history, and write the checkpoints."""
        report = self._report(running, "evaluating validation data", running.epoch + 1)
        accuracies = self.watch.accuracies(running.result, report)
        rate = self._rate(running.epoch, running.step - 1, running.step)
        measured = _results_of_epoch(running, self.method.recipe(running.epoch, self.epochs), self.tensors, rate)
        epoch = replace(measured, **asdict(accuracies))
        if not math.isnan(epoch.natural) and (
            not running.best or epoch.watched > running.history[running.best - 1].watched
        ):
            running.best = epoch.epoch
            running.best_weights = {name: part.detach().clone() for name, part in running.result.state_dict().items()}
        running.history = (*running.history, epoch)
        running.epoch, running.step, running.sums, running.seconds = running.epoch + 1, 0, [], 0.0
        running.right, running.seen = torch.zeros_like(running.right), torch.zeros_like(running.seen)
        if self.folder is not None:
            self._store(running, self.folder)
        self.on_epoch(epoch)

    def _store(self, running: TrainingState, folder: TrainingFolder) -> None:
        """Write the checkpoints and the history after an epoch."""
        if running.epoch in epochs_to_keep(self.epochs, self.plan.keep_every):
            folder.write_weights(folder.epoch_file(running.epoch), running.result)
        if running.best == running.epoch:
            folder.write_weights(folder.path / BEST, running.result)
        folder.write_history(running.history)
        # Last, since steps that are repeated after a kill write the same files again.
        save_snapshot(running, folder, LATEST, self.identity)
        folder.remove_midway()

    def _report(self, running: TrainingState, doing: str, epochs: int) -> Callable[[int, int], None]:
        """Return a callback that reports the number of samples measured between epochs."""
        what = f"epoch {running.epoch + 1} of {self.epochs}: {doing}"
        return lambda done, total: self.progress(f"{what}, {done:,} of {total:,}", epochs, self.epochs)


def _results_of_epoch(running: TrainingState, recipe: Recipe, tensors: TrainingTensors, rate: float) -> Epoch:
    """Return the results of an epoch without those on validation data."""
    names = [term.name for part in recipe.parts for term in part.terms]
    means = [total / running.step for total in running.sums]
    # A group without samples in this epoch is not the worst.
    shares = (running.right.double() / running.seen).nan_to_num(nan=math.inf)
    worst = int(shares.argmin())
    return Epoch(
        epoch=running.epoch + 1,
        rate=rate,
        seconds=running.seconds,
        loss=means[0],
        terms=tuple(zip(names, means[1:], strict=True)),
        accuracy=int(running.right.sum()) / int(running.seen.sum()),
        worst_group=tensors.names[worst],
        worst_accuracy=float(shares[worst]),
    )


def _not_improving(running: TrainingState, epochs: int) -> str:
    """Return the sentence for a training that `patience` stopped."""
    return (
        f"Stopped after epoch {running.epoch} of {epochs}: the worst group's accuracy on validation data has not "
        f"improved since epoch {running.best}."
    )


def _not_finite(running: TrainingState) -> str:
    """Return the sentence for a training whose loss or weights are not finite."""
    where = f"after epoch {running.epoch}" if running.epoch else "at the start"
    steps = f"{running.step:,} step{'' if running.step == 1 else 's'}"
    return (
        f"Stopped in epoch {running.epoch + 1} after {steps}: the loss or a weight is not a number. The "
        f"weights are those {where}. Lower the rate, or the weights of the method's other terms."
    )


def _progress_text(running: TrainingState, epochs: int) -> str:
    """Return the text that describes the progress of an epoch."""
    shares = (running.right / running.seen)[running.seen > 0]
    return (
        f"epoch {running.epoch + 1} of {epochs}: loss {running.sums[0] / running.step:.3f}, accuracy "
        f"{int(running.right.sum()) / int(running.seen.sum()):.1%}, worst group {float(shares.min()):.1%}"
    )
