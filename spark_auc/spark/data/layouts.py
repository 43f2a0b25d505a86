"""Layouts of delimited text: separator, names and types of the fields."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError, LineError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.raw import AVAZU_COLUMNS, CRITEO_INTEGERS, CRITEO_TOKENS

# The column of lines beside their fields.
LINE = "line"
_NUMBER = {
    "integer": ("bigint", r"^-?[0-9]+$", "an integer"),
    "float": (
        "double",
        r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^(?i)([+-]?inf(inity)?|nan)$",
        "a number",
    ),
}


@dataclass(frozen=True)
class Layout:
    """A layout of delimited text, without quotes.

    Parameters
    ----------
    separator
        One ASCII character.
    names
        Names of the fields.
    integers, floats
        Names of the fields that are numbers. The others are text.
    header
        Whether files begin with a line of the names. Lines that equal it are left out.

    Raises
    ------
    ConfigError
        The separator is not one ASCII character, or could be part of a line's end or a quote; names
        are missing, repeated or unknown.
    """

    separator: str
    names: tuple[str, ...]
    integers: tuple[str, ...] = ()
    floats: tuple[str, ...] = ()
    header: bool = False

    def __post_init__(self) -> None:
        if len(self.separator) != 1 or not self.separator.isascii() or self.separator in '\r\n"':
            raise ConfigError(
                f"found separator {self.separator!r}, expected one ASCII character other than a "
                "quote and the end of a line; use format csv for other text"
            )
        distinct, numbers = set(self.names), [*self.integers, *self.floats]
        if not self.names or len(distinct) < len(self.names) or distinct & {"", LINE}:
            raise ConfigError(
                f"found the fields {list(self.names)}, expected one or more different names other "
                f"than {LINE!r}; rename them"
            )
        if unknown := [name for name in numbers if name not in distinct or numbers.count(name) > 1]:
            raise ConfigError(
                f"found numbers {unknown}, expected different names among {list(self.names)}; "
                "change the types"
            )

    @property
    def mark(self) -> int:
        """A hash of the layout, 32 bits with sign."""
        text = json.dumps(asdict(self), sort_keys=True)
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little", signed=True)

    def type_of(self, name: str) -> str:
        """Type of a field: "text", "integer" or "float"."""
        is_float = "float" if name in self.floats else "text"
        return "integer" if name in self.integers else is_float

    @property
    def first_line(self) -> str:
        """The line of the names."""
        return self.separator.join(self.names)

    def field(self, text: Column, number: int) -> Column:
        """A field of lines: string, bigint or double, null if it is empty.

        An action that reads a malformed line, or text that is no number of the type, raises
        `LineError`.
        """
        separator = F.lit(self.separator)
        # The number of bytes needs no scan of the line, and fields are found by their bytes.
        without = F.octet_length(F.replace(text, separator, F.lit("")))
        fields = F.octet_length(text) - without + 1
        quotes = F.startswith(text, F.lit('"')) | F.contains(text, F.lit(f'{self.separator}"'))
        part = F.split_part(text, separator, F.lit(number + 1))
        return self.typed(part, number, text, (fields != len(self.names)) | quotes)

    def typed(self, part: Column, number: int, shown: Column, wrong: Column) -> Column:
        """The text of a field as its type.

        Parameters
        ----------
        part
            The text.
        number
            Number of the field.
        shown
            Text for the error.
        wrong
            Whether the line is malformed.
        """
        name, value = self.names[number], F.nullif(part, F.lit(""))
        expected = f"{len(self.names)} fields without quotes, separated by {self.separator!r}"
        if (kind := self.type_of(name)) in _NUMBER:
            java, pattern, noun = _NUMBER[kind]
            number_of = value.try_cast(java)
            wrong |= value.isNotNull() & (number_of.isNull() | ~value.rlike(pattern))
            expected, value = f"{expected}, with {noun} in column {name!r}", number_of
        parts = F.lit("found '"), F.substring(shown, 1, 200), F.lit(f"', expected {expected}; ")
        message = F.concat(*parts, F.lit("repair or remove the line"))
        return checked(value, F.when(wrong, message), LineError)


CRITEO = Layout(
    "\t", ("label", *CRITEO_INTEGERS, *CRITEO_TOKENS), integers=("label", *CRITEO_INTEGERS)
)
AVAZU = Layout(",", tuple(AVAZU_COLUMNS), integers=("click",), header=True)

_KNOWN = {"criteo": CRITEO, "avazu": AVAZU}
_OPTIONS = {"separator", "columns", "header"}
_TYPES = ("text", "integer", "float")


def layout_of(format: str, options: Mapping[str, str]) -> Layout | None:
    """The layout of a format; None for formats that are not delimited text.

    Parameters
    ----------
    format
        "criteo", "avazu", or "delimited".
    options
        Of "delimited": ``separator``, ``columns`` (names and types, such as
        "label integer, price float, city text") and ``header`` ("true" if files begin with a line
        of the names). The others have none.

    Raises
    ------
    ConfigError
        An option is missing, unknown or invalid.
    """
    expected = _OPTIONS if format == "delimited" else set[str]()
    if format not in _KNOWN and format != "delimited":
        return None
    if unknown := sorted(set(options) - expected):
        raise ConfigError(
            f"found options {unknown} of format {format}, expected "
            f"{', '.join(sorted(expected)) or 'none'}; leave them out"
        )
    if format in _KNOWN:
        return _KNOWN[format]
    if missing := sorted({"separator", "columns"} - set(options)):
        raise ConfigError(
            f"found format delimited without {missing}, expected a separator and the columns; set "
            "options.separator and options.columns, such as label integer, price float, city text"
        )
    columns = [column.split() for column in options["columns"].split(",")]
    if wrong := [c for c in columns if not (len(c) == 1 or (len(c) == 2 and c[1] in _TYPES))]:
        raise ConfigError(
            f"found column {' '.join(wrong[0])!r} in options.columns, expected a name and one of "
            f"{', '.join(_TYPES)}; correct it"
        )
    if (header := options.get("header", "false")) not in ("true", "false"):
        raise ConfigError(f"found options.header {header!r}, expected true or false; correct it")
    types = {column[0]: column[1] if len(column) == 2 else "text" for column in columns}
    separator = {"\\t": "\t", "tab": "\t"}.get(options["separator"], options["separator"])
    return Layout(
        separator,
        tuple(column[0] for column in columns),
        tuple(name for name, kind in types.items() if kind == "integer"),
        tuple(name for name, kind in types.items() if kind == "float"),
        header == "true",
    )
