"""Images in the cache: as numbers, by rows, with fingerprints, and resized."""

import sys

import numpy as np
import pytest
from PIL import Image

from fairmargin.data.fetch.cache import cached
from fairmargin.data.formats.images import allocate_images, image_dataset, resized
from fairmargin.errors import InputError

IMAGES = np.random.RandomState(0).randint(0, 256, (6, 3, 4, 5), dtype=np.uint8)
LABELS = np.array([0, 1, 0, 1, 0, 1])


def stored(images, key="a", at_once=6):
    def build(writer):
        shelf = allocate_images(writer, len(images), images.shape[1:])
        for start in range(0, len(images), at_once):
            shelf.put(start, images[start : start + at_once])

    return cached("images", {"key": key}, build)


def test_images_are_numbers_from_zero_to_one_and_stay_on_disk():
    dataset = image_dataset("photos", stored(IMAGES), None, LABELS, class_names=("cat", "dog"), notes=("A note.",))
    assert isinstance(dataset.x.stored, np.memmap)
    np.testing.assert_array_equal(np.asarray(dataset.x), IMAGES.astype(np.float32) / np.float32(255))
    assert (dataset.domain.low, dataset.domain.high) == (0, 1)
    assert dataset.partition("class").labels == ("cat", "dog")
    assert dataset.notes == ("A note.",)


@pytest.mark.parametrize("rows", [[1, 2, 3], [4, 0, 5], [3]])
def test_rows_select_images_labels_and_attributes_alike(rows):
    dataset = image_dataset("photos", stored(IMAGES), np.array(rows), LABELS, attributes={"number": np.arange(6)})
    np.testing.assert_array_equal(np.asarray(dataset.x), IMAGES[rows].astype(np.float32) / np.float32(255))
    assert dataset.y.tolist() == LABELS[rows].tolist()
    assert dataset.attributes["number"].tolist() == rows


def test_the_fingerprint_is_that_of_the_selected_images():
    whole = image_dataset("photos", stored(IMAGES), np.array([3, 4]), LABELS)
    alone = image_dataset("photos", stored(IMAGES[3:5], "b", at_once=1), None, LABELS[3:5])
    turned = image_dataset("photos", stored(IMAGES[::-1], "c"), np.array([2, 1]), LABELS[::-1])
    assert whole.fingerprint == alone.fingerprint == turned.fingerprint


def test_the_fingerprint_changes_with_a_pixel_a_label_the_order_and_the_shape():
    changed, rows = IMAGES.copy(), np.arange(6)
    changed[5, 2, 3, 4] ^= 1
    prints = {
        image_dataset("photos", stored(images, key), rows, labels).fingerprint
        for images, key, rows, labels in (
            (IMAGES, "a", rows, LABELS),
            (changed, "b", rows, LABELS),
            (IMAGES, "a", rows, 1 - LABELS),
            (IMAGES, "a", rows[::-1], LABELS[::-1]),
            (IMAGES.reshape(6, 3, 5, 4), "c", rows, LABELS),
            (IMAGES, "a", rows[:5], LABELS),
        )
    }
    assert len(prints) == 6


def test_a_split_without_images_is_refused():
    with pytest.raises(InputError, match="photos has no images in the requested split"):
        image_dataset("photos", stored(IMAGES), np.array([], dtype=np.int64), LABELS)


@pytest.mark.parametrize("size", [3, 16])
def test_resizing_agrees_with_pillow_on_whole_colour_images(size):
    for image, found in zip(IMAGES, resized(IMAGES, size), strict=True):
        expected = Image.fromarray(image.transpose(1, 2, 0)).resize((size, size), Image.Resampling.BILINEAR)
        np.testing.assert_array_equal(found.transpose(1, 2, 0), np.asarray(expected))


def test_images_of_the_right_size_are_returned_unchanged():
    square = IMAGES[..., :4]
    assert resized(IMAGES, None) is IMAGES
    assert resized(square, 4) is square


def test_the_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(InputError, match=r"pip install 'fairmargin\[image\]'"):
        resized(IMAGES, 2)
