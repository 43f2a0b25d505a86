"""Names of columns: alike without regard to case, unless a table tells them apart by it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import lru_cache
from typing import Protocol, TypeVar

from spark_auc.errors import ConfigError


class Named(Protocol):
    """Anything with a name, such as a field of a schema."""

    @property
    def name(self) -> str:
        """The name."""


K = TypeVar("K")
N = TypeVar("N", bound=Named)


def by_name(fields: Iterable[N], *, exact: bool) -> Callable[[str], list[N]]:
    """Gives the fields of a name; a search for each of many names would take their square.

    Parameters
    ----------
    fields
        All fields.
    exact
        Whether names of different case differ.
    """
    fold, found = folding(exact=exact), dict[str, list[N]]()
    for field in fields:
        found.setdefault(fold(field.name), []).append(field)
    return lambda name: found.get(fold(name), [])


def folding(*, exact: bool) -> Callable[[str], str]:
    """Maps names that stand for one column to one; see `by_name`."""
    return str if exact else folded


def differ_in_case(names: Collection[str]) -> bool:
    """Whether some of the names differ in case alone."""
    return len({*map(folded, names)}) < len({*names})


def check_names_free(
    columns: Iterable[str], names: Mapping[str, str | None], *, exact: bool = False
) -> None:
    """Check that columns can be added to others.

    Parameters
    ----------
    columns
        Names of the columns that are there.
    names
        Names of the new columns by the settings that name them; without a name there is no column.
    exact
        Whether names of different case differ.

    Raises
    ------
    ConfigError
        A new name is among those of the columns, or two of the new names are equal.
    """
    fold = folding(exact=exact)
    taken = {fold(column): column for column in columns}
    new = dict[str, tuple[str, str]]()
    for setting, name in names.items():
        if not name:
            continue
        if (column := taken.get(fold(name))) is not None:
            raise ConfigError(
                f"found column {column!r} in the data already, expected it to be new; rename or "
                f"drop it, or set {setting} to another name"
            )
        if fold(name) in new:
            other, its_name = new[fold(name)]
            raise ConfigError(
                f"found {other} {its_name!r} and {setting} {name!r}, expected different names; "
                f"set {setting} to another name"
            )
        new[fold(name)] = setting, name


def free_names(columns: Iterable[str], names: Mapping[K, str]) -> dict[K, str]:
    """The names, changed where others have the name already."""
    taken, free = {folded(name) for name in columns}, dict[K, str]()
    for key, name in names.items():
        made = name
        while made and folded(made) in taken:
            made += "_"
        taken.add(folded(made))
        free[key] = made
    return free


@lru_cache(1 << 16)
def folded(name: str) -> str:
    """The name in one case: equal for names that Java's ``equalsIgnoreCase`` takes for one."""
    return name.lower() if name.isascii() else "".join(map(_folded, name))


def _folded(letter: str) -> str:
    # Java maps a letter to one letter: those of which Python makes several stay as they are.
    upper = letter.upper()
    return (upper if len(upper) == 1 else letter).lower()[0]
