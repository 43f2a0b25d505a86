"""Assemble the columns of a table to ``label`` and ``features``."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.ml.feature import FeatureHasher, VectorAssembler
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.names import known_column, quoted
from spark_auc.tables.names import folded


def plain(
    df: DataFrame,
    label: str,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    dimension: int = 2**18,
) -> DataFrame:
    """Assemble the features of a table: numeric columns, then hashed categorical columns.

    Parameters
    ----------
    df
        The table.
    label
        Name of the label column, whose values are kept.
    numeric
        Names of the feature columns of numbers or booleans. The ML metadata of ``features`` keeps
        these names.
    categorical
        Names of the feature columns to hash. A null adds no feature.
    dimension
        Number of hashed columns; without effect if ``categorical`` is empty.

    Returns
    -------
    DataFrame
        ``label``; ``features``, unscaled vectors of len(numeric) features, plus ``dimension`` if
        ``categorical`` is not empty; and the other columns of ``df``, such as keys, weights and
        times.

    Raises
    ------
    ConfigError
        A column is unknown or named twice, a numeric column is of another type, or there are no
        feature columns.
    DataError
        An action reads a null in a numeric column.
    """
    label = known_column(df, label).name
    numeric, categorical = ([known_column(df, n).name for n in ns] for ns in (numeric, categorical))
    used = [label, *numeric, *categorical]
    types = {name: known_column(df, name).dataType for name in used}
    other_columns = [name for name in df.columns if name not in used]
    if repeated := sorted({name for name in used if used.count(name) > 1}):
        raise ConfigError(f"found {repeated} named twice; expected each column in one role")
    if conflicts := [name for name in other_columns if folded(name) in ("label", "features")]:
        raise ConfigError(
            f"found columns {conflicts} besides the label {label!r}; expected these names unused, "
            "since the result has columns of these names: rename or drop them"
        )
    if len(used) == 1:
        raise ConfigError("found no feature columns; expected numeric or categorical names")
    for name in numeric:
        if not isinstance(types[name], NumericType | BooleanType):
            raise ConfigError(
                f"found {types[name].simpleString()} in column {name!r}; expected numbers: cast "
                "it, or name it as categorical"
            )
    unchanged = map(quoted, [label, *categorical, *other_columns])
    rows = df.select(*unchanged, *(_present(name).alias(name) for name in numeric))
    if not categorical:
        rows = VectorAssembler(inputCols=[*numeric], outputCol="features").transform(rows)
        features = F.col("features")
    else:
        hasher = FeatureHasher(inputCols=[*categorical], categoricalCols=[*categorical])
        rows = hasher.setNumFeatures(dimension).setOutputCol("hashed").transform(rows)
        blocks = [*numeric, "hashed"]
        rows = VectorAssembler(inputCols=blocks, outputCol="features").transform(rows)
        # The assembler would name each hashed column; 2^20 names exhaust the heap.
        names = [{"idx": i, "name": name} for i, name in enumerate(numeric)]
        size = len(numeric) + dimension
        metadata = {"ml_attr": {"attrs": {"numeric": names}, "num_attrs": size}}
        features = F.col("features").alias("features", metadata=metadata)
    return rows.select(F.col(quoted(label)).alias("label"), features, *map(quoted, other_columns))


def _present(name: str) -> Column:
    """A numeric column as double; an action that reads a null raises an error."""
    value = F.col(quoted(name))
    text = f"found a null in column {name!r}; expected numbers: fill or remove these rows"
    return checked(value.cast("double"), F.when(value.isNull(), text))
