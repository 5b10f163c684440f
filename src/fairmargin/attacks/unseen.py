"""Classes that a model can answer and that no sample has."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairmargin.core.arrays import Ints

_FEW = 5  # that are named


def unseen_classes(classes: Sequence[Any], positions: Ints, whose: str) -> tuple[str, ...]:
    """A note where a model tells more classes apart than occur among the labels; nothing where all of them occur.

    Often a network was built for more classes than there are; and whoever is answered such a class is misclassified.

    Parameters
    ----------
    classes
        The label values in the order of the model's outputs.
    positions
        The position among them of each sample's label.
    whose
        Which samples these are, as in "the training data".

    >>> unseen_classes((0, 1, 2), np.array([0, 1, 1]), "the samples")[0]
    'The model tells 3 classes apart, and the samples have 2 of them: none is of class 2. Was it built for these data?'
    """
    seen = set(np.unique(positions).tolist())
    absent = [str(label) for position, label in enumerate(classes) if position not in seen]
    if not absent:
        return ()
    named = ", ".join(absent[:_FEW]) + (f" and {len(absent) - _FEW:,} more" if len(absent) > _FEW else "")
    return (
        f"The model tells {len(classes):,} classes apart, and {whose} have {len(seen):,} of them: none is of class "
        f"{named}. Was it built for these data?",
    )
