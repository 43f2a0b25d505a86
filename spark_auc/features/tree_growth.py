"""Trees of a recipe that are grown from its rows in memory, or from a share of them.

The other rows are for the weights of the leaves, and for the choice of their penalty: on the rows
that grew the trees, both would trust the leaves too much. Without other rows, see
`spark_auc.training.same_rows`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, cast

import numpy as np

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.core.types import Bool, Float, Keys
from spark_auc.errors import ConfigError, some_of
from spark_auc.features.category_numbers import counts, target_statistics
from spark_auc.features.kinds.leaves import Categories, TreeLeaves, Trees
from spark_auc.features.raw_columns import Columns, Text, taken
from spark_auc.features.row_groups import row_groups
from spark_auc.features.text_keys import most_frequent
from spark_auc.trees.category_sets import Numbered, by_sets
from spark_auc.trees.grow import grow

# Values of a column of text that are categories: LightGBM has 255 bins for a column.
_CATEGORIES = 250
# Values that have numbers, and values up to which their sets are tried, as they are for more where
# each has many rows: sets of few rows fit their labels.
_NUMBERED, _FEW, _MANY_ROWS = 1000, 8, 500
# Fewest rows of a value: models are published, and a rare value may be that of a person.
_LEAST = 10


def grown(
    columns: Columns,
    types: Mapping[str, str],
    y: Bool,
    weight: Float | None = None,
    *,
    sample: KeySample | None,
    groups: Keys | None = None,
    categorical: Collection[str] = (),
    statistics: bool = False,
    **settings: Any,
) -> TreeLeaves:
    """The leaves of trees that LightGBM grows from the rows of a sample, or from all rows.

    Parameters
    ----------
    columns
        All columns of the recipe by name, in its order.
    types
        Types of the columns that trees may split, by name. Of a column of text, the 250 most
        frequent values of at least 10 rows of the sample are categories; others are missing.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights. Default: 1.
    sample
        The rows that grow the trees. The leaves keep it, so that later passes know these rows.
        None for all rows, which no later pass leaves out.
    groups : (n,), optional
        Groups of the rows, as of a user key. Default: rows of equal values are a group.
    categorical
        Names of the columns of categories, which are whole numbers from 0.
    statistics
        Whether columns of text of more than 8 values, of less than 500 rows each on average, are
        split at thresholds of target statistics and of numbers of rows, of the 1,000 most frequent
        values; see `spark_auc.features.category_numbers`.
    settings
        Other settings of `spark_auc.trees.grow.grow`.

    Raises
    ------
    ConfigError
        A setting is out of its range, or a column of categories is not one of the trees.
    DataError
        The rows of the sample are of one class, or a column has another type.
    MissingPackageError
        LightGBM is not installed.
    """
    if unknown := set(categorical) - set(types):
        raise ConfigError(
            f"found columns of categories {sorted(unknown)}, expected columns among "
            f"{some_of(types)}; add them to the columns of the trees"
        )
    rows = np.arange(y.size)
    if groups is None and (sample or statistics):
        groups = row_groups(columns)
    if sample and groups is not None:
        rows = np.flatnonzero(sample.of(groups))
    values, weights = dict[str, tuple[str, ...]](), None if weight is None else weight[rows]
    chosen = taken({name: columns[name] for name in types}, rows)
    lines, numbered, places = list[Float](), list[Numbered](), list[int]()
    for k, (name, kind) in enumerate(types.items()):
        split: Trees | Categories
        column = chosen[name]
        if kind == "text":
            Categories(name, kind, ()).check(column)
            most = _NUMBERED if statistics else _CATEGORIES
            values[name] = most_frequent(name, cast(Text, column), most, _LEAST)
            split = Categories(name, kind, values[name])
        else:
            split = Trees(name, kind)
        line, validity = split.doubles(column)
        if validity.size:
            line = np.where(validity, line, np.nan)
        size = len(values.get(name, ()))
        few_rows = rows.size < _MANY_ROWS * size
        if statistics and groups is not None and size > _FEW and few_rows:
            codes = np.where(np.isnan(line), size, line).astype(np.int64)
            shares = target_statistics(codes, size, y[rows], weights, groups[rows])
            both = shares, counts(codes, size)
            lines += [made.rows for made in both]
            numbered += [Numbered(k, made.table) for made in both]
            continue
        if name in categorical or name in values:
            places.append(len(lines))
        lines.append(line)
        numbered.append(Numbered(k))
    X = np.stack(lines, axis=1) if lines else np.empty((rows.size, 0))
    forest = grow(X, y[rows], weights, categorical=places, **settings)
    return TreeLeaves.of(by_sets(forest, numbered, len(types)), types, sample, values)
