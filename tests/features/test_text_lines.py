"""Places of lines against Python's own splitting of bytes."""

from __future__ import annotations

import re

import numpy as np
import pytest

from spark_auc.features.text_lines import first_break, lines_within


def lines_of(data: bytes) -> list[bytes]:
    """All lines, by a regular expression."""
    parts = re.split(b"\r\n|\r|\n", data)
    return parts if parts[-1] else parts[:-1]


def within(data: bytes, begin: int, past: int, opens: bool) -> list[bytes]:
    found = lines_within(np.frombuffer(data, np.uint8), begin, past, opens=opens)
    return [data[a:b] for a, b in zip(found.starts, found.ends, strict=True)]


ENDS = [b"", b"\n", b"\r", b"\r\n", b"a", b"a\n", b"\na", b"\r\r\n\n\rb", b"\n\r", b"a\r\nb\rc\nd"]


@pytest.mark.parametrize("data", ENDS)
def test_all_lines(data: bytes) -> None:
    assert within(data, 0, len(data), True) == lines_of(data)


@pytest.mark.parametrize("ends", [b"\n", b"\r", b"\r\n"])
@pytest.mark.parametrize("seed", range(20))
def test_every_line_is_in_one_range(seed: int, ends: bytes) -> None:
    """Ranges of any size have the lines in order, each once, read from one byte before on."""
    rng = np.random.default_rng(seed)
    data = bytes(rng.choice(np.frombuffer(b"ab" + ends, np.uint8), rng.integers(0, 60)))
    cuts = np.unique([0, len(data), *rng.integers(0, len(data) + 1, rng.integers(0, 9))])
    found = within(data, 0, int(cuts[1]) if cuts.size > 1 else 0, True)
    for start, end in zip(cuts[1:-1].tolist(), cuts[2:].tolist(), strict=True):
        found += within(data[start - 1 :], 1, end - start + 1, False)
    assert found == lines_of(data)


def test_a_line_whose_end_is_beyond_the_bytes() -> None:
    assert within(b"x\nab", 1, 3, False) == [b"ab"]
    assert within(b"x\nab\r", 1, 3, False) == [b"ab"]


def test_bytes_before_the_first_line_of_a_range_are_left_out() -> None:
    assert within(b"xyz", 1, 3, False) == []
    assert within(b"xyz\n", 1, 4, False) == []
    assert within(b"\xef\xbb\xbf\n", 3, 4, True) == [b""]


def test_first_break() -> None:
    ends = [b"", b"ab", b"ab\n", b"a\r\n", b"\n"]
    assert [first_break(np.frombuffer(e, np.uint8)) for e in ends] == [-1, -1, 2, 1, 0]
