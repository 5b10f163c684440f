"""What a person should know of a training that nothing forbids: better said than found out."""

from typing import Protocol, runtime_checkable

from fairmargin.attacks.unseen import unseen_classes
from fairmargin.core.arrays import Ints
from fairmargin.training.recipe import TrainingMethod
from fairmargin.training.watching import Watch


@runtime_checkable
class Remarking(Protocol):
    """A method that has something to say about its settings; an empty text where it has not."""

    @property
    def remark(self) -> str:
        """A sentence."""


def notes_on(method: TrainingMethod, watch: Watch, positions: Ints) -> tuple[str, ...]:
    """Settings that do nothing, outputs of the network that nothing is learned about, groups that nobody watches.

    Parameters
    ----------
    method
        It may have a `remark`.
    watch
        Data, groups and classes.
    positions
        The class of each training sample, in the order of the network's outputs.
    """
    remark = method.remark if isinstance(method, Remarking) else ""
    unseen = unseen_classes(watch.classes, positions, "the training data")
    return (*filter(None, [remark]), *unseen, *_unwatched(watch))


def _unwatched(watch: Watch) -> tuple[str, ...]:
    """Groups of the training data of which the validation data have none."""
    if watch.validation is None:
        return ()
    groups, there = watch.training[1], watch.validation[1]
    present = {label for label, mask in there if mask.any()}
    absent = [repr(label) for label, mask in groups if mask.any() and label not in present]
    if not absent:
        return ()
    named = ", ".join(absent[:5]) + (f" and {len(absent) - 5:,} more" if len(absent) > 5 else "")
    return (
        f"The validation data have no sample of {named} ({groups.name}): the worst group there, by which the best "
        "epoch is chosen, is the worst of the others.",
    )
