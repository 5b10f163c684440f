"""Attacks of other libraries, and functions of yours, as estimators; the original model confirms what they find."""

import inspect
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.norm import Norm
from fairmargin.distances.gradient_search import started
from fairmargin.distances.protocol import Found, Search, accepted_norm
from fairmargin.errors import FairmarginError, InputError
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True, slots=True, eq=False)
class Arguments:
    """The arguments of an attack.

    Parameters
    ----------
    network
        The measured model.
    x, y
        Samples in their own shape, and class positions.
    epsilons
        Radii, for attacks of foolbox with a fixed radius.
    """

    network: Network
    x: Tensor
    y: Tensor
    epsilons: tuple[float, ...] | None


Call = Callable[[Arguments], tuple[object, ...]]
"""A function that runs an attack and returns the samples found, once for each radius."""


class AsModule(nn.Module):
    """The measured model as a torch module that takes any number of samples and evaluates them in full tiles."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.network = network
        self.eval()

    def forward(self, x: Tensor) -> Tensor:
        """Return one score per class."""
        if not len(x):
            return x.new_zeros(0, self.network.classes)
        rows = x.reshape(len(x), -1).to(self.network.dtype)
        (scores,) = by_tiles(self.network, lambda tile: (self.network.scores(tile),), rows)
        return scores


def call_of(attack: Any, *, arrays: bool) -> Call:
    """Return a function that calls the attack; refuse anything that cannot be called."""
    if isinstance(attack, type):
        raise InputError(f"`attack` must be an attack, not the class `{attack.__name__}`. Create one first.")
    if is_foolbox(attack):
        return partial(_of_foolbox, attack)
    if _is_of("art", attack) and hasattr(attack, "generate"):
        return lambda given: (attack.generate(x=given.x.cpu().numpy(), y=given.y.cpu().numpy()),)
    if _takes_a_model(attack):
        return lambda given: (attack(AsModule(given.network), given.x, given.y),)
    if not callable(attack):
        raise InputError(
            f"`attack` must be an attack of foolbox, ART or torchattacks, a function `(model, x, y)` as in adv-lib, or "
            f"a function `(x, y)`; given {attack!r}."
        )
    if arrays:
        return lambda given: (attack(given.x.cpu().numpy(), given.y.cpu().numpy()),)
    return lambda given: (attack(given.x, given.y),)


def is_foolbox(attack: object) -> bool:
    """Return whether it is an attack of foolbox."""
    return _is_of("foolbox", attack)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Seed the global random numbers, and restore their state afterwards."""
    numbers, python = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        np.random.seed(seed % 2**32)
        random.seed(seed)
        try:
            yield
        finally:
            np.random.set_state(numbers)
            random.setstate(python)


def _is_of(package: str, attack: object) -> bool:
    """Return whether a class of the attack is defined in the package; by name, so that the package is not imported."""
    return any(base.__module__.split(".")[0] == package for base in type(attack).__mro__)


def _takes_a_model(attack: Any) -> bool:
    """Return whether the first of three or more arguments is called `model`, as in adv-lib."""
    try:
        names = list(inspect.signature(attack).parameters)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return False
    return len(names) >= 3 and names[0] == "model"


def _of_foolbox(attack: Any, given: Arguments) -> tuple[object, ...]:
    """Run an attack of foolbox, once or for each radius."""
    from foolbox.models.pytorch import PyTorchModel

    network = given.network
    movable = network.scale != 0
    bounds = float(network.low[movable].min()), float(network.high[movable].max())
    model = PyTorchModel(AsModule(network), bounds=bounds, device=network.device)
    _, clipped, _ = attack(model, given.x, given.y, epsilons=given.epsilons)
    return tuple(clipped) if given.epsilons is not None else (clipped,)


