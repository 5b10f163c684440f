"""Pickles are read without running code, and malicious or damaged ones are refused."""

import pickle
import struct
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairmargin.data.formats.plain_pickle import read_plain_pickle
from fairmargin.errors import FairmarginError, InputError, UntrustedError
from tests.data.files import python2_pickle

ARRAYS = {
    "pixels": np.arange(12, dtype=np.uint8).reshape(3, 4),
    "by column": np.asfortranarray(np.arange(6, dtype=np.int32).reshape(2, 3)),
    "big-endian": np.array([1.5, -2.0], dtype=">f8"),
    "text": np.array(["cat", "Ærø"]),
    "flags": np.array([True, False]),
    "nothing": np.zeros((0, 3), dtype=np.float32),
    "a single number": np.array(7.0),
}
PLAIN = {
    "words": ["a", "é", b"raw", b"", None, True, 3, 2**70, -1.5],
    "nested": {"pair": (1, (2, [3])), "set": {4, 5}, 6: "six"},
}


@pytest.mark.parametrize("protocol", range(6))
def test_plain_containers_are_read_in_every_protocol(protocol):
    assert read_plain_pickle(pickle.dumps(PLAIN, protocol), "file") == PLAIN


@pytest.mark.parametrize("protocol", range(5))
@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_are_read_in_every_protocol(name, protocol):
    found = read_plain_pickle(pickle.dumps({"x": ARRAYS[name]}, protocol), "file")["x"]
    assert found.dtype == ARRAYS[name].dtype
    np.testing.assert_array_equal(found, ARRAYS[name])


@pytest.mark.parametrize("protocol", range(5))
def test_numpy_scalars_are_read_in_every_protocol(protocol):
    found = read_plain_pickle(pickle.dumps([np.float32(0.5), np.int64(-3)], protocol), "file")
    assert found == [0.5, -3]
    assert [type(number) for number in found] == [np.float32, np.int64]


def test_an_array_that_occurs_twice_is_one_object():
    array = np.arange(3)
    first, second = read_plain_pickle(pickle.dumps([array, array]), "file")
    assert first is second


def test_texts_of_python_2_are_read_as_bytes():
    record = read_plain_pickle(python2_pickle({"label_names": ["caf\xe9"], "data": ARRAYS["pixels"]}), "file")
    assert record[b"label_names"] == [b"caf\xe9"]
    np.testing.assert_array_equal(record[b"data"], ARRAYS["pixels"])


def calling(module: str, name: str, argument: str) -> bytes:
    return f"c{module}\n{name}\n(V{argument}\ntR.".encode()


def text4(text: str) -> bytes:
    return b"\x8c" + bytes([len(text)]) + text.encode()


def dotted(module: str, name: str, argument: str) -> bytes:
    """Protocol 4 looks up a dotted name attribute by attribute."""
    return b"\x80\x04" + text4(module) + text4(name) + b"\x93(" + text4(argument) + b"tR."


# Each of these, given the path of a file, is a pickle that creates this file when `pickle.loads` reads it.
GADGETS = {
    "a shell command": lambda path: calling("os", "system", f"touch {path}"),
    "the same under its other name": lambda path: calling("posix", "system", f"touch {path}"),
    "an expression": lambda path: calling("builtins", "eval", f"open('{path}', 'w')"),
    "an expression of Python 2": lambda path: calling("__builtin__", "eval", f"open('{path}', 'w')"),
    "a program": lambda path: calling("builtins", "exec", f"open('{path}', 'w')"),
    "another process": lambda path: f"csubprocess\ncheck_call\n((lVtouch\naV{path}\natR.".encode(),
    "a partial application": lambda path: (
        b"cfunctools\npartial\n(cos\nsystem\n" + f"Vtouch {path}\ntR".encode() + b"(tR."
    ),
    "an instance": lambda path: f"(Vtouch {path}\nios\nsystem\n.".encode(),
    "an object": lambda path: f"(cos\nsystem\nVtouch {path}\no.".encode(),
    "an attribute of an attribute": lambda path: dotted("os", "path.os.system", f"touch {path}"),
    "an attribute of an admitted module": lambda path: dotted("numpy", "lib._npyio_impl.os.system", f"touch {path}"),
    "a call before a valid array": lambda path: (
        calling("os", "system", f"touch {path}")[:-1] + b"0" + pickle.dumps(ARRAYS["pixels"], 2)[2:]
    ),
    "a call inside a valid dictionary": lambda path: (
        b"}(Vdata\n" + calling("os", "system", f"touch {path}")[:-1] + b"u."
    ),
}


