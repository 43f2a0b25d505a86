"""Features that tasks compute from raw columns: by a recipe, and by embeddings after it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from spark_auc.core.batch import Batch
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Keys, Rows
from spark_auc.errors import DataError
from spark_auc.features.embedding import Embedding
from spark_auc.features.recipe import Recipe
from spark_auc.features.row_groups import row_groups
from spark_auc.features.token_names import FeatureNames
from spark_auc.tables.features import Features
from spark_auc.tables.raw_columns import RawColumns
from spark_auc.tables.table import Table, fields_named
from spark_auc.tables.types import has_no_value, raw_type, shown_type

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RawFeatures:
    """Raw columns of a table that a recipe maps to rows.

    Parameters
    ----------
    recipe
        The map.
    raw
        The columns that it maps.
    by_values
        Whether rows of equal values, and not of equal features, are in one fold.
    taught, never_held_out
        See `Features`.
    """

    recipe: Recipe
    raw: RawColumns
    by_values: bool = False
    taught: tuple[KeySample, ...] = ()
    never_held_out: KeySample | None = None

    @classmethod
    def of(cls, table: Table, recipe: Recipe) -> RawFeatures:
        """The features of a table with the recipe's columns; others are ignored.

        Raises
        ------
        ConfigError
            A column is missing.
        DataError
            A column has a type that gives other features than the type in the fit.
        """
        known_fields = fields_named(table, [column.name for column in recipe.inputs])
        untyped = list[tuple[str, str]]()
        for column, known in zip(recipe.inputs, known_fields, strict=True):
            if has_no_value(known):
                untyped.append((column.name, column.type))
                continue
            found = raw_type(known.type)
            is_whole = found == "float" and column.name in recipe.whole
            if not is_whole and (found is None or not column.accepts(found)):
                raise DataError(
                    f"found column {column.name!r} of type {found or shown_type(known)}, "
                    f"expected {column.type} as in the rows that the recipe was fitted to; "
                    f"{column.remedy}"
                )
        names = dict.fromkeys(column.name for column in recipe.columns)
        raw = RawColumns.of(table, list(names), recipe.zone, recipe.absent, recipe.derived)
        return cls(recipe, replace(raw, whole=recipe.whole, untyped=tuple(untyped)))

    def for_training(self, *, of_fit: bool, by_values: bool = False) -> RawFeatures:
        """The features without the rows that grew trees of the recipe.

        Parameters
        ----------
        of_fit
            Whether the rows are those of the recipe's fit. Other rows are all used: trees that
            grew elsewhere do not know their labels. Rows that chose pairs or crosses in this fit
            train, and are never held out.
        by_values
            See `RawFeatures`; always, where rows are left out or never held out.
        """
        grown = self.recipe.trees.grown if self.recipe.trees else None
        chosen_by = self.recipe.chosen_by if of_fit else None
        used = replace(self, by_values=by_values or chosen_by is not None, never_held_out=chosen_by)
        if grown is None:
            return used
        if not of_fit:
            _log.warning(
                "found a fitted recipe with trees that grew from %.3g%% of the rows of its fit, "
                "expected other rows than these: all rows train; to train on the rows of the fit, "
                "grow the trees in the same RankerPipeline",
                100.0 * grown.share,
            )
            return used
        _log.info(
            "%.3g%% of the groups of rows grew the trees and are left out of training",
            100.0 * grown.share,
        )
        return replace(used, by_values=True, taught=(grown,))

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Features.columns`."""
        return self.raw.found

    @property
    def dimension(self) -> int:
        """See `Features.dimension`."""
        return self.recipe.size

    @property
    def names(self) -> None:
        """See `Features.names`; the recipe has them."""
        return None

    def labels(self) -> Sequence[str]:
        """See `Features.labels`."""
        return FeatureNames(self.recipe)

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """See `Features.usable`; missing values are valid."""
        columns = self.raw.decode(arrays)
        usable: Bool = np.ones(len(arrays[0]), np.bool_)
        for column in self.recipe.numeric:
            usable &= column.usable(columns[column.name])
        return usable

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """See `Features.decode`; missing values are valid."""
        return self.recipe.transform(self.raw.decode(arrays))

    def groups(self, arrays: Sequence[pa.Array]) -> Keys | None:
        """See `Features.groups`."""
        return row_groups(self.raw.decode(arrays)) if self.by_values else None


@dataclass(frozen=True)
class EmbeddedFeatures:
    """Features that an embedding computes from others.

    Parameters
    ----------
    inner
        The features that the embedding takes.
    embedding
        The embedding.
    own
        The rows whose labels the embedding learnt. Default: none.
    """

    inner: Features
    embedding: Embedding
    own: KeySample | None = None

    @classmethod
    def of(
        cls, inner: Features, embedding: Embedding, own: KeySample | None = None
    ) -> EmbeddedFeatures:
        """The embedding of features; `DataError` for another number of features."""
        if inner.dimension != embedding.input_dimension:
            raise DataError(
                f"found {inner.dimension} feature columns, expected {embedding.input_dimension}; "
                "set inputCol to as many as the embedding was made for"
            )
        return cls(inner, embedding, own)

    @property
    def columns(self) -> tuple[str, ...]:
        """See `Features.columns`."""
        return self.inner.columns

    @property
    def dimension(self) -> int:
        """See `Features.dimension`."""
        return self.embedding.dimension

    @property
    def names(self) -> None:
        """See `Features.names`; the embedding has them."""
        return None

    @property
    def taught(self) -> tuple[KeySample, ...]:
        """See `Features.taught`."""
        return (*self.inner.taught, *([self.own] if self.own else []))

    @property
    def never_held_out(self) -> KeySample | None:
        """See `Features.never_held_out`."""
        return self.inner.never_held_out

    def labels(self) -> Sequence[str] | None:
        """See `Features.labels`."""
        inner = self.inner.labels()
        return None if inner is None else self.embedding.names(inner)

    def usable(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Bool:
        """See `Features.usable`."""
        return self.inner.usable(arrays, missing=self.embedding.takes_missing)

    def decode(self, arrays: Sequence[pa.Array], *, missing: bool = False) -> Rows:
        """See `Features.decode`."""
        X = self.inner.decode(arrays, missing=self.embedding.takes_missing)
        return self.embedding.transform(X)

    def groups(self, arrays: Sequence[pa.Array]) -> Keys | None:
        """See `Features.groups`."""
        groups = self.inner.groups(arrays)
        if groups is None and self.own:
            # The sample was drawn by groups of rows before the embedding.
            X = self.inner.decode(arrays, missing=self.embedding.takes_missing)
            groups = Batch(X, np.zeros(X.shape[0], np.bool_)).groups()
        return groups
