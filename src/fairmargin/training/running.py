"""A training while it runs, and the same as tensors and plain values on disk."""

import copy
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from fairmargin.errors import StoreError
from fairmargin.models.module_fingerprint import module_fingerprint
from fairmargin.training.aggregates import State
from fairmargin.training.checkpoints import TrainingFolder, decode_history, encode_history
from fairmargin.training.history import Epoch
from fairmargin.training.material import Material
from fairmargin.training.plan import TrainingPlan
from fairmargin.training.recipe import TrainingMethod


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
    history, best
        The epochs so far, and which of them was the best, counted from 1; 0 before there is one.
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


def frozen(running: Running, identity: str) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """The training as tensors and plain values; the inverse of `resume`."""
    tensors = {f"module.{name}": tensor for name, tensor in running.module.state_dict().items()}
    if running.average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in running.average.state_dict().items()}
    for number, slots in running.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": torch.as_tensor(v) for name, v in slots.items() if v is not None}
    tensors |= {f"state.{name}": tensor for name, tensor in running.state.items()}
    tensors |= {"right": running.right, "seen": running.seen}
    about = {name: getattr(running, name) for name in ("epoch", "step", "sums", "seconds", "best")}
    return tensors, {**about, "identity": identity, "history": encode_history(running.history)}


def resume(running: Running, folder: TrainingFolder, identity: str) -> None:
    """Go on where the folder's training stopped, if there is one."""
    kept = folder.read_latest()
    if kept is None:
        return
    tensors, about = kept
    if about["identity"] != identity:
        raise StoreError(
            f"{folder.path} holds another training: data, groups, network, method, plan or number of epochs "
            "differ. Choose another folder."
        )
    running.module.load_state_dict(_under("module.", tensors))
    if running.average is not None:
        running.average.load_state_dict(_under("average.", tensors))
    slots: dict[int, dict[str, Tensor]] = {}
    for name, tensor in _under("optimizer.", tensors).items():
        number, _, slot = name.partition(".")
        slots.setdefault(int(number), {})[slot] = tensor
    running.optimizer.load_state_dict({**running.optimizer.state_dict(), "state": slots})
    running.state = _under("state.", tensors)
    running.right, running.seen = tensors["right"], tensors["seen"]
    for name in ("epoch", "step", "sums", "seconds", "best"):
        setattr(running, name, about[name])
    running.history = decode_history(about["history"])


def _under(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def identity_of(module: nn.Module, material: Material, about: dict[str, Any], fingerprint: str) -> str:
    """A hash of everything that decides the result."""
    groups = sha256(np.ascontiguousarray(material.groups.cpu().numpy()).tobytes()).hexdigest()
    parts = (module_fingerprint(module), fingerprint, groups, material.names, sorted(about.items(), key=str))
    return sha256(repr(parts).encode()).hexdigest()