@pytest.mark.parametrize("gadget", GADGETS)
def test_a_pickle_that_would_run_code_is_refused_and_nothing_runs(gadget, tmp_path):
    marker = tmp_path / "marker"
    content = GADGETS[gadget](marker)
    with pytest.raises(UntrustedError, match=r"batch_1 asks for .* untrusted code.* Nothing was run"):
        read_plain_pickle(content, "batch_1")
    assert not marker.exists()
    pickle.loads(content)  # the same pickle runs without the checks: this test can fail
    assert marker.exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("os", "system"),
        ("builtins", "getattr"),
        ("builtins", "set.__init__"),
        ("functools", "partial"),
        ("copyreg", "_reconstructor"),
        ("numpy", "load"),
        ("numpy", "ndarray.tofile"),
        ("numpy.core.multiarray", "array"),
        ("numpy.core.multiarray", "_reconstruct.__self__"),
        ("numpy.core.multiarray._reconstruct", "__call__"),
        ("_codecs", "decode"),
        ("fairmargin.data.formats.plain_pickle", "_ADMITTED"),
    ],
)
def test_the_message_names_the_file_and_the_function(module, name):
    content = b"\x80\x04" + text4(module) + text4(name) + b"\x93."
    with pytest.raises(UntrustedError) as refusal:
        read_plain_pickle(content, "cifar/test_batch")
    assert str(refusal.value).startswith(f"cifar/test_batch asks for {module}.{name}, ")


def test_instructions_for_objects_or_external_data_are_refused():
    for content in (
        b"\x80\x02cnumpy\nndarray\n)\x81.",  # NEWOBJ
        b"\x80\x04cnumpy\nndarray\n)}\x92.",  # NEWOBJ_EX
        b"Ppersistent\n.",
        b"\x80\x02K\x01Q.",
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x05\x97.",  # NEXT_BUFFER
        pickle.dumps(bytearray(b"bytes"), 5),
    ):
        with pytest.raises(UntrustedError, match="the pickle instruction"):
            read_plain_pickle(content, "file")


RECONSTRUCT = b"cnumpy.core.multiarray\n_reconstruct\n"
EMPTY = RECONSTRUCT + b"(cnumpy\nndarray\n(K\x00tU\x01btR"


@pytest.mark.parametrize(
    "content",
    [
        RECONSTRUCT + b"}(V__defaults__\n(K\x01tub.",
        RECONSTRUCT + b"(N}(V__name__\nVsystem\nutb.",
        b"cnumpy\nndarray\n(N}(Vshape\nK\x01utb.",
        b"cnumpy\ndtype\n}(Vname\nVO\nub.",
        b"c_codecs\nencode\n}(Vx\nK\x01ub.",
        b"}}(Vkeys\nK\x01ub.",
        b"](N}(Vappend\nK\x01utb.",
        EMPTY + b"}(Vdata\nK\x01ub.",
        EMPTY + b"(N}(Varray\nK\x01utb.",
    ],
)
def test_no_attribute_can_be_set(content):
    with pytest.raises(InputError, match="file cannot be read as a pickle"):
        read_plain_pickle(b"\x80\x02" + content, "file")
    # Python would have set most of these attributes; the reader still works.
    np.testing.assert_array_equal(read_plain_pickle(pickle.dumps(ARRAYS["pixels"]), "file"), ARRAYS["pixels"])


