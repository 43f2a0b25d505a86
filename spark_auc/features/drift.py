"""Shares of missing, extreme and new values of the columns of a recipe, compared with its fit."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from spark_auc.core.state.rules import COUNTS
from spark_auc.core.state.schema import Schema, array
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Int
from spark_auc.errors import DataError
from spark_auc.features.recipe import Recipe

COUNTED = ("rows", "missing", "below", "above", "judged", "unseen")
# A share exceeds that of the fit if it does so by this margin and by so many standard errors.
MARGIN, ERRORS = 0.05, 5.0


def _inconsistent(state: Mapping[str, Any]) -> str | None:
    rows, missing, below, above, judged, unseen = state["counts"].T
    if (missing + below + above > rows).any() or (judged > rows).any() or (unseen > judged).any():
        return "its counts contradict each other"
    sets = [state[name].tolist() for name in ("unknown", "absent")]
    is_ascending = all(names == sorted(set(names)) for names in sets)
    return None if is_ascending else "its names are not in ascending order"


class Excess(NamedTuple):
    """A share of rows that exceeds that of the fit.

    Parameters
    ----------
    column, kind
        Name and kind of the column.
    counted
        What is counted: "missing", "below", "above" or "unseen".
    share, expected
        Share of the rows (of the judged rows for "unseen"), and of the rows of the fit.
    """

    column: str
    kind: str
    counted: str
    share: float
    expected: float

    def __str__(self) -> str:
        return self.beside("in the fit")

    def beside(self, reference: str) -> str:
        """The sentence, with words for the rows that these are compared with."""
        words = {"missing": "missing", "unseen": "new tokens"}
        return (
            f"{self.share:.1%} of the values of column {self.column!r} ({self.kind}) are "
            f"{words.get(self.counted, f'{self.counted} the range of the fit')} "
            f"({self.expected:.1%} {reference})"
        )


@dataclass(frozen=True, eq=False)
class Drift(SchemaState):
    """Counts of values of each column of a recipe that a model may not know.

    Parameters
    ----------
    names, kinds : (c,)
        Names of the columns in the order of `Recipe.columns`, and their kinds. A name may occur
        with several kinds.
    counts : (c, 6)
        ``rows``: number of rows. ``missing``: of these, rows whose value is missing, or empty text
        of tokens. ``below`` and ``above``: rows whose number is beyond the outer knots of a spline,
        or more than 5 deviations from the mean of a standardised column; trees have no such range.
        ``judged``: rows of
        tokens that were compared with the features of a fit. ``unseen``: of these, rows whose
        token has a feature that did not occur in the fit, unless the value is missing; see
        `spark_auc.features.seen.Seen` for the tokens that are not recognised.
    unknown, absent
        Names of columns of the rows that the recipe does not know, and of columns of the recipe
        that the rows lack, ascending.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "Drift",
        1,
        {
            "names": array("U", "c"),
            "kinds": array("U", "c"),
            "counts": array("<i8", "c", len(COUNTED), rule=COUNTS),
            "unknown": array("U", "u"),
            "absent": array("U", "a"),
        },
        _inconsistent,
    )

    names: np.ndarray[Any, np.dtype[np.str_]]
    kinds: np.ndarray[Any, np.dtype[np.str_]]
    counts: Int
    unknown: np.ndarray[Any, np.dtype[np.str_]]
    absent: np.ndarray[Any, np.dtype[np.str_]]

    @classmethod
    def zero(cls, recipe: Recipe) -> Drift:
        """The counts of no rows."""
        return cls.of_names(recipe, [column.name for column in recipe.inputs])

    @classmethod
    def of_names(cls, recipe: Recipe, names: Collection[str]) -> Drift:
        """The counts of no rows of a table with columns of these names."""
        own, read = ([c.name for c in each] for each in (recipe.columns, recipe.inputs))
        kinds = [column.kind for column in recipe.columns]
        counts = np.zeros((len(own), len(COUNTED)), np.int64)
        unknown, absent = set(names) - {*own, *read}, set(read) - set(names)
        return cls(_text(own), _text(kinds), counts, _text(sorted(unknown)), _text(sorted(absent)))

    def merge(self, other: Drift) -> Drift:
        """The counts of both sets of rows; `DataError` for counts of other columns."""
        mine, theirs = ((d.names.tolist(), d.kinds.tolist()) for d in (self, other))
        if mine != theirs:
            raise DataError(
                f"found counts of the columns {mine[0]} and {theirs[0]}, expected the same columns "
                "and kinds; merge counts of one recipe"
            )
        unknown = {*self.unknown.tolist(), *other.unknown.tolist()}
        absent = {*self.absent.tolist(), *other.absent.tolist()}
        counts = self.counts + other.counts
        return Drift(self.names, self.kinds, counts, _text(sorted(unknown)), _text(sorted(absent)))

    def for_recipe(self, recipe: Recipe) -> Drift:
        """The counts of the same rows for the columns of another recipe.

        Entries that this one has not, such as columns of trees, have the rows and missing values of
        their column; those of other columns have none.
        """
        entries = zip(self.names.tolist(), self.kinds.tolist(), strict=True)
        known, missing = dict(zip(entries, self.counts, strict=True)), self.missing()
        made = Drift.zero(recipe)
        both = zip(made.names.tolist(), made.kinds.tolist(), strict=True)
        for counts, entry in zip(made.counts, both, strict=True):
            counts[:2] = missing.get(entry[0], (0, 0))
            counts[:] = known.get(entry, counts)
        return made

    def missing(self) -> dict[str, tuple[int, int]]:
        """Numbers of rows, and of missing values, of the columns by name."""
        counts = self.counts[:, :2].tolist()
        return {name: (n, m) for name, (n, m) in zip(self.names.tolist(), counts, strict=True)}

    def as_dict(self) -> dict[str, Any]:
        """Shares of rows by column as JSON types; None for a share of no rows.

        Columns of numbers have ``below`` and ``above``. Those of tokens that were judged have
        ``unseen``, the share of the judged rows whose token did not occur in the fit.
        """
        return {
            "columns": [
                {"column": name, "kind": kind, "rows": row[0], **_shares(kind, *row)}
                for name, kind, row in zip(
                    self.names.tolist(), self.kinds.tolist(), self.counts.tolist(), strict=True
                )
            ],
            "unknown": self.unknown.tolist(),
            "absent": self.absent.tolist(),
        }

    def excesses(
        self, fit: Drift, margin: float = MARGIN, errors: float = ERRORS
    ) -> tuple[Excess, ...]:
        """Shares of missing, low, high and unseen values that exceed those of the fit.

        A share exceeds another if the lower confidence bound of the share (Wilson's, by default 5
        standard errors) is more than a margin (5 percentage points) above the other. Columns
        without rows in the fit are left out, and so are unseen tokens if those of the fit were not
        judged.

        Parameters
        ----------
        fit
            Counts of the rows of the fit; `DataError` if they are of other columns.
        """
        self.merge(fit)
        found = []
        for k, name in enumerate(self.names.tolist()):
            for place in (1, 2, 3, 5):
                of = 4 if place == 5 else 0
                rows, others = int(self.counts[k, of]), int(fit.counts[k, of])
                if not (rows and others):
                    continue
                expected = int(fit.counts[k, place]) / others
                count = int(self.counts[k, place])
                if _lower(count, rows, errors) > expected + margin:
                    what = str(self.kinds[k]), COUNTED[place], count / rows, expected
                    found.append(Excess(name, *what))
        return tuple(found)


NUMERIC = ("spline", "standard")


def _shares(
    kind: str,
    rows: int,
    missing: int,
    below: int,
    above: int,
    judged: int,
    unseen: int,
) -> dict[str, float | None]:
    def share(count: float, of: float) -> float | None:
        return count / of if of else None

    shares = {"missing": share(missing, rows)}
    if kind in NUMERIC:
        return shares | {"below": share(below, rows), "above": share(above, rows)}
    if not judged:
        return shares
    return shares | {"unseen": share(unseen, judged)}


def _lower(count: int, rows: int, z: float) -> float:
    """Wilson's lower bound of a share."""
    spread = z * math.sqrt(count * (rows - count) / rows + z * z / 4)
    return (count + z * z / 2 - spread) / (rows + z * z)


def _text(names: list[str]) -> np.ndarray[Any, np.dtype[np.str_]]:
    return np.array(names, np.str_)
