"""A model made ready for an attack: with its gradients where it has them, and by its scores alone where not."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fairmargin.attacks.protocol import Attack
from fairmargin.errors import ModelError
from fairmargin.models.network import TILE, Network, space
from fairmargin.models.protocol import Classifier


@contextmanager
def opened(model: Classifier, attack: Attack, shape: tuple[int, ...]) -> Iterator[Network]:
    """The model on samples of that shape, for as long as the context lasts.

    One that offers no gradients is asked for `scores(x)`, a row of one number a class for each sample.
    """
    if "gradient" in model.offers:
        with model.network(shape) as network:  # type: ignore[attr-defined]
            yield network
    else:
        yield _by_scores(model, attack, shape)


def _by_scores(model: Any, attack: Attack, shape: tuple[int, ...]) -> Network:
    name, kind = type(attack).__name__, type(model).__name__
    if not callable(getattr(model, "scores", None)):
        raise ModelError(
            f"`{name}` follows a model's scores, and `{kind}` gives labels only. Give it a method `scores(x)` that "
            "returns one number a class, the largest for the class it predicts: in scikit-learn, `predict_proba(x)`."
        )
    classes = len(model.classes)

    def plain(rows: Tensor) -> Tensor:
        samples = rows.detach().numpy().reshape(len(rows), *shape)
        scores = np.array(model.scores(samples), dtype=np.float64)
        if scores.shape != (len(rows), classes):
            raise ModelError(
                f"`{kind}.scores` must return one number a class for each sample, shape {(len(rows), classes)}; it "
                f"returned shape {scores.shape}."
            )
        return torch.from_numpy(scores)

    def without_gradient(rows: Tensor) -> Tensor:
        raise ModelError(f"`{kind}` offers no gradients, and `{name}` asked for them.")

    low, high, scale = space(model.domain, shape, torch.float64, torch.device("cpu"))
    tile = model.tile if model.tile > 1 else TILE
    return Network(without_gradient, plain, classes, tile, low, high, scale)


def check_scores_decide(model: Classifier, x: Any, scores: Tensor) -> None:
    """Refuse a model without gradients whose largest score is not what it predicts."""
    if "gradient" in model.offers:
        return  # then both come from one place
    differing = np.flatnonzero(model.predict(x) != scores.argmax(dim=1).numpy())
    if differing.size:
        raise ModelError(
            f"The largest score of `{type(model).__name__}.scores` is not the class it predicts for {differing.size:,} "
            f"of {len(x):,} samples (first sample {differing[0]}), so that following scores leads nowhere. Let both "
            "say the same."
        )
