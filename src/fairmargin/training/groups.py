"""The groups that a method speaks of, of training and of validation data."""

from fairmargin.core.partition import Partition
from fairmargin.data.dataset import Dataset
from fairmargin.errors import InputError


def groups_of(dataset: Dataset, partition: Partition | str | None) -> Partition:
    """The partition, by its name if that is given; by class if nothing is."""
    if isinstance(partition, Partition):
        if len(partition) != len(dataset):
            raise InputError(
                f"The partition has {len(partition):,} samples but the data have {len(dataset):,}. Did you drop rows "
                "from only one of them?"
            )
        return partition
    return dataset.partition(partition or "class")


def groups_there(
    validation: Dataset, partition: Partition | str | None, groups: Partition, given: Partition | None
) -> Partition:
    """The same groups of the validation data."""
    if given is None:
        name = groups.name if isinstance(partition, Partition) else partition or "class"
        try:
            there = validation.partition(name)
        except InputError as error:
            raise InputError(
                f"Validation data: {error} Groups of training and validation data must be the same; those of a "
                "partition of your own are given as `validation_partition`."
            ) from None
    else:
        there = groups_of(validation, given)
    unknown = [label for label in there.labels if label not in groups.labels]
    if unknown:
        raise InputError(
            f"The validation data have a group {unknown[0]!r} of {groups.name!r} that the training data do not have. "
            "Leave it out, or merge it with another in both."
        )
    return there
