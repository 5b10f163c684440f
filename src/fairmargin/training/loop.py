"""The loop that every method shares: epochs of steps, looked at between them, kept so that nothing is lost."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor, nn

from fairmargin.core.progress import Progress, silent
from fairmargin.store.lock import sole_writer
from fairmargin.training.augmentation import augmented
from fairmargin.training.checkpoints import BEST, LATEST, MIDWAY, Frozen, TrainingFolder, epochs_to_keep
from fairmargin.training.controllers import members
from fairmargin.training.history import Epoch
from fairmargin.training.material import Material
from fairmargin.training.orders import orders_of
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe, TrainingMethod
from fairmargin.training.running import Running, begin, frozen, is_sound, keep, resume, thaw
from fairmargin.training.seeds import generator_of, seed_dropout, seed_of
from fairmargin.training.step import Summed, sum_up
from fairmargin.training.watching import Watch

_SECONDS_BETWEEN_SAVES = 30.0  # what a killed training loses at most, but for the step it was in
_SECONDS_BETWEEN_WORDS = 0.1  # a small network's step takes no longer than saying how it went


@dataclass(frozen=True, slots=True, eq=False)
class Training:
    """What is trained, on what, how; `run` does it.

    Parameters
    ----------
    material
        The samples.
    method, plan, epochs
        How, and how long.
    watch
        What is looked at between epochs.
    identity
        A hash of all that decides the result, so that a folder is never continued by another training.
    folder
        Where it is kept; None for nowhere.
    progress
        Called with (what is being done, steps done, steps in all).
    on_epoch
        Called with each finished epoch.
    """

    material: Material
    method: TrainingMethod
    plan: TrainingPlan
    epochs: int
    watch: Watch
    identity: str
    folder: TrainingFolder | None = None
    progress: Progress = silent
    on_epoch: Callable[[Epoch], None] = silent

    def run(self, module: nn.Module) -> tuple[Running, str]:
        """Train to the end; return the training, and why it stopped early (empty if it did not)."""
        running = begin(module, self.method, self.plan, self.epochs, len(self.material.names))
        if self.folder is None:
            return running, self._run(running, frozen(running))
        self.folder.make()
        with sole_writer(self.folder.path):
            return running, self._run(running, resume(running, self.folder, self.identity))

    def _run(self, running: Running, good: Frozen) -> str:
        """Train to the end; `good` is what the training was at the beginning of its epoch."""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            while running.epoch < self.epochs:
                if self.plan.patience and running.best and running.epoch - running.best >= self.plan.patience:
                    return _no_longer_better(running, self.epochs)
                if running.step == 0:
                    good = frozen(running)
                if not self._epoch(running) or not is_sound(running):
                    stopped = _not_a_number(running)
                    thaw(running, good)
                    return stopped
                self._end_epoch(running)
        return ""

    def _epoch(self, running: Running) -> bool:
        """Run the steps of an epoch that are left; False if a loss is no number."""
        recipe = self.method.recipe(running.epoch, self.epochs)
        if running.step == 0:
            progress = self._while(running, "measuring groups", running.epoch)
            survey = lambda on, how, few: self.watch.survey(running.shown, on, how, few, progress)  # noqa: E731
            running.state = recipe.controller.before_epoch(running.state, running.epoch, self.epochs, survey)
        pools = [members(running.state, part.among, self.material.groups).cpu() for part in recipe.parts]
        orders = orders_of(pools, self.plan.batch, (self.plan.seed, running.epoch))
        saved, told, steps = time.monotonic(), -math.inf, len(orders[0])
        while running.step < steps:
            began = time.monotonic()
            found = self._step(running, recipe, tuple(order[running.step] for order in orders), steps)
            if found is None:
                return False
            self._count(running, found, time.monotonic() - began)
            if self.folder is not None and time.monotonic() - saved > _SECONDS_BETWEEN_SAVES:
                keep(running, self.folder, MIDWAY, self.identity)
                saved = time.monotonic()
            if running.step == steps or time.monotonic() - told > _SECONDS_BETWEEN_WORDS:
                self.progress(_words(running, self.epochs), running.epoch * steps + running.step, self.epochs * steps)
                told = time.monotonic()
        return True

    def _step(self, running: Running, recipe: Recipe, which: tuple[Tensor, ...], steps: int) -> Summed | None:
        """One step down; None if the loss is no number."""
        place = (running.epoch, running.step)
        random = generator_of(self.plan.seed, "step", *place)
        seed_dropout(seed_of(self.plan.seed, "dropout", *place))
        batches = tuple(self.material.batch(indices) for indices in which)
        if self.plan.augmentation != "none":
            batches = tuple(replace(b, x=augmented(b.x, self.plan.augmentation, random)) for b in batches)
        for group in running.optimizer.param_groups:
            group["lr"] = self._rate(running.epoch, running.step, steps)
        running.module.train()
        running.optimizer.zero_grad(set_to_none=True)
        found = sum_up(running.module, recipe, batches, running.state, self.material.room, random)
        if not math.isfinite(float(found.total.detach())):
            return None
        if found.total.requires_grad:
            found.total.backward()  # type: ignore[no-untyped-call]
        running.optimizer.step()
        if running.average is not None:
            running.average.update_parameters(running.module)
        return found

    def _rate(self, epoch: int, step: int, steps: int) -> float:
        return self.plan.rate * self.plan.schedule.factor(epoch + step / steps, self.epochs)

    def _count(self, running: Running, found: Summed, seconds: float) -> None:
        values = [float(found.total.detach()), *(value for _, value in found.terms)]
        running.sums = [a + b for a, b in zip(running.sums or [0.0] * len(values), values, strict=True)]
        running.right, running.seen = running.right + found.right, running.seen + found.seen
        running.state, running.step, running.seconds = found.state, running.step + 1, running.seconds + seconds

    def _end_epoch(self, running: Running) -> None:
        """Look at validation data, add the epoch to the history, and write the checkpoints."""
        look = self.watch.look(running.shown, self._while(running, "looking at validation data", running.epoch + 1))
        rate = self._rate(running.epoch, running.step - 1, running.step)
        learned = _learned(running, self.method.recipe(running.epoch, self.epochs), self.material, rate)
        epoch = replace(learned, **asdict(look))
        if not math.isnan(epoch.natural) and (
            not running.best or epoch.watched > running.history[running.best - 1].watched
        ):
            running.best = epoch.epoch
            running.best_weights = {name: part.detach().clone() for name, part in running.shown.state_dict().items()}
        running.history = (*running.history, epoch)
        running.epoch, running.step, running.sums, running.seconds = running.epoch + 1, 0, [], 0.0
        running.right, running.seen = torch.zeros_like(running.right), torch.zeros_like(running.seen)
        if self.folder is not None:
            self._keep(running, self.folder)
        self.on_epoch(epoch)

    def _keep(self, running: Running, folder: TrainingFolder) -> None:
        if running.epoch in epochs_to_keep(self.epochs, self.plan.keep_every):
            folder.write_weights(folder.epoch_file(running.epoch), running.shown)
        if running.best == running.epoch:
            folder.write_weights(folder.path / BEST, running.shown)
        folder.write_history(running.history)
        keep(running, folder, LATEST, self.identity)  # last: what is repeated after a kill writes the same again
        folder.forget_midway()

    def _while(self, running: Running, doing: str, epochs: int) -> Callable[[int, int], None]:
        """Who is told how many samples are measured between epochs."""
        words = f"epoch {running.epoch + 1} of {self.epochs}: {doing}"
        return lambda done, total: self.progress(f"{words}, {done:,} of {total:,}", epochs, self.epochs)


def _learned(running: Running, recipe: Recipe, material: Material, rate: float) -> Epoch:
    """Summarise an epoch, without the look at validation data."""
    names = [term.name for part in recipe.parts for term in part.terms]
    means = [total / running.step for total in running.sums]
    shares = (running.right.double() / running.seen).nan_to_num(nan=math.inf)  # a group that was not shown is no worst
    worst = int(shares.argmin())
    return Epoch(
        epoch=running.epoch + 1,
        rate=rate,
        seconds=running.seconds,
        loss=means[0],
        terms=tuple(zip(names, means[1:], strict=True)),
        accuracy=int(running.right.sum()) / int(running.seen.sum()),
        worst_group=material.names[worst],
        worst_accuracy=float(shares[worst]),
    )


def _no_longer_better(running: Running, epochs: int) -> str:
    return (
        f"Stopped after epoch {running.epoch} of {epochs}: on validation data the worst group has not become better "
        f"since epoch {running.best}."
    )


def _not_a_number(running: Running) -> str:
    where = f"after epoch {running.epoch}" if running.epoch else "at the start"
    steps = f"{running.step:,} step{'' if running.step == 1 else 's'}"
    return (
        f"Stopped in epoch {running.epoch + 1} after {steps}: the loss or a weight is not a number. The "
        f"weights are those {where}. Lower the rate, or the weight of the method's further terms."
    )


def _words(running: Running, epochs: int) -> str:
    shares = (running.right / running.seen)[running.seen > 0]
    return (
        f"epoch {running.epoch + 1} of {epochs}: loss {running.sums[0] / running.step:.3f}, accuracy "
        f"{int(running.right.sum()) / int(running.seen.sum()):.1%}, worst group {float(shares.min()):.1%}"
    )
