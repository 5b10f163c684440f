"""Other people's attacks as estimators: they propose, the plain model decides."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fairmargin.core.arrays import Ints, Keys
from fairmargin.core.distances import Distances
from fairmargin.core.norm import Norm
from fairmargin.distances.foreign_calls import (
    Asked,
    Call,
    call_of,
    is_fixed_epsilon,
    is_foolbox,
    is_given_the_model,
    seeded,
)
from fairmargin.distances.protocol import Found, accepted_norm
from fairmargin.distances.starting import started
from fairmargin.errors import FairmarginError, InputError
from fairmargin.models.network import Network
from fairmargin.models.protocol import Differentiable
from fairmargin.perturbation.closest import Closest
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.tiles import by_tiles


@dataclass(frozen=True)
class FromAttack:
    """The distance to what an attack of another library, or a function of yours, finds.

    Whatever it returns is brought into the domain, features that cannot move get their own values back, and the model
    itself is asked again. Then the boundary is searched on the straight way back to the sample.

    Guarantee: an upper bound, whatever the attack claims; `inf` where what it returned is not misclassified, and then
    `tried` says how far away that was. The attack always sees as many samples as the model's tile holds. One whose
    result for a sample depends on its neighbours, or on random numbers, gives other numbers in another batch: `alone`
    prevents that, slowly. Since its code is not ours, it is in no catalog and nothing is stored under its name.

    Parameters
    ----------
    attack
        One of: an attack of foolbox, which is given the measured model; of torchattacks or of ART, which holds its own
        (make it from the same network); a function `(model, x, y)` such as adv-lib's, further arguments bound by
        `functools.partial`; a function `(x, y)`. `x` has the samples' own shape; `y` holds class positions; samples
        come back in the shape of `x`. Rows that hold NaN count as not found.
    norm
        What the distance is measured in; the attack should minimise the same.
    epsilons
        For foolbox only: the radii at which an attack of fixed radius is run, the nearest success counts.
    search_back
        Whether to end at the boundary rather than where the attack stopped.
    alone
        Give it one sample at a time, with random numbers that come from the sample's own key.
    arrays
        Give a function `(x, y)` numpy arrays rather than torch tensors.

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
        call_of(self.attack, arrays=self.arrays)  # says now if it cannot be called
        if self.epsilons is not None and not is_foolbox(self.attack):
            raise InputError(
                "`epsilons` are for attacks of foolbox; others bring their own radius. Make one `FromAttack` a radius "
                "and join them by `Tightest`."
            )
        if self.epsilons is None and is_fixed_epsilon(self.attack):
            raise InputError(
                f"`{type(self.attack).__name__}` works at a fixed radius: give `epsilons`, for instance (0.5, 1, 2)."
            )

    @property
    def keeps_several(self) -> bool:
        """Whether the attack is given the measured model; one that holds its own knows a sample's class only."""
        return is_given_the_model(self.attack)

    def __call__(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Distances:
        """Upper bounds; global random numbers begin with the key of the first sample of a tile."""
        return self.find(model, x, y, keys=keys).distances

    def find(self, model: Differentiable, x: Any, y: Ints, *, keys: Keys) -> Found:
        """The distances and the inputs found."""
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
        """Tile by tile, or sample by sample."""
        if not self.alone:
            return by_tiles(network, attacked, *rows)
        parts = [attacked(*(part[i : i + 1] for part in rows)) for i in range(len(rows[0]))]
        return tuple(torch.cat(results) for results in zip(*parts, strict=True))

    def _attacked(
        self, call: Call, network: Network, shape: tuple[int, ...], rows: Tensor, y: Tensor, seed: int
    ) -> tuple[Tensor, ...]:
        """What the attack finds, as rows inside the domain, for each radius; and how far away the farthest of it is."""
        # Some refuse what is outside by rounding; copies, since some write into what they are given.
        x = rows.clamp(network.low, network.high).reshape(len(rows), *shape)
        with seeded(seed), torch.enable_grad():
            try:
                returned = call(Asked(network, x.clone(), y.clone(), self.epsilons))
            except (FairmarginError, KeyboardInterrupt):
                raise
            except BaseException as error:  # an attack is the user's code: whatever it raises becomes a sentence
                reason = (str(error) or "no reason given").strip().splitlines()[0].rstrip(".")
                raise InputError(
                    f"`{_name(self.attack)}` failed on {len(rows)} samples of shape {shape} "
                    f"({type(error).__name__}: {reason})."
                ) from error
        found = [self._inside(network, rows, shape, each) for each in returned]
        far = torch.stack([length(each.double() - rows.double(), self.norm, network.scale) for each in found])
        return *found, far.amax(dim=0)

    def _inside(self, network: Network, rows: Tensor, shape: tuple[int, ...], returned: object) -> Tensor:
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
    function = getattr(attack, "func", attack)  # of a functools.partial
    return str(getattr(function, "__name__", type(attack).__name__))
