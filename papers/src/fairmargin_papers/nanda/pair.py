"""Two pictures and one budget: the one is led over the boundary, the other cannot be."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from fairmargin.core.arrays import Bools, Floats
from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.distances.exact_linear import ExactLinear
from fairmargin.distances.measure import measure
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.shared.measures import sigma
from fairmargin_papers.shared.pictures import panels, styled

_BEYOND = 1e-6  # a hair over the boundary, relatively


@dataclass(frozen=True, slots=True, eq=False)
class Attacked:
    """A picture before and after a step of the budget's length towards its nearest boundary.

    Parameters
    ----------
    before, after
        The pictures.
    label, prediction
        What it is, and what the model says afterwards.
    distance
        From the boundary, exactly.
    """

    before: Floats
    after: Floats
    label: str
    prediction: str
    distance: float


def image_pair(model: LinearClassifier, test: Dataset, classes: Partition) -> tuple[Attacked, Attacked, float]:
    """The median correct picture of the least and of the most robust class, and a budget between their distances.

    Guarantee: within the budget no change at all flips the second, since the distances of a linear model are exact.
    """
    x, y = np.asarray(test.x), np.asarray(test.y, dtype=np.int64)
    distances = measure(model, test.x, y, ExactLinear(), progress=False)
    scores = {label: value for label, value in sigma(distances, classes).items() if value == value}
    masks = dict(iter(classes))
    there = [label for label in scores if (masks[label] & distances.correct).any()]
    middle = {label: _median_at(distances.values, masks[label] & distances.correct) for label in there}
    weak = min(there, key=lambda label: distances.values[middle[label]])
    strong = max(there, key=lambda label: distances.values[middle[label]])
    near, far = (float(distances.values[middle[label]]) for label in (weak, strong))
    budget = float(np.sqrt(near * far))
    first, second = (
        _attacked(model, test, x[middle[label]], int(y[middle[label]]), label, budget, distance)
        for label, distance in ((weak, near), (strong, far))
    )
    return first, second, budget


def _median_at(values: Floats, which: Bools) -> int:
    """The position of the sample with the (lower) median distance."""
    members = np.flatnonzero(which)
    return int(members[np.argsort(values[members], kind="stable")[(len(members) - 1) // 2]])


def _attacked(
    model: LinearClassifier, test: Dataset, x: Floats, y: int, label: str, budget: float, distance: float
) -> Attacked:
    """Straight towards the nearest point of the boundary, a hair beyond it if the budget reaches so far."""
    nearest = ExactLinear().closest(model, x[None], np.array([y]))[0]
    way = (nearest - x) / distance
    after = np.clip(x + way * min(budget, distance * (1 + _BEYOND)), 0.0, 1.0)
    said = int(model.predict(after[None])[0])
    name = test.class_names[said] if test.class_names else str(said)
    return Attacked(x, after, label, name, distance)


@styled
def pair_picture(first: Attacked, second: Attacked, budget: float) -> Figure:
    """Both pictures before, the change (enlarged), and after."""
    figure, axes = panels(2, 3, width=2.5, height=2.5)
    # Both enlarged alike, so that one sees which is longer: the first stops a hair beyond its boundary.
    scale = max(float(np.abs(each.after - each.before).max()) for each in (first, second)) or 1.0
    for row, each in enumerate((first, second)):
        change = each.after - each.before
        flips = each.prediction != each.label
        titles = (
            f"{each.label}, distance {each.distance:.2f}",
            f"change, ×{0.5 / scale:.0f}",
            f"now: {each.prediction}" + (", flipped" if flips else ", as before"),
        )
        for axis, content, title in zip(
            axes[3 * row : 3 * row + 3], (each.before, 0.5 + 0.5 * change / scale, each.after), titles, strict=True
        ):
            picture = as_picture(content)
            axis.imshow(picture, cmap="gray" if picture.ndim == 2 else None, vmin=0, vmax=1, interpolation="nearest")
            axis.set_xticks([])
            axis.set_yticks([])
            axis.grid(visible=False)
            axis.set_title(title, fontsize=10, loc="center")
    figure.supxlabel(f"budget τ = {budget:.2f} (L2, pixels in [0, 1])", fontsize=10)
    return figure


def as_picture(content: Floats) -> Floats:
    """Numbers as matplotlib draws them: rows × columns, or rows × columns × colours.

    >>> as_picture(np.zeros(64)).shape, as_picture(np.zeros((3, 32, 32))).shape
    ((8, 8), (32, 32, 3))
    """
    if content.ndim == 1:
        side = round(np.sqrt(len(content)))
        return content.reshape(side, side)
    return content[0] if len(content) == 1 else np.moveaxis(content, 0, 2)
