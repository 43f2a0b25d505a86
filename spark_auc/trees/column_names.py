"""The columns that a model of trees names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from spark_auc.errors import ConfigError

_REMEDY = "set trees.columns to the columns of the model, in the order in which it was trained"


def columns_named(names: Sequence[str], columns: Sequence[str]) -> list[str]:
    """The columns of a DataFrame that have the names of a model's columns.

    LightGBM writes a space in a name as `_`.

    Parameters
    ----------
    names
        Names in the model, in its order.
    columns
        Columns of the DataFrame.

    Raises
    ------
    ConfigError
        The model has no names, or only those that its library makes; or a name is that of no
        column, or of several.
    """
    made = ([f"{start}{k}" for k in range(len(names))] for start in ("Column_", "f"))
    if not names or list(names) in made:
        raise ConfigError(
            f"found no names of columns in the model of trees.path ({', '.join(names[:3])}), "
            f"expected those of the rows that it was trained on; {_REMEDY}"
        )
    found = {name: [c for c in columns if name in (c, c.replace(" ", "_"))] for name in names}
    if wrong := {name: of for name, of in found.items() if len(of) != 1}:
        said = ", ".join(f"{name!r} ({len(of)} columns)" for name, of in list(wrong.items())[:5])
        raise ConfigError(
            f"found the names {said} in the model of trees.path, expected one of the columns "
            f"{list(columns)} for each name; {_REMEDY}"
        )
    chosen = [of[0] for of in found.values()]
    if len(set(chosen)) < len(names):
        raise ConfigError(
            "found two names of one column in the model of trees.path, expected different "
            f"columns; {_REMEDY}"
        )
    return chosen


def check_categories(values: Iterable[Sequence[Any]]) -> None:
    """Check that the categories of a model's columns are the values of these columns.

    The trees of a pandas column of categories have the places of the values instead.

    Parameters
    ----------
    values
        The values of each column of categories, by their numbers in the trees.

    Raises
    ------
    ConfigError
        A value is not its own number.
    """
    for column in values:
        if list(column) != list(range(len(column))):
            raise ConfigError(
                f"found categories {str(list(column))[:60]} of a column in the model of trees.path "
                "whose trees have their numbers from 0, expected the values that trees have; make "
                f"a column of these numbers, and {_REMEDY}"
            )
