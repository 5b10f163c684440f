import json
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.keys import canonical_json, content_hash, sample_keys
from fairmargin.errors import InputError

law = settings(max_examples=40, deadline=None, derandomize=True)
X = np.random.default_rng(0).normal(size=(40, 2, 3))
Y = np.arange(40) % 7
KEYS = sample_keys(X, Y)


@law
@given(st.permutations(range(40)), st.integers(1, 39))
def test_a_sample_has_the_same_key_in_any_order_and_batch(order: list[int], cut: int) -> None:
    parts = (order[:cut], order[cut:])
    assert np.concatenate([sample_keys(X[p], Y[p]) for p in parts]).tolist() == KEYS[order].tolist()


def test_a_sample_has_the_same_key_alone() -> None:
    assert [int(sample_keys(X[i : i + 1], Y[i : i + 1])[0]) for i in range(40)] == KEYS.tolist()


def test_keys_equal_those_of_earlier_versions() -> None:
    assert [hex(int(k)) for k in sample_keys(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1]))] == [
        "0x8d712e347de3f39f",
        "0x2c9358c2d1b21ec9",
    ]


def test_equal_samples_have_equal_keys_and_different_ones_differ() -> None:
    assert len(np.unique(KEYS)) == 40
    assert len(np.unique(sample_keys(np.ones((5, 3)), np.zeros(5, dtype=int)))) == 1


def test_keys_are_64_bit_and_use_all_of_them() -> None:
    assert KEYS.dtype == np.uint64
    bits = np.unpackbits(KEYS.view(np.uint8).reshape(40, 8), axis=1)
    assert (bits.any(axis=0) & ~bits.all(axis=0)).all()


@pytest.mark.parametrize("seed", [1, -1, 2**40])
def test_the_seed_changes_every_key(seed: int) -> None:
    assert not (sample_keys(X, Y, seed) == KEYS).any()


def test_the_label_changes_the_key() -> None:
    assert not (sample_keys(X, Y + 1) == KEYS).any()


def test_one_bit_of_a_sample_changes_its_key_and_no_other() -> None:
    changed = X.copy()
    changed[3, 1, 2] = np.nextafter(changed[3, 1, 2], np.inf)
    assert np.flatnonzero(sample_keys(changed, Y) != KEYS).tolist() == [3]


def test_precision_is_part_of_the_bytes() -> None:
    assert not (sample_keys(X.astype(np.float32), Y) == KEYS).any()


def test_a_value_is_not_confused_with_a_label() -> None:
    one = sample_keys(np.array([[1, 2]], dtype=np.int64), np.array([3]))
    other = sample_keys(np.array([[1]], dtype=np.int64), np.array([2]))
    assert one[0] != other[0]


@pytest.mark.parametrize(
    "same",
    [
        np.asfortranarray(X),
        X.astype(">f8"),
        X.astype("<f8"),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1].copy()[::-1],
        X.reshape(40, 6),
        np.broadcast_to(X, X.shape),
    ],
    ids=["fortran", "big endian", "little endian", "strided", "reversed twice", "flattened", "read-only"],
)
def test_memory_layout_and_endianness_do_not_change_a_key(same: np.ndarray) -> None:
    assert sample_keys(same, Y).tolist() == KEYS.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, ">i8"])
def test_the_integer_type_of_the_labels_does_not_change_a_key(dtype: str) -> None:
    assert sample_keys(X, Y.astype(dtype)).tolist() == KEYS.tolist()


def test_bytes_and_images_of_whole_numbers_have_keys() -> None:
    assert len(np.unique(sample_keys(np.arange(12, dtype=np.uint8).reshape(3, 4), np.zeros(3, dtype=int)))) == 3


def test_hashing_changes_neither_the_samples_nor_the_global_random_state() -> None:
    x, state = X.copy(), np.random.get_state()[1].tolist()
    sample_keys(x, Y, 5)
    assert (x == X).all()
    assert np.random.get_state()[1].tolist() == state


def test_labels_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="`y` has 39 entries but `x` has 40"):
        sample_keys(X, Y[:39])


def test_no_samples_have_no_keys() -> None:
    assert sample_keys(np.zeros((0, 3)), np.zeros(0, dtype=int)).tolist() == []


NAMES = st.text(max_size=3)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


@law
@given(PLAIN)
def test_content_is_hashed_as_the_json_that_earlier_versions_hashed(content: object) -> None:
    spaced = json.dumps(content, sort_keys=True)
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert content_hash(content) == sha256(spaced.encode()).hexdigest()
    assert content_hash(content, compact=True) == sha256(compact.encode()).hexdigest()


@law
@given(PLAIN)
def test_content_that_json_reads_back_is_hashed_the_same(content: object) -> None:
    assert content_hash(json.loads(canonical_json(content))) == content_hash(content)


class Opaque:
    def __repr__(self) -> str:
        return "Opaque()"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (Opaque(), r"given Opaque\(\) of type Opaque\."),
        ({"plan": [1, {"rate": Opaque()}]}, r"of type Opaque at plan\[1\]\.rate\."),
        ({"x": np.int64(3)}, r"of type int64 at x\."),
        ({"x": {1, 2}}, r"of type set at x\."),
        ({"x": b"1"}, r"of type bytes at x\."),
        ({"x": {1: "a"}}, r"given 1 of type int at a name in x\."),
        ({(1, 2): "a"}, r"of type tuple at a name\."),
    ],
)
def test_content_that_is_not_plain_is_refused_with_its_place(content: object, said: str) -> None:
    with pytest.raises(InputError, match=f"A key is made from plain values .*{said}"):
        content_hash(content)
