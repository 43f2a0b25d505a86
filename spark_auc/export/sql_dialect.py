"""Literals, names and sums of SQL."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from spark_auc.core.labels import Label
from spark_auc.errors import ConfigError
from spark_auc.features.absent_text import WHITE


@dataclass(frozen=True)
class Dialect:
    """A dialect of SQL.

    Parameters
    ----------
    quote
        What encloses names, and is doubled within them.
    has_nan
        Whether NaN can be in a column, and is found by ``isnan``.
    backslash
        Whether a backslash in text is an escape.
    group
        What stands before the parentheses of a group: nothing, or the name of a function that
        returns its argument.
    trim
        The expression of text ``{0}`` without the characters ``{1}`` around it.
    """

    quote: str
    has_nan: bool
    backslash: bool
    group: str
    trim: str

    def name(self, name: str) -> str:
        """The name of a column."""
        return self.quote + name.replace(self.quote, self.quote * 2) + self.quote

    def trimmed(self, name: str) -> str:
        """The text of a column without white space around it."""
        return self.trim.format(self.name(name), self.label(WHITE))

    def missing(self, name: str, type: str) -> str:
        """The test of whether a column of a type has no value in a row."""
        null = f"{self.name(name)} IS NULL"
        # A boolean is no number, so that isnan does not take it.
        return f"{null} OR isnan({self.name(name)})" if self.has_nan and type != "boolean" else null

    def grouped(self, text: str) -> str:
        """An expression as one operand."""
        return f"{self.group}({text})"

    def total(self, terms: Sequence[str]) -> str:
        """The sum of expressions, as deep as the logarithm of their number.

        Parsers and planners recur into sums: thousands of terms in a row overflow their stack.
        """
        if len(terms) < 2:
            return "".join(terms) or number(0.0)
        middle = (len(terms) + 1) // 2
        parts = terms[:middle], terms[middle:]
        return " + ".join(
            self.grouped(self.total(part)) if len(part) > 1 else part[0] for part in parts
        )

    def label(self, label: Label) -> str:
        """A label value."""
        if isinstance(label, bool):
            return str(label).upper()
        if not isinstance(label, str):
            return number(label)
        if self.backslash:
            label = label.replace("\\", "\\\\").replace("'", "\\'")
        return "'" + label.replace("'", "''" if not self.backslash else "'") + "'"

    @staticmethod
    def number(value: float) -> str:
        """A literal of type double; see `number`."""
        return number(value)

    def curve(self, x: str, knots: Sequence[float], heights: Sequence[float]) -> str:
        """The function of ``x`` that is linear between knots and constant beyond them."""

        def between(k: int, share: str) -> str:
            rise = heights[k + 1] - heights[k]
            return (
                f"{number(heights[k])} + {number(rise)} * {share}" if rise else number(heights[k])
            )

        return self.pieces(x, knots, lambda k: number(heights[k]), between)

    def squared_hats(self, x: str, knots: Sequence[float]) -> str:
        """The sum of the squared hats of ``x``: those of ``s`` and ``1 - s``."""
        return self.pieces(
            x,
            knots,
            lambda _: number(1.0),
            lambda _, share: f"0.5E0 + 2E0 * POWER({share} - 0.5E0, 2E0)",
        )

    def pieces(
        self,
        x: str,
        knots: Sequence[float],
        at: Callable[[int], str],
        between: Callable[[int, str], str],
    ) -> str:
        """A function in pieces: its values at the outer knots, and in each interval of knots.

        ``between`` takes the number of the interval and the share of it that lies below ``x``.
        """
        last = len(knots) - 1
        if last < 1:
            return at(0)
        # A value at a knot belongs to the interval above it.
        whens = [f"WHEN {x} <= {number(knots[0])} THEN {at(0)}"]
        for k in range(last):
            piece = between(k, _share(x, knots[k], knots[k + 1]))
            whens.append(f"WHEN {x} < {number(knots[k + 1])} THEN {piece}")
        return f"CASE {' '.join(whens)} ELSE {at(last)} END"


_DIALECTS = {
    # Spark's parser reads to the end of a bare parenthesis before it knows what begins there, and
    # keeps what it tried: 200 trees took more than a GB.
    "spark": Dialect("`", True, True, "positive", "TRIM(BOTH {1} FROM {0})"),
    "ansi": Dialect('"', False, False, "", "TRIM({0}, {1})"),
}


def dialect_of(name: str) -> Dialect:
    """The dialect of a name; `ConfigError` for another name."""
    if name not in _DIALECTS:
        raise ConfigError(
            f"found the dialect {name!r}, expected {' or '.join(_DIALECTS)}; choose one of them"
        )
    return _DIALECTS[name]


def number(value: float) -> str:
    """A literal of type double: without an exponent it would be a decimal to most systems."""
    text = repr(float(value))
    text = text if "e" in text else f"{text}E0"
    # Two minus signs begin a comment.
    return f"({text})" if text.startswith("-") else text


def _share(x: str, low: float, high: float) -> str:
    step = high - low
    if np.isinf(step):
        step, low, x = high / 2 - low / 2, low / 2, f"{x} / 2E0"
    return f"(({x} - {number(low)}) / {number(step)})"
