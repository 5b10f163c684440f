"""A classifier in which a set of classes to keep is one class, so that leaving it means leaving the whole set."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fairmargin.core.arrays import Ints
from fairmargin.errors import InputError
from fairmargin.models.protocol import Classifier, Wrapper, encode_labels

if TYPE_CHECKING:
    from torch import Tensor

    from fairmargin.models.network import Network


@dataclass(frozen=True, slots=True, eq=False)
class Kept(Wrapper):
    """A classifier with the set A of classes to keep merged into class 0, followed by the other classes.

    The score of class 0 is the best score in A, so that its margin is the best score in A minus the best score outside.
    Estimators that do not support sets of classes can thus measure r(x, A) as the distance from class 0. The prediction
    is class 0 exactly if the prediction of the original classifier is in A, including ties.

    Parameters
    ----------
    model
        The original classifier.
    kept
        Class positions of A, ascending.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier([[1.0], [-1.0], [0.0]], [0.0, 0.0, 0.5], classes=("high", "low", "middle"))
    >>> Kept(model, (0, 2)).classes
    (('high', 'middle'), 'low')
    >>> Kept(model, (0, 2)).predict(np.array([[3.0], [-3.0], [0.0]])).tolist()
    [0, 1, 0]
    """

    model: Classifier
    kept: tuple[int, ...]

    @property
    def others(self) -> tuple[int, ...]:
        """The class positions outside of A, ascending."""
        return tuple(place for place in range(len(self.model.classes)) if place not in self.kept)

    @property
    def classes(self) -> tuple[Any, ...]:
        """The labels of A as one tuple, followed by the other labels."""
        labels = self.model.classes
        return tuple(labels[place] for place in self.kept), *(labels[place] for place in self.others)

    def predict(self, x: Any) -> Ints:
        """Predict 0 for samples whose class is in A, else the position of their class among the others, plus 1."""
        place = np.zeros(len(self.model.classes), dtype=np.int64)
        place[list(self.others)] = np.arange(1, 1 + len(self.others))
        return np.asarray(place[self.model.predict(x)])

    @contextmanager
    def network(self, shape: tuple[int, ...]) -> "Iterator[Network]":
        """Open the network of the original classifier, with the best score in A as its first score."""
        with self.model.network(shape) as network:  # type: ignore[attr-defined]
            yield replace(
                network,
                scores=lambda rows: self._best_first(network.scores(rows)),
                plain=lambda rows: self._decided(network.plain(rows)),
                classes=1 + len(self.others),
            )

    def fingerprint(self) -> str:
        """Compute a hash of the fingerprint of the original classifier and of A."""
        return sha256(f"{self.model.fingerprint()} keep {self.kept}".encode()).hexdigest()

    def _best_first(self, scores: "Tensor") -> "Tensor":
        """Return the best score in A (NaN if any score in A is not finite), followed by the scores of the others."""
        import torch

        own = scores[:, list(self.kept)]
        best = own.max(dim=1, keepdim=True).values
        best = torch.where(torch.isfinite(own).all(dim=1, keepdim=True), best, torch.nan)
        return torch.cat([best, scores[:, list(self.others)]], dim=1)

    def _decided(self, scores: "Tensor") -> "Tensor":
        """Return the same scores, with the best in A lowered by one bit if another class with a tie comes first."""
        import torch

        held = self._best_first(scores)
        outside = torch.isin(scores.argmax(dim=1), torch.tensor(self.others, device=scores.device))
        tied = outside & (held[:, 0] == held[:, 1:].amax(dim=1))
        lower = torch.nextafter(held[:, 0], torch.full_like(held[:, 0], -torch.inf))
        return torch.cat([torch.where(tied, lower, held[:, 0])[:, None], held[:, 1:]], dim=1)


def keeping(model: Classifier, positions: Ints, kept: tuple[int, ...]) -> tuple[Classifier, Ints]:
    """Return the classifier and the class positions with which estimators measure the distance from a set of classes.

    Without a set, both are returned unchanged: each sample keeps its own class. With one class, this class is kept for
    every sample. With several, the classifier is wrapped in `Kept`.
    """
    if not kept:
        return model, positions
    if len(kept) == 1:
        return model, np.full_like(positions, kept[0])
    return Kept(model, kept), np.zeros_like(positions)


def parted(model: Classifier) -> tuple[Classifier, tuple[int, ...]]:
    """Return the original classifier and the classes to keep, empty if there is no set; the inverse of `keeping`."""
    return (model.model, model.kept) if isinstance(model, Kept) else (model, ())


def kept_positions(model: Classifier, keep: Any) -> tuple[int, ...]:
    """Convert `keep` to class positions, ascending; an empty tuple means that each sample keeps its own class.

    Parameters
    ----------
    model
        The classifier.
    keep
        None, a label, or several labels: a list, a set, an array or a column.

    >>> from fairmargin.models.linear import LinearClassifier
    >>> model = LinearClassifier(np.eye(3), np.zeros(3), classes=("no", "pending", "yes"))
    >>> kept_positions(model, "yes"), kept_positions(model, ["yes", "no"]), kept_positions(model, None)
    ((2,), (0, 2), ())
    """
    if keep is None:
        return ()
    alone = isinstance(keep, (str, bytes)) or not hasattr(keep, "__len__")
    labels: npt.NDArray[Any] | list[Any] = (
        [keep] if alone else list(keep) if isinstance(keep, (set, frozenset)) else keep
    )
    if not len(labels):
        raise InputError(
            "names no class. Give the classes that the prediction should stay in, or leave it out so that each sample "
            "keeps its own class",
            field="keep",
        )
    positions = tuple(sorted(set(encode_labels(model, labels, "keep").tolist())))
    if len(positions) == len(model.classes):
        raise InputError(
            f"names all {len(model.classes)} classes of the model, so no prediction could leave them. Leave out at "
            "least one",
            field="keep",
        )
    return positions
