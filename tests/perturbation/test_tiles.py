import pytest
import torch

from fairmargin.models.as_classifier import as_classifier
from fairmargin.perturbation.tiles import by_tiles
from tests.perturbation.networks import by_margin, cnn, formula, test_digits

NETWORK = formula(by_margin(lambda rows: rows[:, 0]), tile=8)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 16, 21])
def test_results_are_in_the_order_of_the_rows_for_any_number_of_rows(count):
    rows, numbers = torch.arange(2.0 * count).reshape(count, 2), torch.arange(count)
    sums, doubled = by_tiles(NETWORK, lambda a, b: (a.sum(dim=1) + b, 2 * a), rows, numbers)
    assert torch.equal(sums, rows.sum(dim=1) + numbers)
    assert torch.equal(doubled, 2 * rows)


@pytest.mark.parametrize("count", [1, 8, 11])
def test_the_function_is_called_with_full_tiles_padded_by_the_last_row(count):
    seen = []
    by_tiles(NETWORK, lambda rows: (seen.append(rows) or rows,), torch.arange(float(count))[:, None])
    assert {tuple(tile.shape) for tile in seen} == {(8, 1)}
    assert torch.cat(seen)[count:].eq(count - 1).all()


def test_keeps_dtypes_and_rows_of_any_shape():
    whole, truth = by_tiles(NETWORK, lambda rows: (rows.long(), rows > 2), torch.arange(5.0).reshape(5, 1))
    assert (whole.dtype, truth.dtype) == (torch.int64, torch.bool)
    (images,) = by_tiles(NETWORK, lambda rows: (rows + 1,), torch.zeros(3, 2, 4, 4))
    assert images.shape == (3, 2, 4, 4)


@pytest.mark.parametrize("norm", [False, True], ids=["plain", "batch normalisation"])
def test_the_result_of_a_row_is_identical_at_every_position_of_a_tile_and_beside_any_other_row(norm):
    x, _ = test_digits(80)
    rows = torch.tensor(x).flatten(1)
    with as_classifier(cnn(norm, epochs=0)).network((1, 8, 8)) as network:

        def scores(tile):
            return (network.plain(tile),)

        (together,) = by_tiles(network, scores, rows)
        order = torch.randperm(80, generator=torch.Generator().manual_seed(3))
        (shuffled,) = by_tiles(network, scores, rows[order])
        assert torch.equal(shuffled, together[order])
        for place in (0, 1, 31, 62, 63):
            tile = rows[:64].roll(place, dims=0)
            assert torch.equal(network.plain(tile)[place], together[0])
        for i in (0, 17, 79):
            (alone,) = by_tiles(network, scores, rows[i : i + 1])
            assert torch.equal(alone[0], together[i])
