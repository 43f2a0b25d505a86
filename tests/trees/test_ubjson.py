"""Universal Binary JSON, from bytes by its definition; models are in test_xgboost_models.py."""

import struct
import time
import tracemalloc

import numpy as np
import pytest

from spark_auc.errors import ModelFormatError
from spark_auc.trees.ubjson import from_ubjson


def written(value):
    """The bytes of a value, as XGBoost writes it."""
    if isinstance(value, str):
        return b"S" + text(value)
    if isinstance(value, dict):
        return b"{" + b"".join(text(name) + written(of) for name, of in value.items()) + b"}"
    if isinstance(value, list):
        return b"[#L" + struct.pack(">q", len(value)) + b"".join(map(written, value))
    return value


def text(value):
    return b"L" + struct.pack(">q", len(value.encode())) + value.encode()


def typed(kind, code, *values):
    count = b"L" + struct.pack(">q", len(values))
    return b"[$" + kind + b"#" + count + struct.pack(f">{len(values)}{code}", *values)


def test_values_are_those_of_the_definition():
    stored = {
        "": "ü",
        "numbers": [b"i\xff", b"U\xff", b"I\xff\xfe", b"l\x80\0\0\0", b"L" + b"\x7f" + b"\xff" * 7],
        "reals": [b"d\x3f\x80\0\0", b"D\x7f\xf0\0\0\0\0\0\0"],
        "others": [b"Z", b"T", b"F", {}, [], {"a": ["b"]}],
    }
    assert from_ubjson(written(stored)) == {
        "": "ü",
        "numbers": [-1, 255, -2, -(2**31), 2**63 - 1],
        "reals": [1.0, np.inf],
        "others": [None, True, False, {}, [], {"a": ["b"]}],
    }
    # Lengths of each type.
    assert from_ubjson(b"{i\1aSU\1bI\0\1cSl\0\0\0\1d}") == {"a": "b", "c": "d"}


@pytest.mark.parametrize(
    ("kind", "code", "values"),
    [
        (b"i", "b", [-128, 127]),
        (b"U", "B", [0, 255]),
        (b"I", "h", [-(2**15), 2**15 - 1]),
        (b"l", "i", [-(2**31), 2**31 - 1]),
        (b"L", "q", [-(2**63), 2**63 - 1]),
        (b"d", "f", [0.5, -np.inf]),
        (b"D", "d", [0.1, 1e300]),
        (b"l", "i", []),
        (b"d", "f", []),
    ],
)
def test_arrays_of_one_type_are_numbers_of_64_bits(kind, code, values):
    found = from_ubjson(typed(kind, code, *values))
    assert found.dtype == (np.float64 if kind in b"dD" else np.int64)
    assert found.tolist() == values


HUGE = b"L\x7f" + b"\xff" * 7
HOSTILE = [
    (b"", "0 bytes instead of 1"),
    (b"{", "0 bytes instead of 1"),
    (written({"a": "b"})[:-1], "0 bytes instead of 1"),
    (written({"a": "b"})[:-3], "7 bytes instead of 8"),
    (written("abc")[:-1], "the length 3"),
    (b"{}{", "1 more bytes"),
    (b"S" + HUGE, "the length 9223372036854775807"),
    (b"S" + b"L" + b"\xff" * 8, "the length -1"),
    (b"Sd\0\0\0\0", "the length -1"),
    (b"SSi\1a", "the length -1"),
    (b"[#" + HUGE, "the length 9223372036854775807"),
    (b"[$l#" + HUGE, "the length 9223372036854775807"),
    # A count that fits as bytes, and not as numbers.
    (b"[$L#i\x09" + bytes(9), "9 bytes instead of 72"),
    (b"[$Z#" + HUGE, "the length"),
    (b"[$Z#i\1 ", "the type b'Z'"),
    (b"[$S#i\1a", "the type b'S'"),
    (b"[i\1]", "an array without a count"),
    (b"[$l]", "an array without a count"),
    (b"[]", "an array without a count"),
    (b"{$i#i\1i\1a\1", "the length -1"),
    (b"Ca", "the type b'C'"),
    (b"Hi\1" + b"1", "the type b'H'"),
    (b"N", "the type b'N'"),
    (b"Si\1\xff", "text that is not UTF-8"),
    (b"{i\1aZi\1aZ}", "a second 'a'"),
    (b"[#i\1" * 33 + b"Z", "more than 32 levels"),
    (b"[#i\1" * 10**6, "more than 32 levels"),
    (b"{i\1a" * 10**6, "more than 32 levels"),
    (b"[#L" + struct.pack(">q", 10**6) + b"[#l" * 10**6, "the length|levels"),
]


@pytest.mark.parametrize(("data", "said"), HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_data_are_refused_at_once(data, said):
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(ModelFormatError, match=f"found .*({said}).* at byte \\d+ of Universal"):
        from_ubjson(data)
    assert time.process_time() - start < 1.0
    assert tracemalloc.get_traced_memory()[1] < 2**20 + 2 * len(data)
    tracemalloc.stop()


def test_levels_up_to_32_are_read():
    assert from_ubjson(b"[#i\1" * 32 + b"T") is not None
