"""How text of a column is read: the format of its values, and words that stand for none."""

from __future__ import annotations

from dataclasses import dataclass

from spark_auc.errors import ConfigError

# The types of columns, as recipes have them, that text of each format becomes.
FORMATS = {
    "integer": "integer",
    "float": "float",
    "amount": "float",
    "decimalComma": "float",
    "band": "float",
    "duration": "integer",
    "boolean": "boolean",
    "date": "time",
    "time": "time",
    "zoned": "time",
    "yearFirst": "time",
    "monthFirst": "time",
    "dayFirst": "time",
    "monthNamed": "time",
    "digits": "time",
    "seconds": "time",
    "milliseconds": "time",
    "code": "text",
}
# The formats in which text of a column of a type is read without a reading of its own.
PLAIN = {
    "integer": ("integer", "float", "boolean"),
    "float": ("float", "integer", "boolean"),
    "boolean": ("boolean",),
    "time": ("date", "time", "zoned", "yearFirst"),
}


@dataclass(frozen=True)
class Reading:
    """How text of a column is read.

    Parameters
    ----------
    name
        Name of the column.
    format
        The format of the values, one of `FORMATS`. Values of "code" are text such as 007, which
        numbers cannot stand for.
    absent
        Words beside those of every column that stand for no value, such as "unknown".

    Raises
    ------
    ConfigError
        The format is unknown.
    """

    name: str
    format: str
    absent: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigError(
                f"found {self.format!r} as the format of text of column {self.name!r}, expected "
                f"one of {', '.join(FORMATS)}; correct it"
            )

    @property
    def is_plain(self) -> bool:
        """Whether text is read so without this reading."""
        return not self.absent and self.format in PLAIN.get(FORMATS[self.format], ())
