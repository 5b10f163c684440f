"""Pictures of the two toys."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fairmargin.core.arrays import Floats
from fairmargin.core.curve import RobustnessCurve
from fairmargin.core.distances import Distances
from fairmargin.data.dataset import Dataset
from fairmargin.models.linear import LinearClassifier
from fairmargin_papers.shared.pictures import COLOURS, DASHES, MARKERS, panels, styled

_SHAPES = {"round": "o", "cross": "X"}
# The names of the toy's classes; their colours differ in brightness too.
_CLASSES = {"violet": COLOURS[3], "orange": COLOURS[4], "brown": COLOURS[8]}
_GRID = 241


@dataclass(frozen=True, slots=True, eq=False)
class Perfect:
    """A classifier that is always right, its distances, and the share of each shape within the budget."""

    name: str
    distances: Distances
    attacked: dict[str, float]


@styled
def two_classifiers_picture(toy: Dataset, classifiers: Sequence[Perfect], budget: float) -> Figure:
    """Draw the points under each classifier, with its boundary and the budget around it."""
    figure, axes = panels(1, len(classifiers), width=4.9, height=4.6)
    x, y, shape = np.asarray(toy.x), np.asarray(toy.y), np.asarray(toy.attributes["shape"])
    for number, (axis, each) in enumerate(zip(axes, classifiers, strict=True)):
        draw = axis.axvline if number == 0 else axis.axhline
        draw(0, color="#222222", linewidth=1.6)
        for side in (-budget, budget):
            draw(side, color="#222222", linewidth=1, linestyle="--")
        near = each.distances.values <= budget
        for name, marker in _SHAPES.items():
            for label in (0, 1):
                for reached in (False, True):
                    these = (shape == name) & (y == label) & (near == reached)
                    axis.scatter(
                        x[these, 0], x[these, 1], s=30, marker=marker, color=COLOURS[(0, 2)[label]], linewidths=0.4,
                        alpha=0.95 if reached else 0.22, edgecolors="white",
                    )  # fmt: skip
        said = ", ".join(f"{share:.0%} of {name}" for name, share in sorted(each.attacked.items(), reverse=True))
        axis.set_title(f"{each.name}: {said} attacked", fontsize=10)
        axis.set(xlabel="first feature", ylabel="second feature", xlim=(-3.3, 3.3), ylim=(-3.3, 3.3), aspect="equal")
        axis.grid(visible=False)
    handles = [
        *(Line2D([], [], marker=m, color="#666666", linestyle="", label=name) for name, m in _SHAPES.items()),
        *(
            Line2D([], [], marker="s", color=COLOURS[colour], linestyle="", label=name)
            for name, colour in zip(toy.class_names, (0, 2), strict=True)
        ),
        Line2D([], [], color="#222222", linewidth=1.6, label="boundary"),
        Line2D([], [], color="#222222", linewidth=1, linestyle="--", label=f"budget τ = {budget:g}"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=9)
    return figure


@styled
def three_classes_picture(test: Dataset, model: LinearClassifier, distances: Distances) -> Figure:
    """Draw the samples with the boundaries of a linear model (left), and the curve of each class (right)."""
    figure, (left, right) = panels(1, 2, height=3.8)
    x, handles = np.asarray(test.x), []
    low, high = x.min(axis=0) - 0.6, x.max(axis=0) + 0.6
    _draw_boundaries(left, model, low, high)
    for number, (name, which) in enumerate(test.partition("class")):
        left.scatter(x[which, 0], x[which, 1], s=16, marker=MARKERS[number], color=_CLASSES[name], alpha=0.8)
        radii, heights = RobustnessCurve.of(distances, which).steps()
        right.step(radii, heights, where="post", label=name, color=_CLASSES[name], linestyle=DASHES[number])
        label = Line2D([], [], marker=MARKERS[number], color=_CLASSES[name], linestyle=DASHES[number], label=name)
        handles.append(label)
    limits = {"xlim": (low[0], high[0]), "ylim": (low[1], high[1])}
    left.set(xlabel="first feature", ylabel="second feature", title="Three classes and their boundaries", **limits)
    left.set_aspect("equal")
    left.grid(visible=False)
    right.set(
        xlabel="distance τ (L2)",
        ylabel="share right and farther than τ",
        xlim=(0, None),
        ylim=(0, 1.02),
        title="One class lies closer",
    )
    right.legend(handles=handles, title="class", fontsize=9)
    return figure


def _draw_boundaries(axis: Axes, model: LinearClassifier, low: Floats, high: Floats) -> None:
    """Draw where the score of a class equals the best other score, as smooth lines."""
    across, up = (np.linspace(start, end, _GRID) for start, end in zip(low, high, strict=True))
    grid = np.stack(np.meshgrid(across, up), axis=-1)
    scores = model.scores(grid.reshape(-1, 2)).reshape(_GRID, _GRID, -1)
    for k in range(scores.shape[2]):
        lead = scores[:, :, k] - np.delete(scores, k, axis=2).max(axis=2)
        axis.contour(across, up, lead, levels=[0.0], colors="#222222", linewidths=1.3)
