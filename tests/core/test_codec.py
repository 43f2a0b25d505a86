"""Stored arrays against numpy's own packing of bits."""

import json
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.moments_tile import MomentsTile
from spark_auc.core.state.checksum import checksum
from spark_auc.core.state.codec import decode, encode
from spark_auc.errors import ModelFormatError
from tests.stored import header_of, of_version, resealed, with_header


def sparse_numbers(size, share, dtype, seed=0):
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, size).astype(dtype)
    return np.where(rng.random(size) < share, values, dtype(0))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint8, np.bool_])
@pytest.mark.parametrize("size", [0, 1, 4096, 5000, 5003])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.89, 1.0])
def test_arrays_come_back_in_bits(dtype, size, share):
    for array in (sparse_numbers(size, share, dtype), sparse_numbers(size, share, dtype)[::-1]):
        found = decode("numbers", 1, encode("numbers", 1, {"a": array, "b": np.ones(3)}))
        assert found["a"].dtype == array.dtype
        assert found["a"].tobytes() == array.tobytes()
        assert not found["a"].flags.writeable
        np.testing.assert_array_equal(found["b"], np.ones(3))


def test_zeros_are_a_bitmap_as_numpy_packs_it():
    array = sparse_numbers(5003, 0.3, np.float64)
    data = encode("numbers", 1, {"a": array})
    stored = np.packbits(array != 0).tobytes() + array[array != 0].tobytes()
    bitmap = np.packbits(array != 0).tobytes()
    assert data.endswith(bitmap.ljust(632, b"\0") + array[array != 0].tobytes())
    assert len(data) < len(stored) + 200


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64, np.uint16, np.bool_])
@pytest.mark.parametrize("distinct", [1, 2, 300, 1249, 1250, 1251, 5003])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_repeating_values_come_back_in_bits(dtype, distinct, share):
    rng = np.random.default_rng(0)
    values = rng.permutation(np.resize(rng.normal(size=distinct) * 100, 5003)).astype(dtype)
    values[rng.random(5003) >= share] = 0
    data = encode("numbers", 1, {"a": values, "b": np.ones(5000)}, repeating=["a"])
    found = decode("numbers", 1, data)
    assert found["a"].dtype == values.dtype
    assert found["a"].tobytes() == values.tobytes()
    assert not found["a"].flags.writeable
    np.testing.assert_array_equal(found["b"], np.ones(5000))


def test_few_values_are_a_table_and_many_are_as_they_are():
    values = np.sqrt(np.resize(np.arange(1.0, 2**14 + 2), 2**17))
    few = np.where(values < 127.0, values, 1.0)
    few[:3] = np.nan, -0.0, -np.inf
    plain = len(encode("numbers", 1, {"a": few}))
    data = encode("numbers", 1, {"a": few}, repeating=["a"])
    distinct = np.unique(few.view(np.uint64)).size
    assert plain - len(data) == few.nbytes - (8 + 8 * distinct + 2 * few.size)
    assert decode("numbers", 1, data)["a"].tobytes() == few.tobytes()
    assert np.unique(values).size == 2**14 + 1
    assert encode("numbers", 1, {"a": values}, ["a"]) == encode("numbers", 1, {"a": values})


def test_words_that_fall_into_one_place_are_told_apart():
    # Multiples of the inverse of the hash's factor: products from 0 on, all in the first place.
    inverse = pow(0x9E3779B97F4A7C15, -1, 2**64)
    words = np.array([k * inverse % 2**64 for k in range(1, 900)], np.uint64)
    values = np.resize(words, 5000)
    data = encode("numbers", 1, {"a": values}, ["a"])
    assert len(data) < values.nbytes / 2
    np.testing.assert_array_equal(decode("numbers", 1, data)["a"], values)


def test_a_number_beyond_its_table_is_refused():
    data = bytearray(encode("numbers", 1, {"a": np.full(5000, 7.0)}, ["a"]))
    # The low bytes come first; of the table's one value the number is 0.
    data[-10_000] = 1
    with pytest.raises(ModelFormatError, match="outside its table"):
        decode("numbers", 1, resealed(bytes(data)))


