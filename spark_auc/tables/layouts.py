"""Layouts of text without quotes: separator, names and types of the fields."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from spark_auc.errors import ConfigError

CRITEO_INTEGERS = [f"I{i}" for i in range(1, 14)]
CRITEO_TOKENS = [f"C{i}" for i in range(1, 27)]
AVAZU_COLUMNS = [
    *("id", "click", "hour", "C1", "banner_pos", "site_id", "site_domain", "site_category"),
    *("app_id", "app_domain", "app_category", "device_id", "device_ip", "device_model"),
    *("device_type", "device_conn_type", *(f"C{i}" for i in range(14, 22))),
]


@dataclass(frozen=True)
class Layout:
    """A layout of delimited text.

    Parameters
    ----------
    separator
        One ASCII character.
    names
        Names of the fields.
    integers, floats
        Names of the fields that are numbers. The others are text.
    header
        Whether each file begins with a line of the names.

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
        if not self.names or len(distinct) < len(self.names) or "" in distinct:
            raise ConfigError(
                f"found the fields {list(self.names)}, expected one or more different names; "
                "rename them"
            )
        if unknown := [name for name in numbers if name not in distinct or numbers.count(name) > 1]:
            raise ConfigError(
                f"found numbers {unknown}, expected different names among {list(self.names)}; "
                "change the types"
            )

    @property
    def schema(self) -> pa.Schema:
        """The columns: text, or numbers of 64 bits."""
        kinds = dict.fromkeys(self.integers, pa.int64()) | dict.fromkeys(self.floats, pa.float64())
        return pa.schema([(name, kinds.get(name, pa.string())) for name in self.names])


CRITEO = Layout(
    "\t", ("label", *CRITEO_INTEGERS, *CRITEO_TOKENS), integers=("label", *CRITEO_INTEGERS)
)
AVAZU = Layout(",", tuple(AVAZU_COLUMNS), integers=("click",), header=True)

_KNOWN = {"criteo": CRITEO, "avazu": AVAZU}
# The formats of `layout_of`.
FORMATS = (*_KNOWN, "delimited")
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
        "label integer, price float, city text") and ``header`` ("true" if each file begins with a
        line of the names). The others have none.

    Raises
    ------
    ConfigError
        An option is missing, unknown or invalid.
    """
    expected = _OPTIONS if format == "delimited" else set[str]()
    if format not in FORMATS:
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
