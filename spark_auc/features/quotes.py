"""Quotes in lines of CSV: whether a quoted value goes on in the next line, and unclosed quotes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.kernels import compiled
from spark_auc.core.types import Bool
from spark_auc.features.raw_columns import Text, read_only, validity_of

_QUOTE, _SPACE = 34, 32


class Quotes(NamedTuple):
    """The quotes of some lines in order, for one of the two states in which they can begin.

    Parameters
    ----------
    is_open
        Whether the last line ends inside a quoted value.
    opened
        Number of the line, from 0, in which the last quoted value began; -1 before the first line.
    spans
        Whether a quoted value goes on in a next line.
    is_broken
        Whether a value of several lines has text after its closing quote. Its first quote is then
        not closed, or a quote inside is not escaped. Later lines are not looked at.
    """

    is_open: bool
    opened: int = -1
    spans: bool = False
    is_broken: bool = False

    def after(
        self, lines: Text, first: int, separator: str, escape: str, *, spaced: bool = False
    ) -> Quotes:
        """The quotes of these lines and of further ones.

        Parameters
        ----------
        lines
            The further lines, without their ends.
        first
            Number of the first of them.
        separator, escape
            ASCII characters. A quote inside a quoted value follows an escape, which may be a quote.
        spaced
            Whether spaces before a quote are ignored. By default the quote after them is text.
        """
        if self.is_broken:
            return self
        arrays = read_only(lines.starts), read_only(lines.ends), read_only(lines.data)
        marks = ord(separator), ord(escape), spaced
        return Quotes(*_scanned(*arrays, validity_of(lines), *marks, first, *self[:3]))


@compiled()
def _scanned(
    starts: NDArray[Any],
    ends: NDArray[Any],
    data: NDArray[np.uint8],
    validity: Bool,
    separator: int,
    escape: int,
    spaced: bool,
    line: int,
    is_open: bool,
    opened: int,
    spans: bool,
) -> tuple[bool, int, bool, bool]:
    """The fields of `Quotes` after the lines."""
    for row in range(starts.size):
        if validity.size and not validity[row]:
            continue
        at, end = np.int64(starts[row]), np.int64(ends[row])
        begins = not is_open
        while at < end:
            byte = data[at]
            if not is_open:
                if byte == separator:
                    begins = True
                elif begins and byte == _QUOTE:
                    is_open, opened = True, line + row
                elif byte > _SPACE or not spaced:
                    begins = False
                at += 1
            elif at + 1 < end and byte == escape and (escape != _QUOTE or data[at + 1] == _QUOTE):
                at += 2
            elif byte == _QUOTE:
                is_open, begins = False, False
                at += 1
                while at < end and data[at] <= _SPACE and data[at] != separator:
                    at += 1
                if at < end and data[at] != separator and opened != line + row:
                    return is_open, opened, spans, True
            else:
                at += 1
        spans |= is_open
    return is_open, opened, spans, False