@dataclass(frozen=True)
class FromAttack(Search):
    """Distance to what an attack of another library, or a function of yours, finds.

    The result is clipped to the domain, immutable features are reset to their own values, and the model itself
    classifies it again. Then the boundary is searched on the straight line back to the sample.

    Guarantee: an upper bound for any attack; `inf` where its result is not misclassified, and then `tried` says how far
    away that was. The attack always gets as many samples as the model's tile holds. If its result for a sample depends
    on the other samples, or on random numbers, it gives other numbers in another batch: `alone` prevents that, at the
    cost of speed. Since its code may change, it is in no catalog and nothing is stored under its name.

    Parameters
    ----------
    attack
        One of: an attack of foolbox, which is given the measured model; of torchattacks or of ART, which holds its own
        (make it from the same network); a function `(model, x, y)` such as adv-lib's, further arguments bound by
        `functools.partial`; a function `(x, y)`. `x` has the samples' own shape; `y` holds class positions; the result
        has the shape of `x`. Rows that hold NaN count as not found.
    norm
        Norm of the distance; the attack should minimise the same.
    epsilons
        For attacks of foolbox with a fixed radius: the radii to run; the nearest success counts.
    search_back
        Whether to search the boundary on the way back from the input that the attack found.
    alone
        Pass one sample at a time, with random numbers from the sample's own key.
    arrays
        Pass numpy arrays rather than torch tensors to a function `(x, y)`.

    References
    ----------
    J. Rauber et al., "Foolbox", 2017; M.-I. Nicolae et al., "Adversarial Robustness Toolbox", 2018; H. Kim,
    "Torchattacks", 2020; J. Rony, I. Ben Ayed, "Adversarial Library", 2020.

    >>> from fairmargin.distances.measure import measure
    >>> def far_away(x, y):
    ...     return x + 100.0
    >>> found = measure(([3.0, 4.0], -5.0), np.array([[0.0, 0.0]]), [0], FromAttack(far_away))
    >>> round(float(found.values[0]), 2)  # from (0, 0) straight to (100, 100), back to where 3a + 4b = 5
    1.01
    """

    attack: Any
    norm: Norm = Norm.L2
    epsilons: tuple[float, ...] | None = None
    search_back: bool = True
    alone: bool = False
    arrays: bool = False

    needs: ClassVar[str] = "gradient"
    norms: ClassVar[frozenset[Norm]] = frozenset(Norm)
    revision: ClassVar[int] = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "norm", accepted_norm(type(self), self.norm))
        object.__setattr__(self, "epsilons", _radii(self.epsilons))
        call_of(self.attack, arrays=self.arrays)  # refuses what cannot be called
        if self.epsilons is not None and not is_foolbox(self.attack):
            raise InputError(
                "`epsilons` are for attacks of foolbox; others have their own radius. Make one `FromAttack` per radius "
                "and join them with `Tightest`."
            )
        fixed = any(base.__name__ == "FixedEpsilonAttack" for base in type(self.attack).__mro__)
        if self.epsilons is None and fixed and is_foolbox(self.attack):
            raise InputError(
                f"`{type(self.attack).__name__}` works at a fixed radius: give `epsilons`, for instance (0.5, 1, 2)."
            )

    @property
    def keeps_several(self) -> bool:
        """Whether the attack is given the measured model; one that holds its own only knows a sample's class."""
        return is_foolbox(self.attack) or (not _is_of("art", self.attack) and _takes_a_model(self.attack))

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """Return the distances and the inputs found; the key of a tile's first sample seeds global random numbers."""
        shape = tuple(x.shape[1:])
        call = call_of(self.attack, arrays=self.arrays)
        with model.network(shape) as network:
            begun = started(network, x, y)
            closest = Closest.of(network, begun.x, begun.y, self.norm, begun.scores)
            tried = torch.zeros_like(closest.distance)
            which, seeds = begun.correct_at, torch.as_tensor(keys.view(np.int64), device=network.device)

            def attacked(rows: Tensor, y: Tensor, seeds: Tensor) -> tuple[Tensor, ...]:
                return self._attacked(call, network, shape, rows, y, int(seeds[0]))

            if len(which):
                *found, far = self._one_by_one(network, attacked, begun.x[which], begun.y[which], seeds[which])
                tried[which] = far
                for candidates in found:
                    closest.settle(which, candidates)
                if self.search_back:
                    closest.search_back(which)
            return begun.found(closest, tried=tried)

    def _one_by_one(
        self, network: Network, attacked: Callable[..., tuple[Tensor, ...]], *rows: Tensor
    ) -> tuple[Tensor, ...]:
        """Run the attack tile by tile or, with `alone`, sample by sample."""
        if not self.alone:
            return by_tiles(network, attacked, *rows)
        parts = [attacked(*(part[i : i + 1] for part in rows)) for i in range(len(rows[0]))]
        return tuple(torch.cat(results) for results in zip(*parts, strict=True))

    def _attacked(
        self, call: Call, network: Network, shape: tuple[int, ...], rows: Tensor, y: Tensor, seed: int
    ) -> tuple[Tensor, ...]:
        """Return what the attack finds for each radius, as rows inside the domain, and the largest distance."""
        # Some attacks refuse inputs that are outside of the domain by rounding; some modify their inputs.
        x = rows.clamp(network.low, network.high).reshape(len(rows), *shape)
        with seeded(seed), torch.enable_grad():
            try:
                returned = call(Arguments(network, x.clone(), y.clone(), self.epsilons))
            except (FairmarginError, KeyboardInterrupt):
                raise
            except BaseException as error:  # user code may raise anything
                reason = (str(error) or "no reason given").strip().splitlines()[0].rstrip(".")
                raise InputError(
                    f"`{_name(self.attack)}` failed on {len(rows)} samples of shape {shape} "
                    f"({type(error).__name__}: {reason})."
                ) from error
        found = [self._inside(network, rows, shape, each) for each in returned]
        far = torch.stack([length(each.double() - rows.double(), self.norm, network.scale) for each in found])
        return *found, far.amax(dim=0)

    def _inside(self, network: Network, rows: Tensor, shape: tuple[int, ...], returned: object) -> Tensor:
        """Check what the attack returned and convert it to rows inside the domain."""
        expected = f"`{_name(self.attack)}` must return samples of shape {(len(rows), *shape)}"
        if not isinstance(returned, (Tensor, np.ndarray)):
            raise InputError(f"{expected} as one tensor or array; it returned a {type(returned).__name__}.")
        if tuple(returned.shape) != (len(rows), *shape):
            raise InputError(f"{expected}; it returned shape {tuple(returned.shape)}.")
        try:
            plain = returned.detach() if isinstance(returned, Tensor) else torch.as_tensor(returned.astype(np.float64))
        except (TypeError, ValueError):
            raise InputError(f"{expected} that are numbers; it returned an array of {returned.dtype}.") from None
        if plain.is_complex():
            raise InputError(f"{expected} that are real numbers; it returned {plain.dtype}.")
        moved = plain.to(network.device, network.dtype).reshape(len(rows), -1)
        moved = torch.where(network.scale != 0, moved, rows).clamp(network.low, network.high)
        return torch.where(torch.isfinite(moved).all(dim=1)[:, None], moved, rows)


def _radii(given: Any) -> tuple[float, ...] | None:
    """Return the radii as a tuple of positive numbers."""
    if given is None:
        return None
    try:
        radii = tuple(map(float, given)) if isinstance(given, Iterable) else (float(given),)
    except (TypeError, ValueError):
        radii = ()
    if not radii or not all(0 < radius < np.inf for radius in radii):
        raise InputError(f"`epsilons` must be radii greater than 0, such as (0.5, 1, 2); given {given!r}.")
    return radii


def _name(attack: object) -> str:
    """Return the name of the attack for messages."""
    function = getattr(attack, "func", attack)  # unwrap functools.partial
    return str(getattr(function, "__name__", type(attack).__name__))
