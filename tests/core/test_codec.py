"""Stored arrays against numpy's own packing of bits."""

import numpy as np
import pytest

from spark_auc.core.codec import decode, encode
from spark_auc.errors import ModelFormatError


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
    assert data.endswith(stored)
    assert len(data) < len(stored) + 200


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


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_what_is_cut_short_is_refused(share):
    data = encode("numbers", 1, {"a": sparse_numbers(5000, share, np.float64)})
    for end in (3, 40, 500, len(data) - 1):
        with pytest.raises(ModelFormatError):
            decode("numbers", 1, data[:end])
    with pytest.raises(ModelFormatError, match="expected"):
        decode("numbers", 1, data + b"\0")
