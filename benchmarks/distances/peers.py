"""The peers: what each library is asked to do, in one form, `(model, x, y, settings) → x_adv`.

Imports happen inside, behind a guard: adv-lib imports torchvision, whose CUDA build misses an operator beside a CPU
torch, and visdom, for plots only.
"""

import importlib.util
import math
import sys
import types
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

Settings = Mapping[str, float]
Attack = Callable[[nn.Module, Tensor, Tensor, int, Settings], Tensor]
BATCH = 64
_LARGEST_GAMMA = 0.98  # DDN and FMN shrink a radius by 1 − γ, so that γ has to stay below 1


@dataclass(frozen=True, slots=True)
class Peer:
    """An attack of another library.

    Parameters
    ----------
    library, name
        Whose, and which.
    attack
        (model, x, y, steps, settings) → adversarial inputs; where it failed, anything that is not adversarial.
    norm
        The length it minimises: 2 or inf.
    axes
        Settings to tune, and the range that is searched; names that end in "@" are in units of the model's usual
        distance. A tuned value near an end of its range means that the range is too narrow: `tuning.edges` finds it.
    budgets
        Numbers of steps to run it with.
    tuned_as
        The name of another peer whose tuned settings it takes: the same method, in another library.
    samples
        How many samples it is given at most: what takes minutes gets fewer, and the table says so.
    """

    library: str
    name: str
    attack: Attack
    norm: float = 2.0
    axes: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    budgets: tuple[int, ...] = (100,)
    tuned_as: str | None = None
    samples: int | None = None

    @property
    def key(self) -> str:
        """Library and name, for files."""
        return f"{self.library} {self.name}"


def in_batches(attack: Attack, model: nn.Module, x: Tensor, y: Tensor, steps: int, settings: Settings) -> Tensor:
    """The attack on batches of 64, each with the same random state."""
    parts = []
    for part, labels in zip(x.split(BATCH), y.split(BATCH), strict=True):
        torch.manual_seed(0)
        parts.append(attack(model, part.clone(), labels, steps, settings).detach())
    return torch.cat(parts)


def guard() -> None:
    """Stand in for what adv-lib imports and does not need here; says nothing of warnings that peers give."""
    warnings.filterwarnings("ignore")
    for operator in ("nms", "qnms"):
        with suppress(RuntimeError):
            torch.library.define(f"torchvision::{operator}", "(Tensor a, Tensor b, float c) -> Tensor")
    if "visdom" not in sys.modules and importlib.util.find_spec("visdom") is None:
        module: Any = types.ModuleType("visdom")
        module.Visdom = None
        sys.modules["visdom"] = module


# ---- adv-lib ---------------------------------------------------------------------------------------------------------


