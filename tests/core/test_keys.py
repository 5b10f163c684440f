import json
from hashlib import sha256

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.core.keys import canonical_json, content_hash, sample_keys

law = settings(max_examples=40, deadline=None, derandomize=True)
X = np.random.default_rng(0).normal(size=(40, 2, 3))
Y = np.arange(40) % 7
KEYS = sample_keys(X, Y)


@law
@given(st.permutations(range(40)), st.integers(1, 39))
def test_a_sample_has_the_same_key_in_any_order_and_batch(order, cut):
    parts = (order[:cut], order[cut:])
    assert np.concatenate([sample_keys(X[p], Y[p]) for p in parts]).tolist() == KEYS[order].tolist()


def test_keys_equal_those_of_earlier_versions():
    assert [hex(int(k)) for k in sample_keys(np.array([[0.0, 1.0], [2.0, 3.0]]), np.array([0, 1]))] == [
        "0x8d712e347de3f39f",
        "0x2c9358c2d1b21ec9",
    ]


def test_equal_samples_have_equal_keys_and_different_ones_differ_in_all_64_bits():
    assert len(np.unique(sample_keys(np.ones((5, 3)), np.zeros(5, dtype=int)))) == 1
    assert len(np.unique(KEYS)) == 40
    assert KEYS.dtype == np.uint64
    bits = np.unpackbits(KEYS.view(np.uint8).reshape(40, 8), axis=1)
    assert (bits.any(axis=0) & ~bits.all(axis=0)).all()
    assert len(np.unique(sample_keys(np.arange(12, dtype=np.uint8).reshape(3, 4), np.zeros(3, dtype=int)))) == 3
    assert sample_keys(np.zeros((0, 3)), np.zeros(0, dtype=int)).tolist() == []


@pytest.mark.parametrize(
    "others",
    [
        sample_keys(X, Y, seed=1),
        sample_keys(X, Y, seed=-1),
        sample_keys(X, Y, seed=2**40),
        sample_keys(X, Y + 1),
        sample_keys(X.astype(np.float32), Y),
    ],
    ids=["seed", "negative seed", "large seed", "label", "precision"],
)
def test_seed_label_and_precision_change_every_key(others):
    assert not (others == KEYS).any()


def test_one_bit_of_a_sample_changes_its_key_and_no_other():
    changed = X.copy()
    changed[3, 1, 2] = np.nextafter(changed[3, 1, 2], np.inf)
    assert np.flatnonzero(sample_keys(changed, Y) != KEYS).tolist() == [3]


def test_a_value_is_not_confused_with_a_label():
    one = sample_keys(np.array([[1, 2]], dtype=np.int64), np.array([3]))
    other = sample_keys(np.array([[1]], dtype=np.int64), np.array([2]))
    assert one[0] != other[0]


@pytest.mark.parametrize(
    "same",
    [
        np.asfortranarray(X),
        X.astype(">f8"),
        np.repeat(X, 2, axis=0)[::2],
        X[::-1].copy()[::-1],
        X.reshape(40, 6),
        np.broadcast_to(X, X.shape),
    ],
    ids=["fortran", "big endian", "strided", "reversed twice", "flattened", "read-only"],
)
def test_memory_layout_and_endianness_do_not_change_a_key(same):
    assert sample_keys(same, Y).tolist() == KEYS.tolist()


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, ">i8"])
def test_the_integer_type_of_the_labels_does_not_change_a_key(dtype):
    assert sample_keys(X, Y.astype(dtype)).tolist() == KEYS.tolist()


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@law
@given(PLAIN)
def test_content_is_hashed_as_the_json_that_earlier_versions_hashed(content):
    spaced = json.dumps(content, sort_keys=True)
    compact = json.dumps(content, sort_keys=True, separators=(",", ":"))
    assert content_hash(content) == sha256(spaced.encode()).hexdigest()
    assert content_hash(content, compact=True) == sha256(compact.encode()).hexdigest()
    assert content_hash(json.loads(canonical_json(content))) == content_hash(content)