def test_tiles_of_sums_over_indicators_are_a_table():
    counts = np.random.default_rng(0).poisson(5.0, (300, 300)).astype(float)
    tile = MomentsTile(9, 9.0, np.zeros((2, 300)), np.ones((2, 300)), counts, np.zeros(300))
    data = tile.to_bytes()
    assert len(data) < 0.3 * counts.nbytes
    assert MomentsTile.from_bytes(data).gram.tobytes() == counts.tobytes()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"[5000], 0]", b"[5000], 4]"),
        (b"[5000], 0]", b'[5000],""]'),
        (b"[5000], 0]", b"[-500], 0]"),
        (b'"<f8"', b'"<q8"'),
        (b'"<f8"', b'",,,"'),
        (b'"<f8"', b'">f8"'),
        (b'"<f8"', b'"|O8"'),
        (b'"<f8"', b'"<c8"'),
        (b'"<f8"', b'"<M8"'),
        (b'"<f8"', b'"|V8"'),
        (b'"<f8"', b'"<U2"'),
        (b'"<f8"', b'"<i4"'),
        (b"[5000], 0]", b"[5000.0], 0]"),
        (b"[5000], 0]", b"[5000], true]"),
        (b"[5000], 0]", b"[1, 5000, 0], 0]"),
        (b"[5000], 0]", b"[4611686018427387904], 0]"),
        (b"[5000], 0]", b"[4611686018427387904], 1]"),
        (b"[5000], 0]", b"[4611686018427387904], 2]"),
        (b"[5000], 0]", b"[4294967296, 4294967296], 0]"),
        (b"[5000], 0]", b"[0, 4611686018427387904, 4611686018427387904], 0]"),
        (b"[5000], 0]", b"[true], 0]"),
        (b"[5000], 0]", b"[" * 100_000),
        (b"[5000], 0]", b'[5000], 0], ["a", "<f8", [0], 0]'),
        (b'"version": 1', b'"version": 1, "version": 1'),
        (b'"version": 1', b'"version": 1.0'),
        (b'"version": 1', b'"version": ' + b"1" * 5000),
        (b'"kind": "numbers"', b'"kind":  "numbers"'),
        (b'"kind": "numbers"', b'"kind": ["numbers"]'),
        (b'"kind": "numbers"', b'"kind": "numb\xffrs"'),
    ],
)
def test_a_damaged_header_is_refused(old, new):
    data = encode("numbers", 1, {"a": np.arange(1.0, 5001.0)})
    assert data.count(old) == 1
    header = header_of(data)[0]
    changed = with_header(data, json.dumps(header).encode().replace(old, new))
    with pytest.raises(ModelFormatError, match=r"expected|damaged"):
        decode("numbers", 1, changed)


def test_every_bit_is_under_the_checksum():
    inner = encode("inner", 1, {"b": np.arange(3.0)})
    data = encode("numbers", 1, {"a": np.array([True, False, True]), "inner": inner})
    assert decode("inner", 1, decode("numbers", 1, data)["inner"])["b"].tolist() == [0, 1, 2]

    def read(changed):
        decode("inner", 1, decode("numbers", 1, changed)["inner"])

    for place in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[place] ^= 1 << bit
            with pytest.raises(ModelFormatError):
                read(bytes(changed))


def test_words_that_change_places_change_the_checksum():
    words = np.arange(1, 12, dtype=np.uint64)
    found = {checksum([words])}
    for i in range(words.size):
        for j in range(i):
            swapped = words.copy()
            swapped[[i, j]] = words[[j, i]]
            found.add(checksum([swapped]))
    found |= {checksum([words[:k]]) for k in range(words.size)}
    found |= {checksum([words, np.zeros(k, np.uint64)]) for k in range(1, 9)}
    # All of them differ: of no word, of swapped ones, of one less, of zeros at the end.
    assert len(found) == 1 + 55 + 11 + 8
    for k in range(words.size):
        assert checksum([words[:k], words[k:]]) == checksum([words])


