"""Drawing a few samples of each group."""

import numpy as np
import pytest

from fairmargin.data.dataset import Dataset
from fairmargin.data.samples import Pixels
from fairmargin.errors import InputError

RACE = np.array(["A"] * 50 + ["B"] * 5 + ["C"] * 30)[np.random.RandomState(1).permutation(85)]


def people(race: np.ndarray = RACE) -> Dataset:
    rows = np.arange(len(race))
    return Dataset(
        rows[:, None].astype(float), rows % 2, {"race": race, "row": rows}, name="people", notes=("As it came.",)
    )


def test_each_group_has_so_many_samples_or_all_it_has() -> None:
    drawn = people().sample(per_group=10, by="race")
    partition = drawn.partition("race")
    assert dict(zip(partition.labels, partition.sizes.tolist(), strict=True)) == {"A": 10, "B": 5, "C": 10}


def test_samples_keep_their_order_and_everything_that_belongs_to_them() -> None:
    drawn = people().sample(per_group=10, by="race")
    rows = drawn.attributes["row"]
    assert (np.diff(rows) > 0).all()
    np.testing.assert_array_equal(np.asarray(drawn.x)[:, 0], rows)
    np.testing.assert_array_equal(drawn.y, rows % 2)
    np.testing.assert_array_equal(drawn.attributes["race"], RACE[rows])


def test_the_same_seed_draws_the_same_and_another_draws_others() -> None:
    rows = [tuple(people().sample(10, "race", seed).attributes["row"]) for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]
    # Frozen on purpose: whoever publishes a seed publishes a sample.
    assert people().sample(2, "race").attributes["row"].tolist() == [5, 20, 30, 31, 49, 52]


def test_what_is_drawn_of_a_group_does_not_depend_on_the_others() -> None:
    other = np.where(RACE == "B", "D", RACE)
    first, second = people().sample(10, "race"), people(other).sample(10, "race")
    for group in "AC":
        assert (
            first.attributes["row"][first.attributes["race"] == group].tolist()
            == second.attributes["row"][second.attributes["race"] == group].tolist()
        )


def test_every_sample_of_a_group_is_as_likely() -> None:
    counts = np.zeros(85)
    for seed in range(400):
        counts[people().sample(10, "race", seed).attributes["row"]] += 1
    assert counts[RACE == "B"].tolist() == [400] * 5
    # Binomial(400, 1/5): five standard deviations are 40.
    assert (np.abs(counts[RACE == "A"] - 80) < 40).all()


def test_a_note_says_what_overall_numbers_are_of() -> None:
    drawn = people().sample(per_group=10, by="race", seed=3)
    assert drawn.notes[0] == "As it came."
    assert "25 of 85: at most 10 of each group of 'race', drawn with seed 3" in drawn.notes[1]
    assert "describe this sample, not the whole data" in drawn.notes[1]


def test_small_groups_are_left_alone() -> None:
    whole = people()
    assert whole.sample(per_group=50, by="race") is whole


def test_classes_are_groups_too() -> None:
    assert np.bincount(people().sample(per_group=7).y).tolist() == [7, 7]


def test_images_are_not_loaded_and_the_fingerprint_is_that_of_what_was_drawn() -> None:
    stored = np.random.RandomState(0).randint(0, 256, (85, 1, 2, 2)).astype(np.uint8)
    drawn = Dataset(Pixels(stored), np.zeros(85, dtype=int), {"race": RACE}).sample(3, "race")
    assert isinstance(drawn.x, Pixels)
    assert drawn.x.stored is stored
    assert drawn.fingerprint == Dataset(drawn.x[:], drawn.y).fingerprint


@pytest.mark.parametrize("wrong", [0, -1, 2.5, True, "10"])
def test_a_number_of_samples_that_is_none_is_refused(wrong: int) -> None:
    with pytest.raises(InputError, match="1 or more; given"):
        people().sample(per_group=wrong, by="race")


def test_an_unknown_attribute_is_answered_with_the_nearest() -> None:
    with pytest.raises(InputError, match="Did you mean 'race'"):
        people().sample(by="rase")
