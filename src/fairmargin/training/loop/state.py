"""The state of a training while it runs, and its conversion to and from a snapshot."""

import copy
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fairmargin.errors import StoreError
from fairmargin.training.loop.checkpoints import LATEST, MIDWAY, Snapshot, TrainingFolder
from fairmargin.training.loop.history import Epoch
from fairmargin.training.parts.aggregates import State
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod

_PLAIN = ("epoch", "step", "sums", "seconds", "history", "best")


@dataclass(slots=True, eq=False)
class TrainingState:
    """The state of a training while it runs: everything that a checkpoint holds.

    Parameters
    ----------
    module, optimizer, average
        The network, its optimizer, and the moving average of its weights, if one is kept.
    state
        The state that the method's controller keeps.
    right, seen
        Number of samples of each group that were classified correctly, and that were used, in this epoch.
    epoch, step
        The next epoch and step, counted from 0.
    sums
        Sums over the steps of this epoch: of the loss, then of each term.
    seconds
        Duration of this epoch so far.
    history, best, best_weights
        The epochs so far, which of them was the best, counted from 1, and its weights; 0 before there is one.
    """

    module: nn.Module
    optimizer: Optimizer
    average: AveragedModel | None
    state: State
    right: Tensor
    seen: Tensor
    epoch: int = 0
    step: int = 0
    sums: list[float] = field(default_factory=list)
    seconds: float = 0.0
    history: tuple[Epoch, ...] = ()
    best: int = 0
    best_weights: dict[str, Tensor] = field(default_factory=dict)

    @property
    def result(self) -> nn.Module:
        """The network that is validated, audited and returned."""
        return self.module if self.average is None else self.average.module


def begin(module: nn.Module, method: TrainingMethod, plan: TrainingPlan, epochs: int, groups: int) -> TrainingState:
    """Return the state before the first step; the given module is copied and not changed."""
    own = copy.deepcopy(module)
    return TrainingState(
        module=own,
        optimizer=_optimizer(own, plan),
        average=_averaged(own, plan.average) if plan.average else None,
        state=method.recipe(0, epochs).controller.begin(groups),
        right=torch.zeros(groups, dtype=torch.int64),
        seen=torch.zeros(groups, dtype=torch.int64),
    )


def _averaged(module: nn.Module, decay: float) -> AveragedModel:
    """Return the moving average of a network's weights and buffers."""
    return AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]


def _optimizer(module: nn.Module, plan: TrainingPlan) -> Optimizer:
    """Return the optimizer of the plan."""
    wanted = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if plan.optimizer == "adam":
        return torch.optim.Adam(wanted, lr=plan.rate, weight_decay=plan.weight_decay)
    return torch.optim.SGD(wanted, lr=plan.rate, momentum=plan.momentum, weight_decay=plan.weight_decay)


def take_snapshot(running: TrainingState) -> Snapshot:
    """Return a copy of the current state; the inverse of `restore`."""
    tensors = {f"module.{name}": tensor for name, tensor in running.module.state_dict().items()}
    if running.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in running.average.state_dict().items()}
    for number, slots in running.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(v) for name, v in slots.items() if v is not None}
    tensors |= {f"state.{name}": tensor for name, tensor in running.state.items()}
    tensors |= {f"best.{name}": tensor for name, tensor in running.best_weights.items()}
    tensors |= {"right": running.right, "seen": running.seen}
    about = {name: copy.copy(getattr(running, name)) for name in _PLAIN}
    return Snapshot({name: tensor.detach().clone() for name, tensor in tensors.items()}, about)


def restore(running: TrainingState, snapshot: Snapshot) -> None:
    """Set the state to a snapshot, which is not changed."""
    tensors = {name: tensor.clone() for name, tensor in snapshot.tensors.items()}  # an optimizer modifies its own
    running.module.load_state_dict(_under("module.", tensors))
    if running.average is not None:
        running.average.load_state_dict(_under("average.", tensors))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimizer.", tensors).items():
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = tensor
    running.optimizer.load_state_dict({**running.optimizer.state_dict(), "state": slots})
    running.state, running.best_weights = _under("state.", tensors), _under("best.", tensors)
    running.right, running.seen = tensors["right"], tensors["seen"]
    for name in _PLAIN:
        setattr(running, name, copy.copy(snapshot.about[name]))


def save_snapshot(running: TrainingState, folder: TrainingFolder, name: str, identity: str) -> None:
    """Write the state to the folder, for `resume`."""
    snapshot = take_snapshot(running)
    folder.write_snapshot(name, Snapshot(snapshot.tensors, {**snapshot.about, "identity": identity}))


def resume(running: TrainingState, folder: TrainingFolder, identity: str) -> Snapshot:
    """Continue a training that the folder holds, if there is one; return its state at the beginning of the epoch."""
    began = take_snapshot(running)
    for name in (LATEST, MIDWAY):
        snapshot = folder.read_snapshot(name)
        if snapshot is None:
            continue
        if snapshot.about.get("identity") != identity:
            raise StoreError(
                f"{folder.path} holds another training: its data, groups, domain, network, method, plan or number of "
                "epochs differ. Choose another folder."
            )
        if name == MIDWAY and snapshot.about["epoch"] != running.epoch:
            continue  # belongs to an epoch that was completed
        restore(running, snapshot)
        began = snapshot if name == LATEST else began
    return began


def is_sound(running: TrainingState) -> bool:
    """Return whether all weights are finite and no buffer holds NaN; buffers such as masks may be infinite."""
    for module in (running.module, running.result):
        if not all(bool(torch.isfinite(parameter).all()) for parameter in module.parameters()):
            return False
        if any(bool(torch.isnan(buffer).any()) for buffer in module.buffers()):
            return False
    return True


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors whose names start with the prefix, without it."""
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