def test_other_versions_and_formats_are_named():
    data = encode("numbers", 3, {"a": np.zeros(2)})
    header = b'{"kind": "numbers", "version": 3, "arrays": []}'
    for changed, message in (
        (of_version(data, 4), r"version 4, expected 'numbers' of version 3; .*newer"),
        (of_version(data, 2), r"version 2, expected .* write it again"),
        (data[:4] + b"\3" + data[5:], r"in format 3, expected .* in format 2; read it with"),
        (
            b"SAUC" + np.array(len(header), "<u4").tobytes() + header,
            r"in format 1, expected .* write it again",
        ),
    ):
        with pytest.raises(ModelFormatError, match=message):
            decode("numbers", 3, changed)


def test_bytes_at_any_address_are_read():
    data = encode("numbers", 1, {"a": np.arange(9.0)})
    for shift in range(1, 9):
        found = decode("numbers", 1, memoryview(bytes(shift) + data)[shift:])["a"]
        assert found.flags.aligned
        assert found.tolist() == list(range(9))


def test_neither_true_nor_false_and_no_text_are_refused():
    for array, bad, message in (
        (np.array([True] * 8), b"\2" * 8, "booleans other than 0 and 1"),
        (np.array(["ab"]), b"\xff" * 8, "invalid characters"),
    ):
        data = encode("numbers", 1, {"a": array})
        with pytest.raises(ModelFormatError, match=message):
            decode("numbers", 1, resealed(data[:-8] + bad))


def test_reading_allocates_no_more_than_bytes_can_mean():
    # A bitmap of zeros: the least bytes of the largest array.
    data = encode("numbers", 1, {"a": np.zeros(8 * 2**20)})
    assert len(data) < 2**20 + 200
    tracemalloc.start()
    decode("numbers", 1, data)
    decoded = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # Beside the array, the bits one by one.
    assert decoded < (64 + 8 + 1) * len(data)


def test_text_is_stored_as_it_is():
    array = np.array(["", "hinge"] * 3000)
    found = decode("text", 1, encode("text", 1, {"a": array}))["a"]
    np.testing.assert_array_equal(found, array)


def test_negative_zero_and_what_is_no_number_are_kept():
    array = np.zeros((100, 50))
    array[3, :3] = np.nan, -0.0, -np.inf
    found = decode("numbers", 1, encode("numbers", 1, {"a": array}))["a"]
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


@pytest.mark.parametrize("repeating", [(), ("a",)])
@pytest.mark.parametrize("share", [0.3, 1.0])
def test_what_is_cut_short_is_refused(share, repeating):
    data = encode("numbers", 1, {"a": sparse_numbers(5000, share, np.float64)}, repeating)
    for end in (3, 40, 500, len(data) - 1):
        with pytest.raises(ModelFormatError):
            decode("numbers", 1, data[:end])
    with pytest.raises(ModelFormatError, match="expected"):
        decode("numbers", 1, data + b"\0")


def test_a_sparse_batch_does_not_keep_its_bytes():
    """A view of the labels would keep the bytes of all entries, which SciPy copies."""
    X = sparse.random_array((300, 40), density=0.2, rng=np.random.default_rng(0), format="csr")
    y, group = np.arange(300) % 3 == 0, np.arange(300, dtype=np.uint64)
    data = Batch(X, y, X.sum(axis=1) + 1.0, group=group).to_bytes()
    found = Batch.from_bytes(data)
    arrays = (found.X.data, found.X.indices, found.X.indptr, found.y, found.weight, found.group)
    assert not any(np.shares_memory(array, np.frombuffer(data, np.uint8)) for array in arrays)
    np.testing.assert_array_equal(found.X.toarray(), X.toarray())
    np.testing.assert_array_equal(found.group, group)
