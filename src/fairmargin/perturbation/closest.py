"""The nearest misclassified input of each sample: the one place that decides what counts as success."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.references import nearest_references, references_of
from fairmargin.perturbation.tiles import by_tiles

PRECISION = 5e-4  # how near to the boundary a search back must come, relative to the distance
_STRETCHES = (1.0005, 1.002, 1.01)
_SEARCH_STEPS = 60  # enough for a crossing at a thousandth of the way; most searches end after three or four


@dataclass(slots=True, eq=False)
class Closest:
    """Keeps, per sample, the nearest input offered so far that the plain model, asked again in a tile, misclassifies.

    Attack loops only propose; they need not be right. `distance` is `inf` where nothing was found yet.

    Parameters
    ----------
    network
        The model.
    start, y
        The samples and their class positions.
    norm
        How length is measured.
    point, distance
        The nearest misclassified input, and how far it is.
    ahead, behind
        The plain model's leads at the sample and at the point; NaN where it was not asked yet.
    """

    network: Network
    start: Tensor
    y: Tensor
    norm: Norm
    point: Tensor
    distance: Tensor
    ahead: Tensor
    behind: Tensor

    @classmethod
    def of(cls, network: Network, start: Tensor, y: Tensor, norm: Norm, scores: Tensor | None = None) -> "Closest":
        """Nothing found yet; `scores` are the plain model's at the samples, if they are known already."""
        far = torch.full((len(start),), torch.inf, dtype=torch.float64, device=start.device)
        unknown = torch.full_like(far, torch.nan)
        ahead = unknown if scores is None else lead(scores, y).double()
        return cls(network, start, y, norm, start.clone(), far, ahead, unknown.clone())

    def offer(self, which: Tensor, candidates: Tensor) -> Tensor:
        """Consider one candidate for each of the samples `which`; whether it is misclassified."""
        fooled, margin, distance = by_tiles(self.network, self._judge, candidates, self.start[which], self.y[which])
        self._keep(which, candidates, fooled, margin, distance)
        return fooled

    def settle(self, which: Tensor, candidates: Tensor) -> None:
        """Consider the best that a search on a faster copy of the model has come to, one candidate for each sample.

        The copy's scores differ in the last digits: what the plain model does not take for misclassified is offered
        again a little farther out, a few times.
        """
        left = torch.nonzero(~self.offer(which, candidates))[:, 0]
        for stretch in _STRETCHES:
            if not len(left):
                return
            begin = self.start[which[left]]
            farther = begin + stretch * (candidates[left] - begin)
            left = left[~self.offer(which[left], farther.clamp(self.network.low, self.network.high))]

    def fall_back(self, which: Tensor) -> Tensor:
        """Where nothing was found, go to a reference of another prediction, and back to the boundary on that way.

        Which samples are now found that were not before.
        """
        lost = which[torch.isinf(self.distance[which])]
        if not len(lost):
            return lost
        references = references_of(self.network)
        for turn in nearest_references(self.network, self.start[lost], self.y[lost], self.norm).T:
            left = torch.nonzero(torch.isinf(self.distance[lost]) & (turn >= 0))[:, 0]
            if len(left):
                # Features that cannot move keep the sample's values, which can spoil a reference: hence several turns.
                there = torch.where(self.network.scale != 0, references[turn[left]], self.start[lost[left]])
                self.offer(lost[left], there)
        found = lost[torch.isfinite(self.distance[lost])]
        self.search_back(found)
        return found

    def search_back(self, which: Tensor) -> None:
        """Move the points of these samples back along the straight way to the sample, to just beyond the boundary.

        The crossing is guessed from the leads at both ends (false position, in the Illinois manner: an end that stays
        twice counts half, so that neither is stuck), and every third time halved, so that no shape of the boundary can
        hold the search up. It ends where a misclassified point lies within `PRECISION` of one that is not, so that on a
        straight boundary the distance is right to that precision.
        """
        which = which[torch.isfinite(self.distance[which])]
        if not len(which):
            return
        unknown = which[torch.isnan(self.ahead[which])]
        if len(unknown):
            start = self.start[unknown]
            _, self.ahead[unknown], _ = by_tiles(self.network, self._judge, start, start, self.y[unknown])
        far, ahead, behind = self.point[which], self.ahead[which], self.behind[which]
        low, high = torch.zeros_like(ahead), torch.ones_like(ahead)
        last = torch.zeros_like(ahead)  # which end moved last: 1 the far one, -1 the near one
        for step in range(_SEARCH_STEPS):
            open_ = torch.nonzero(high - low > PRECISION * high)[:, 0]
            if not len(open_):
                break
            guess = _guess(low[open_], high[open_], ahead[open_], behind[open_], halve=step % 3 == 2)
            begin = self.start[which[open_]]
            candidates = begin + guess[:, None].to(begin.dtype) * (far[open_] - begin)
            fooled, margin, distance = by_tiles(self.network, self._judge, candidates, begin, self.y[which[open_]])
            self._keep(which[open_], candidates, fooled, margin, distance)
            side = torch.where(fooled, 1.0, -1.0).to(last.dtype)
            again = torch.where(last[open_] == side, 0.5, 1.0)
            high[open_], low[open_] = torch.where(fooled, guess, high[open_]), torch.where(fooled, low[open_], guess)
            ahead[open_], behind[open_] = (
                torch.where(fooled, ahead[open_] * again, margin),
                torch.where(fooled, margin, behind[open_] * again),
            )
            last[open_] = side

    def _judge(self, x: Tensor, start: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        scores = self.network.plain(x)
        # So far away that the scores overflow, the model says nothing.
        fooled = (scores.argmax(dim=1) != y) & torch.isfinite(scores).all(dim=1)
        return fooled, lead(scores, y).double(), length(x.double() - start.double(), self.norm, self.network.scale)

    def _keep(self, which: Tensor, candidates: Tensor, fooled: Tensor, margin: Tensor, distance: Tensor) -> None:
        better = fooled & (distance < self.distance[which])
        self.point[which[better]] = candidates[better]
        self.behind[which[better]] = margin[better]
        self.distance[which[better]] = distance[better]


def _guess(low: Tensor, high: Tensor, ahead: Tensor, behind: Tensor, *, halve: bool) -> Tensor:
    """Where on the way to look next: just beyond the guessed crossing, or just before what is known to be beyond."""
    if halve:
        return (low + high) / 2
    drop = ahead - behind
    share = torch.where(drop > 0, ahead / torch.where(drop > 0, drop, 1.0), 0.5).clamp(0, 1)
    crossing = (low + share * (high - low)) * (1 + PRECISION / 2)
    # A guess that repeats the last one would teach nothing: then ask whether a hair less suffices too.
    return torch.where(crossing < high * (1 - PRECISION / 4), crossing, high * (1 - PRECISION))
