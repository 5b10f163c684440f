"""Record of the nearest misclassified input of each sample. Every candidate is verified with the original model."""

from dataclasses import dataclass

import torch
from torch import Tensor

from fairmargin.core.norm import Norm
from fairmargin.models.network import Network
from fairmargin.perturbation.lengths import length
from fairmargin.perturbation.margins import lead
from fairmargin.perturbation.references import nearest_references, references_of
from fairmargin.perturbation.tiles import by_tiles

PRECISION = 5e-4  # tolerance of `search_back`, relative to the distance
_STRETCHES = (1.0005, 1.002, 1.01)  # factors by which `settle` lengthens a perturbation that is not misclassified
_SEARCH_STEPS = 60  # enough to find a crossing at a thousandth of the segment; most searches take three or four


@dataclass(slots=True, eq=False)
class Closest:
    """Nearest misclassified input of each sample, among the candidates offered so far.

    Search algorithms offer candidates. A candidate counts only if the original model misclassifies it when evaluated
    again, so searches may use approximations of the model. `distance` is `inf` where no candidate was misclassified.

    Parameters
    ----------
    network
        Model that is attacked.
    start, y
        Samples, and the positions of their classes.
    norm
        Norm in which distances are measured.
    point, distance
        Nearest misclassified input of each sample, and its distance.
    ahead, behind
        Margins of the original model at the sample and at `point`; NaN where they are not computed yet.
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
        """Create a record without candidates. `scores` are the original model's scores of the samples, if known."""
        far = torch.full((len(start),), torch.inf, dtype=torch.float64, device=start.device)
        unknown = torch.full_like(far, torch.nan)
        ahead = unknown if scores is None else lead(scores, y).double()
        return cls(network, start, y, norm, start.clone(), far, ahead, unknown.clone())

    def offer(self, which: Tensor, candidates: Tensor) -> Tensor:
        """Evaluate one candidate for each of the samples `which` and return which candidates are misclassified."""
        fooled, margin, distance = by_tiles(self.network, self._judge, candidates, self.start[which], self.y[which])
        self._keep(which, candidates, fooled, margin, distance)
        return fooled

    def settle(self, which: Tensor, candidates: Tensor) -> None:
        """Evaluate the results of a search that used a faster copy of the model, one candidate for each sample.

        The scores of the copy differ by rounding. A candidate that the original model does not misclassify is therefore
        offered again with its perturbation lengthened by a few small factors.
        """
        left = torch.nonzero(~self.offer(which, candidates))[:, 0]
        for stretch in _STRETCHES:
            if not len(left):
                return
            begin = self.start[which[left]]
            farther = begin + stretch * (candidates[left] - begin)
            left = left[~self.offer(which[left], farther.clamp(self.network.low, self.network.high))]

    def fall_back(self, which: Tensor) -> Tensor:
        """Use a reference input of another predicted class for those samples for which nothing was found.

        The boundary is searched on the segment from the reference to the sample. Returns the samples for which a
        reference was misclassified.
        """
        lost = which[torch.isinf(self.distance[which])]
        if not len(lost):
            return lost
        references = references_of(self.network)
        for turn in nearest_references(self.network, self.start[lost], self.y[lost], self.norm).T:
            left = torch.nonzero(torch.isinf(self.distance[lost]) & (turn >= 0))[:, 0]
            if len(left):
                # Immutable features keep the sample's values, which can change the predicted class: hence several
                # tries.
                candidates = torch.where(self.network.scale != 0, references[turn[left]], self.start[lost[left]])
                self.offer(lost[left], candidates)
        found = lost[torch.isfinite(self.distance[lost])]
        self.search_back(found)
        return found

    def search_back(self, which: Tensor) -> None:
        """Move the points of these samples along the segment towards the sample, up to the decision boundary.

        The crossing is estimated from the margins at both ends of an interval by the Illinois variant of the false
        position method; every third step is a bisection, so that the search converges for every boundary. It ends when
        a misclassified point lies within the relative tolerance `PRECISION` of a correctly classified one.
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
        last = torch.zeros_like(ahead)  # end of the interval that moved last: 1 the far one, -1 the near one
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
        # Far from the data the scores can overflow; such a candidate does not count.
        fooled = (scores.argmax(dim=1) != y) & torch.isfinite(scores).all(dim=1)
        return fooled, lead(scores, y).double(), length(x.double() - start.double(), self.norm, self.network.scale)

    def _keep(self, which: Tensor, candidates: Tensor, fooled: Tensor, margin: Tensor, distance: Tensor) -> None:
        better = fooled & (distance < self.distance[which])
        self.point[which[better]] = candidates[better]
        self.behind[which[better]] = margin[better]
        self.distance[which[better]] = distance[better]


def _guess(low: Tensor, high: Tensor, ahead: Tensor, behind: Tensor, *, halve: bool) -> Tensor:
    """Return the next position to evaluate: slightly beyond the estimated crossing of the boundary."""
    if halve:
        return (low + high) / 2
    drop = ahead - behind
    share = torch.where(drop > 0, ahead / torch.where(drop > 0, drop, 1.0), 0.5).clamp(0, 1)
    crossing = (low + share * (high - low)) * (1 + PRECISION / 2)
    # If this repeats the upper end of the interval, evaluate a slightly smaller position instead.
    return torch.where(crossing < high * (1 - PRECISION / 4), crossing, high * (1 - PRECISION))
