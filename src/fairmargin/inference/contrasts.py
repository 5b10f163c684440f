"""Compare every group of a partition with its rest, by the method that suits the clusters."""

from fairmargin.core.arrays import Floats, Ints
from fairmargin.core.partition import Partition
from fairmargin.inference import crossing, nested
from fairmargin.inference.contrast import Contrasts, GroupMeans
from fairmargin.inference.settings import AuditSettings
from fairmargin.inference.units import make_cells


def compare_groups(
    values: Floats, partition: Partition, settings: AuditSettings, cluster: Ints | None
) -> tuple[GroupMeans, Contrasts]:
    """Each group's mean, and each group against its rest, by the machinery that suits the clusters."""
    plain = make_cells(values, partition, None, cluster)
    cells = plain if settings.control is None else make_cells(values, partition, settings.control, cluster)
    drawn = None if plain is None else nested.draw(plain, settings)
    if plain is None or drawn is None:
        assert cluster is not None  # single samples never span groups
        means = crossing.means(crossing.cluster_sums(values, partition, None, cluster), settings)
    else:
        means = nested.means(plain, drawn, settings)
    if cells is None:
        assert cluster is not None
        return means, crossing.contrasts(crossing.cluster_sums(values, partition, settings.control, cluster), settings)
    if cells is not plain or drawn is None:
        drawn = nested.draw(cells, settings)
    return means, nested.contrasts(cells, drawn, settings)
