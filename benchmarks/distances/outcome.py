"""What a contestant came to: checked again on the model itself, and one number a sample."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from distances.models import OUT, Subject, predictions
from distances.peers import BATCH

_HALVINGS = 12
_STRETCHES = (1.0005, 1.002, 1.01)  # those of fairmargin.perturbation.closest
_DEEPFOOL_STEPS = 50


def lengths(delta: Tensor, norm: float) -> Tensor:
    """How long each row is, in double precision."""
    return torch.linalg.vector_norm(delta.double().flatten(1), ord=norm, dim=1)


def successes(model: nn.Module, x: Tensor, y: Tensor, found: Tensor) -> Tensor:
    """Which of the inputs found are images, in [0, 1] as float32, that the plain model takes for another class."""
    found = found.float()
    inside = ((found >= 0) & (found <= 1)).flatten(1).all(dim=1)  # NaN is not inside
    return inside & (predictions(model, torch.nan_to_num(found)) != y)


def settled(model: nn.Module, x: Tensor, y: Tensor, found: Tensor) -> Tensor:
    """The points, those that fail by rounding moved a little farther out: what `Closest.settle` does for ours.

    Some peers stop within a millionth of the boundary, where the answer depends on the size of the batch.
    """
    best = found.float().clone()
    for stretch in _STRETCHES:
        left = ~successes(model, x, y, best)
        if not left.any():
            break
        best[left] = (x + stretch * (found.float() - x))[left].clamp(0, 1)
    return best


@dataclass(frozen=True, slots=True, eq=False)
class Fallback:
    """What a sample counts with on which a contestant failed: for all the same, and free of passes.

    It is what adv-lib's DeepFool finds or, if that is less or DeepFool fails, what lies on the way to the nearest other
    image that the model takes for another class, by halving. So one failure does not ruin a mean, and many do.
    """

    distances: Tensor

    def fill(self, distances: Tensor, success: Tensor) -> Tensor:
        """The distances, with those of the failures."""
        return torch.where(success, distances, self.distances[: len(distances)])


def fallback(subject: Subject, norm: float, tuning: bool = False, folder: Path = OUT) -> Fallback:
    """For the samples of a subject, or for its tuning samples; found once, and kept."""
    x, y = (subject.x_tuning, subject.y_tuning) if tuning else (subject.x, subject.y)
    samples = hashlib.sha256(x.numpy().tobytes()).hexdigest()[:12]
    path = folder / f"fallback-{subject.name}-{'linf' if norm == torch.inf else 'l2'}-{samples}.pt"
    if not path.is_file():
        pool = subject.x if tuning else subject.x_tuning
        least = torch.minimum(_by_deepfool(subject.model, x, y, norm), _on_the_way(subject.model, x, y, pool, norm))
        torch.save(least, path)
    return Fallback(torch.load(path))


def _by_deepfool(model: nn.Module, x: Tensor, y: Tensor, norm: float) -> Tensor:
    from adv_lib.attacks.deepfool import df

    batches = zip(x.split(BATCH), y.split(BATCH), strict=True)
    found = torch.cat([df(model, a, b, steps=_DEEPFOOL_STEPS, norm=norm) for a, b in batches])
    return lengths(found - x, norm).where(successes(model, x, y, found), torch.inf)


def _on_the_way(model: nn.Module, x: Tensor, y: Tensor, pool: Tensor, norm: float) -> Tensor:
    apart = torch.cdist(x.flatten(1).double(), pool.flatten(1).double(), p=norm)
    apart[y[:, None] == predictions(model, pool)[None]] = torch.inf
    far = pool[apart.argmin(dim=1)]
    low, high = torch.zeros(len(x)), torch.ones(len(x))
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        hit = successes(model, x, y, torch.lerp(x, far, middle.view(-1, 1, 1, 1)))
        low, high = torch.where(hit, low, middle), torch.where(hit, middle, high)
    return lengths(torch.lerp(x, far, high.view(-1, 1, 1, 1)) - x, norm)