@pytest.mark.parametrize(
    "array",
    [
        np.array([{"a": 1}], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array([(None,)], dtype=[("a", "O")]),
        np.array([b"abc"], dtype="V3"),
        np.array(["2020-01-01"], dtype="M8[D]"),
    ],
)
def test_arrays_of_objects_or_records_are_refused(array):
    with pytest.raises(InputError, match="array of"):
        read_plain_pickle(pickle.dumps(array, 4), "file")


def state(shape: bytes, dtype: bytes, content: bytes) -> bytes:
    return b"\x80\x02" + EMPTY + b"(K\x01" + shape + dtype + b"\x89" + content + b"tb."


BYTES = b"cnumpy\ndtype\n(U\x02u1tR"


@pytest.mark.parametrize(
    "content",
    [
        state(b"(K\x05t", BYTES, b"U\x03abc"),
        state(b"(J\xff\xff\xff\xfft", BYTES, b"U\x03abc"),
        state(b"(J\xff\xff\xff\xffJ\xfd\xff\xff\xfft", BYTES, b"U\x03abc"),
        state(b"(\x8a\x08\x00\x00\x00\x00\x00\x00\x00\x10t", BYTES, b"U\x03abc"),
        state(b"(K\x03t", BYTES, b"](K\x01K\x02K\x03e"),
        state(b"(K\x01t", b"cnumpy\ndtype\n(U\x02O8tR", b"U\x08abcdefgh"),
        # Bytes declared as a record with an object in it: numpy would take them for a pointer.
        state(
            b"(K\x01t",
            b"cnumpy\ndtype\n(U\x02u8tR(K\x03U\x01<N(U\x01atN}U\x01a(cnumpy\ndtype\n(U\x02O8tRK\x00tsK\x08K\x01K\x00tb",
            b"U\x08abcdefgh",
        ),
        state(
            b"(K\x01t",
            b"cnumpy\ndtype\n(U\x02u8tR(K\x03U\x01<N(U\x01at}K\x08K\x01K\x00tb",
            b"U\x08abcdefgh",
        ),
        state(b"(K\x03t", b"cnumpy\ndtype\n", b"U\x03abc"),
        b"\x80\x02" + EMPTY + b".",
        b"\x80\x02cnumpy\nndarray\n(K\x03tR.",
        b"\x80\x02cnumpy\nndarray\n.",
    ],
)
def test_arrays_with_contradictory_parts_are_refused(content):
    with pytest.raises(InputError, match="file cannot be read as a pickle"):
        read_plain_pickle(content, "file")


def test_a_small_pickle_cannot_exhaust_memory():
    nested = b"]" + b"".join(
        b"q" + bytes([i]) + b"0](" + b"h" + bytes([i]) * 1 + b"h" + bytes([i]) + b"e" for i in range(60)
    )
    doubled = read_plain_pickle(b"\x80\x02" + nested + b".", "file")  # as a tree it would have 2^60 leaves
    assert doubled[0] is doubled[1]
    for content in (
        b"\x80\x02]r" + struct.pack("<I", 2**31) + b".",  # a memo with 2^31 entries
        b"\x80\x02]r" + struct.pack("<I", 10**6) + b".",
        b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"abc.",
        b"\x80\x02" + b"](" * 100_000 + b"e" * 100_000 + b".",
        b"\x80\x02]q\x00h\x00a.",  # a list that contains itself
    ):
        with pytest.raises(InputError):
            read_plain_pickle(content, "file")


def test_a_truncated_pickle_is_refused():
    content = python2_pickle({"data": ARRAYS["pixels"], "labels": [1, 2, 3]})
    read_plain_pickle(content, "file")
    for length in range(len(content)):
        with pytest.raises(InputError, match="file cannot be read as a pickle"):
            read_plain_pickle(content[:length], "file")


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 200), st.binary(min_size=1, max_size=4))
def test_a_changed_pickle_is_read_or_refused(place, change):
    content = bytearray(pickle.dumps({"data": ARRAYS["pixels"], "labels": [1, 2], "names": ("a", b"b")}, 2))
    content[place % len(content) : place % len(content) + len(change)] = change
    with suppress(FairmarginError):
        read_plain_pickle(bytes(content), "file")