def _adv_ddn(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    from adv_lib.attacks import ddn

    return ddn(model, x, y, steps=steps, γ=min(_LARGEST_GAMMA, s["gamma"]), init_norm=s["init_norm"], levels=None)


def _adv_fmn(norm: float) -> Attack:
    def attack(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
        from adv_lib.attacks import fmn

        gamma = min(_LARGEST_GAMMA, s["gamma"])
        return fmn(
            model, x, y, norm=norm, steps=steps, α_init=s["alpha"], γ_init=gamma, α_final=s["alpha"] * s["final"]
        )

    return attack


def _adv_alma(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    from adv_lib.attacks import alma

    return alma(
        model,
        x,
        y,
        num_steps=steps,
        init_lr_distance=s["distance"],
        α=max(0.0, 1 - s["forget"]),
        lr_reduction=min(1.0, s["final"]),
        ρ_init=s["rho"],
        μ_init=s["mu"],
        check_steps=max(1, round(s["check"])),
    )


def _adv_pdgd(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    from adv_lib.attacks import pdgd

    return pdgd(model, x, y, num_steps=steps, primal_lr=s["rate"], dual_lr=s["dual"], dual_ratio_init=s["ratio"])


def _adv_deepfool(norm: float) -> Attack:
    def attack(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
        from adv_lib.attacks.deepfool import df

        return df(model, x, y, steps=steps, norm=norm, overshoot=0.02)

    return attack


def _adv_sdf(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    from adv_lib.attacks.superdeepfool import sdf

    return sdf(model, x, y, steps=steps)


# ---- foolbox ---------------------------------------------------------------------------------------------------------


def _foolbox(make: Callable[[Any, int, Settings], Any]) -> Attack:
    def attack(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
        import foolbox

        wrapped = foolbox.PyTorchModel(model, bounds=(0, 1), device="cpu")
        found: Tensor = make(foolbox.attacks, steps, s)(wrapped, x, y, epsilons=None)[0]
        return found

    return attack


_foolbox_ddn = _foolbox(
    lambda a, n, s: a.DDNAttack(steps=n, init_epsilon=s["init_norm"], gamma=min(_LARGEST_GAMMA, s["gamma"]))
)
_foolbox_fmn = _foolbox(
    lambda a, n, s: a.L2FMNAttack(
        steps=n,
        max_stepsize=s["alpha"],
        min_stepsize=s["alpha"] * s["final"],
        gamma=min(_LARGEST_GAMMA, s["gamma"]),
    )
)
_foolbox_deepfool = _foolbox(lambda a, n, s: a.L2DeepFoolAttack(steps=n, candidates=10, overshoot=0.02))
_foolbox_cw = _foolbox(
    lambda a, n, s: a.L2CarliniWagnerAttack(steps=n, binary_search_steps=9, stepsize=0.01, initial_const=1e-2)
)


# ---- ART and torchattacks --------------------------------------------------------------------------------------------


class _Whole(nn.Module):
    """A module that is no `nn.Sequential`: ART would call the parts of one, past the hook that counts."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.model(x)
        return scores


def _art(make: Callable[[Any, int], Any]) -> Attack:
    def attack(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
        import numpy as np
        from art.attacks import evasion
        from art.estimators.classification import PyTorchClassifier

        wrapped = PyTorchClassifier(
            _Whole(model), nn.CrossEntropyLoss(), tuple(x.shape[1:]), 10, clip_values=(0.0, 1.0), device_type="cpu"
        )
        method = make(evasion, steps)(wrapped)
        given = {} if "DeepFool" in type(method).__name__ else {"y": np.eye(10)[y.numpy()]}
        return torch.as_tensor(method.generate(x.numpy(), **given))

    return attack


_art_deepfool = _art(
    lambda e, n: lambda m: e.DeepFool(m, max_iter=n, epsilon=0.02, nb_grads=10, batch_size=BATCH, verbose=False)
)
_art_cw = _art(
    lambda e, n: (
        lambda m: e.CarliniL2Method(
            m, max_iter=n, binary_search_steps=5, learning_rate=0.01, batch_size=BATCH, verbose=False
        )
    )
)


def _torchattacks_deepfool(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    import torchattacks

    found: Tensor = torchattacks.DeepFool(model, steps=steps, overshoot=0.02)(x, y)
    return found


def _torchattacks_cw(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    import torchattacks

    found: Tensor = torchattacks.CW(model, c=s["c"], steps=steps, lr=s["rate"])(x, y)
    return found


def _torchattacks_fab(model: nn.Module, x: Tensor, y: Tensor, steps: int, s: Settings) -> Tensor:
    import torchattacks

    # A ball that holds the whole box: FAB minimises, and gives up what lies outside.
    found: Tensor = torchattacks.FAB(model, norm="Linf", eps=1.0, steps=steps, n_restarts=1, n_classes=10)(x, y)
    return found


# ---- the table -------------------------------------------------------------------------------------------------------

_STEPS = (10, 20, 30, 50, 100, 300, 1000)
# Some ranges reach beyond the values that make a difference: γ acts as at most 0.98, ALMA's 1 − α and final share of
# the step as at most 1, its `check` as at least 1, and an initial norm as at most the distance to the farthest corner
# of the box. Robust networks need initial norms of more than ten usual distances.
_DDN = {"gamma": (0.01, 1.5), "init_norm@": (0.05, 100.0)}
_FMN = {"alpha@": (0.01, 40.0), "gamma": (0.01, 1.5), "final": (0.00001, 20.0)}
_FMN_LINF = {**_FMN, "alpha@": (0.05, 1e9)}  # the step is a length in L2, far longer than the usual L∞ distance
_ALMA = {  # "forget" is 1 − α
    "distance@": (0.01, 10.0),
    "forget": (0.03, 4.0),
    "final": (0.001, 1.5),
    "rho": (0.03, 100.0),
    "mu": (0.03, 300.0),
    "check": (0.5, 40.0),
}
_PDGD = {"rate@": (0.001, 2.0), "dual": (0.005, 20.0), "ratio": (0.0003, 30.0)}
_CW = {"c": (0.1, 5000.0), "rate": (0.001, 1.0)}

PEERS = (
    Peer("adv-lib", "DDN", _adv_ddn, 2.0, _DDN, (10, 20, 30, 45, 50, 100, 300, 1000)),
    Peer("adv-lib", "FMN", _adv_fmn(2.0), 2.0, _FMN, _STEPS),
    Peer("adv-lib", "ALMA", _adv_alma, 2.0, _ALMA, _STEPS[1:]),
    Peer("adv-lib", "PDGD", _adv_pdgd, 2.0, _PDGD, (50, 100, 300)),
    Peer("adv-lib", "SDF", _adv_sdf),
    Peer("adv-lib", "DeepFool", _adv_deepfool(2.0)),
    Peer("foolbox", "DDN", _foolbox_ddn, 2.0, {}, (10, 20, 50, 100), "adv-lib DDN"),
    Peer("foolbox", "FMN", _foolbox_fmn, 2.0, {}, (10, 20, 50, 100), "adv-lib FMN"),
    Peer("foolbox", "DeepFool", _foolbox_deepfool),
    Peer("foolbox", "C&W", _foolbox_cw, budgets=(100,), samples=64),
    Peer("ART", "DeepFool", _art_deepfool, budgets=(50,), samples=64),
    Peer("ART", "C&W", _art_cw, budgets=(20,), samples=64),
    Peer("torchattacks", "DeepFool", _torchattacks_deepfool, budgets=(50,), samples=64),
    Peer("torchattacks", "C&W", _torchattacks_cw, 2.0, _CW, (100,)),
    Peer("adv-lib", "FMN Linf", _adv_fmn(math.inf), math.inf, _FMN_LINF, _STEPS[:5]),
    Peer("adv-lib", "DeepFool Linf", _adv_deepfool(math.inf), math.inf),
    Peer("torchattacks", "FAB Linf", _torchattacks_fab, math.inf, {}, (10,), samples=64),
)
