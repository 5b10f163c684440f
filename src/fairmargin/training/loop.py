"""The loop that every method shares: epochs of steps, looked at between them, kept so that nothing is lost."""

import copy
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor, nn

from fairmargin.store.lock import sole_writer
from fairmargin.training.augmentation import augmented
from fairmargin.training.checkpoints import BEST, TrainingFolder, epochs_to_keep
from fairmargin.training.controllers import members
from fairmargin.training.history import Epoch
from fairmargin.training.material import Material
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import Recipe, TrainingMethod
from fairmargin.training.running import Running, begin, frozen, resume
from fairmargin.training.seeds import generator_of, seed_of
from fairmargin.training.step import Summed, sum_up
from fairmargin.training.watching import Watch

Progress = Callable[[str, int, int], None]  # what is being done, how much is done, of how much
_SECONDS_BETWEEN_SAVES = 60.0


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
    tell
        Who is told how far it is.
    heard
        Called with each finished epoch.
    """

    material: Material
    method: TrainingMethod
    plan: TrainingPlan
    epochs: int
    watch: Watch
    identity: str
    folder: TrainingFolder | None = None
    tell: Progress = lambda _what, _done, _total: None
    heard: Callable[[Epoch], None] = lambda _epoch: None

    def run(self, module: nn.Module) -> tuple[Running, str]:
        """The training at its end, and why it stopped early; empty if it did not."""
        if self.folder is None:
            return self._run(self._begin(module), time.monotonic)
        self.folder.make()
        with sole_writer(self.folder.path):
            running = self._begin(module)
            resume(running, self.folder, self.identity)
            try:
                return self._run(running, time.monotonic)
            except KeyboardInterrupt:
                self.folder.write_latest(*frozen(running, self.identity))
                raise

    def _begin(self, module: nn.Module) -> Running:
        return begin(module, self.method, self.plan, self.epochs, len(self.material.names))

    def _run(self, running: Running, clock: Callable[[], float]) -> tuple[Running, str]:
        saved = clock()
        stopped = ""
        with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
            while running.epoch < self.epochs and not stopped:
                good = copy.deepcopy(running.module.state_dict())
                recipe = self.method.recipe(running.epoch, self.epochs)
                if running.step == 0:
                    survey = lambda on, how, few: self.watch.survey(running.shown, on, how, few)  # noqa: E731
                    running.state = recipe.controller.before_epoch(running.state, running.epoch, self.epochs, survey)
                orders = self._orders(recipe, running)
                while running.step < len(orders[0]):
                    began = clock()
                    found = self._step(running, recipe, tuple(order[running.step] for order in orders), len(orders[0]))
                    if found is None:
                        running.module.load_state_dict(good)
                        stopped = _not_a_number(running)
                        break
                    self._count(running, found, clock() - began)
                    self.tell(_words(running, self.epochs), self._done(running, len(orders[0])), self._total(orders))
                    if self.folder is not None and clock() - saved > _SECONDS_BETWEEN_SAVES:
                        self.folder.write_latest(*frozen(running, self.identity))
                        saved = clock()
                if not stopped:
                    stopped = self._end_epoch(running)
                    saved = clock()
        return running, stopped

    def _orders(self, recipe: Recipe, running: Running) -> list[list[Tensor]]:
        """For each part the samples of each step: batches of nearly one size; a part with fewer samples repeats them."""
        everyone = self.material.groups
        pools = [members(running.state, part.among, everyone).nonzero().flatten().cpu() for part in recipe.parts]
        steps = math.ceil(max(map(len, pools)) / self.plan.batch)
        orders = []
        for number, pool in enumerate(pools):
            random = generator_of(self.plan.seed, "order", running.epoch, number)
            rounds = math.ceil(steps * min(self.plan.batch, len(pool)) / len(pool)) if len(pool) else 0
            drawn = torch.cat([pool[torch.randperm(len(pool), generator=random)] for _ in range(max(rounds, 1))])
            if rounds > 1:
                drawn = drawn[: steps * self.plan.batch]
            orders.append(list(drawn.tensor_split(steps)))
        return orders

    def _step(self, running: Running, recipe: Recipe, which: tuple[Tensor, ...], steps: int) -> Summed | None:
        """One step down; None if the loss is no number."""
        place = (running.epoch, running.step)
        random = generator_of(self.plan.seed, "step", *place)
        torch.manual_seed(seed_of(self.plan.seed, "dropout", *place))
        batches = tuple(self.material.batch(indices) for indices in which)
        if self.plan.augmentation != "none":
            batches = tuple(replace(b, x=augmented(b.x, self.plan.augmentation, random)) for b in batches)
        rate = self.plan.rate * self.plan.schedule.factor(running.epoch + running.step / steps, self.epochs)
        for group in running.optimizer.param_groups:
            group["lr"] = rate
        running.module.train()
        running.optimizer.zero_grad(set_to_none=True)
        found = sum_up(running.module, recipe, batches, running.state, self.material.room, random)
        if not torch.isfinite(found.total.detach()):
            return None
        if found.total.requires_grad:
            found.total.backward()  # type: ignore[no-untyped-call]
        running.optimizer.step()
        if running.average is not None:
            running.average.update_parameters(running.module)
        return found

    def _count(self, running: Running, found: Summed, seconds: float) -> None:
        values = [float(found.total.detach()), *(value for _, value in found.terms)]
        running.sums = [a + b for a, b in zip(running.sums or [0.0] * len(values), values, strict=True)]
        running.right, running.seen = running.right + found.right, running.seen + found.seen
        running.state, running.step, running.seconds = found.state, running.step + 1, running.seconds + seconds

    def _end_epoch(self, running: Running) -> str:
        """Look, remember, keep; the reason to stop, if there is one."""
        look = self.watch.look(running.shown)
        shares = (running.right / running.seen.clamp(min=1)).masked_fill(running.seen == 0, math.inf)
        worst = int(shares.argmin())
        names = [term.name for part in self.method.recipe(running.epoch, self.epochs).parts for term in part.terms]
        means = [total / running.step for total in running.sums]
        epoch = Epoch(
            epoch=running.epoch + 1,
            rate=running.optimizer.param_groups[0]["lr"],
            seconds=running.seconds,
            loss=means[0],
            terms=tuple(zip(names, means[1:], strict=True)),
            accuracy=float(running.right.sum() / running.seen.sum()),
            worst_group=self.material.names[worst],
            worst_accuracy=float(shares[worst]),
            **asdict(look),
        )
        running.history = (*running.history, epoch)
        improved = running.best == 0 or epoch.watched > running.history[running.best - 1].watched
        if improved and not math.isnan(epoch.watched):
            running.best = epoch.epoch
        running.epoch, running.step, running.sums, running.seconds = running.epoch + 1, 0, [], 0.0
        running.right, running.seen = torch.zeros_like(running.right), torch.zeros_like(running.seen)
        if self.folder is not None:
            self._keep(running)
        self.heard(epoch)
        if self.plan.patience and running.best and epoch.epoch - running.best >= self.plan.patience:
            return (
                f"Stopped after epoch {epoch.epoch} of {self.epochs}: on validation data the worst group has not "
                f"become better since epoch {running.best}."
            )
        return ""

    def _keep(self, running: Running) -> None:
        assert self.folder is not None
        if running.epoch in epochs_to_keep(self.epochs, self.plan.keep_every):
            self.folder.write_weights(self.folder.epoch_file(running.epoch), running.shown)
        if running.best == running.epoch:
            self.folder.write_weights(self.folder.path / BEST, running.shown)
        self.folder.write_history(running.history)
        self.folder.write_latest(*frozen(running, self.identity))

    def _done(self, running: Running, steps: int) -> int:
        return running.epoch * steps + running.step

    def _total(self, orders: list[list[Tensor]]) -> int:
        return self.epochs * len(orders[0])


def _not_a_number(running: Running) -> str:
    return (
        f"Stopped in epoch {running.epoch + 1}, step {running.step + 1}: the loss is not a number. The weights are "
        f"those {f'after epoch {running.epoch}' if running.epoch else 'at the start'}. Lower the rate, or the weight of the "
        "method's further terms."
    )


def _words(running: Running, epochs: int) -> str:
    right, seen = int(running.right.sum()), max(int(running.seen.sum()), 1)
    shares = running.right / running.seen.clamp(min=1)
    known = shares[running.seen > 0]
    worst = float(known.min()) if len(known) else math.nan
    return (
        f"epoch {running.epoch + 1} of {epochs}: loss {running.sums[0] / running.step:.3f}, accuracy "
        f"{right / seen:.1%}, worst group {worst:.1%}"
    )
