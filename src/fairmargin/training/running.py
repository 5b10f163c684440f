"""A training while it runs, and the same as tensors and plain values on disk."""

import copy
import re
from dataclasses import dataclass, field
from hashlib import sha256

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fairmargin.errors import StoreError
from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.training.aggregates import State
from fairmargin.training.checkpoints import LATEST, MIDWAY, Frozen, TrainingFolder
from fairmargin.training.history import Epoch
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod

_PLAIN = ("epoch", "step", "sums", "seconds", "history", "best")


@dataclass(slots=True, eq=False)
class Running:
    """A training while it runs: everything that a checkpoint holds.

    Parameters
    ----------
    module, average, optimizer
        The network, the moving average of its weights if one is kept, and what descends.
    state
        What the method's controller remembers.
    epoch, step
        What comes next, counted from 0.
    sums
        Over the steps of this epoch: of the loss, then of each term.
    right, seen
        Of each group, samples classified correctly and samples shown in this epoch.
    history, best, best_weights
        The epochs so far, which of them was the best, counted from 1, and its network; 0 before there is one.
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
    def shown(self) -> nn.Module:
        """The network that is validated, audited and returned."""
        return self.module if self.average is None else self.average.module


def begin(module: nn.Module, method: TrainingMethod, plan: TrainingPlan, epochs: int, groups: int) -> Running:
    """A training before its first step; the module given is copied and stays as it is."""
    own = copy.deepcopy(module)
    return Running(
        module=own,
        optimizer=_optimizer(own, plan),
        average=_averaged(own, plan.average) if plan.average else None,
        state=method.recipe(0, epochs).controller.begin(groups),
        right=torch.zeros(groups, dtype=torch.int64),
        seen=torch.zeros(groups, dtype=torch.int64),
    )


def _averaged(module: nn.Module, decay: float) -> AveragedModel:
    return AveragedModel(module, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)  # type: ignore[no-untyped-call]


def _optimizer(module: nn.Module, plan: TrainingPlan) -> Optimizer:
    wanted = [parameter for parameter in module.parameters() if parameter.requires_grad]
    if plan.optimizer == "adam":
        return torch.optim.Adam(wanted, lr=plan.rate, weight_decay=plan.weight_decay)
    return torch.optim.SGD(wanted, lr=plan.rate, momentum=plan.momentum, weight_decay=plan.weight_decay)


def frozen(running: Running) -> Frozen:
    """The training as it is now, in memory of its own; the inverse of `thaw`."""
    tensors = {f"module.{name}": tensor for name, tensor in running.module.state_dict().items()}
    if running.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in running.average.state_dict().items()}
    for number, slots in running.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(v) for name, v in slots.items() if v is not None}
    tensors |= {f"state.{name}": tensor for name, tensor in running.state.items()}
    tensors |= {f"best.{name}": tensor for name, tensor in running.best_weights.items()}
    tensors |= {"right": running.right, "seen": running.seen}
    about = {name: copy.copy(getattr(running, name)) for name in _PLAIN}
    return Frozen({name: tensor.detach().clone() for name, tensor in tensors.items()}, about)


def thaw(running: Running, kept: Frozen) -> None:
    """Make the training what it was; what was kept stays as it is."""
    tensors = {name: tensor.clone() for name, tensor in kept.tensors.items()}  # an optimizer writes into its own
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
        setattr(running, name, copy.copy(kept.about[name]))


def keep(running: Running, folder: TrainingFolder, name: str, identity: str) -> None:
    """Write the training down, for `resume`."""
    kept = frozen(running)
    folder.write_frozen(name, Frozen(kept.tensors, {**kept.about, "identity": identity}))


def resume(running: Running, folder: TrainingFolder, identity: str) -> Frozen:
    """Go on where the folder's training stopped, if there is one; what it was when its epoch began is returned."""
    began = frozen(running)
    for name in (LATEST, MIDWAY):
        kept = folder.read_frozen(name)
        if kept is None:
            continue
        if kept.about.get("identity") != identity:
            raise StoreError(
                f"{folder.path} holds another training: data, groups, domain, network, method, plan or number of "
                "epochs differ. Choose another folder."
            )
        if name == MIDWAY and kept.about["epoch"] != running.epoch:
            continue  # of an epoch that came to its end
        thaw(running, kept)
        began = kept if name == LATEST else began
    return began


def is_sound(running: Running) -> bool:
    """Whether all weights are numbers, and no statistic is none; masks may be infinite."""
    for module in (running.module, running.shown):
        if not all(bool(torch.isfinite(parameter).all()) for parameter in module.parameters()):
            return False
        if any(bool(torch.isnan(buffer).any()) for buffer in module.buffers()):
            return False
    return True


def identity_of(model: nn.Module, method: TrainingMethod, epochs: int, *others: object) -> str:
    """A hash of everything that decides the result, as far as it shows: `others` must print alike in every process.

    A method is what its recipes say, in each epoch, so that one in no catalog is known by what it does.
    """
    recipes = dict.fromkeys(repr(method.recipe(epoch, epochs)) for epoch in range(epochs))
    told = re.sub(r" at 0x[0-9a-f]+", "", str(list(recipes)))
    return sha256(repr((module_fingerprint(model), told, epochs, *others)).encode()).hexdigest()


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
