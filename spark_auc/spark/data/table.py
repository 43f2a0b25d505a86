"""Tables with named columns as DataFrames of ``label`` and ``features``."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.ml.feature import FeatureHasher, VectorAssembler
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, NumericType

from spark_auc.errors import ConfigError
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.features import known_column, quoted


def plain(
    df: DataFrame,
    label: str,
    numeric: Sequence[str] = (),
    categorical: Sequence[str] = (),
    dimension: int = 2**18,
) -> DataFrame:
    """Assemble the features of a table: its numeric columns first, then hashed categorical ones.

    Parameters
    ----------
    label
        Name of the label column, whose values are left as they are.
    numeric, categorical
        Names of the feature columns. Numeric ones are numbers or booleans, and their names
        survive in the ML metadata of ``features``; a null token counts as absent.
    dimension
        Number of hashed columns, of which there are none without categorical columns.

    Returns
    -------
    DataFrame
        ``label``, ``features`` (vector of len(numeric) + dimension, not scaled) and all columns
        of ``df`` not named here, such as keys, weights and times.

    Raises
    ------
    ConfigError
        For unknown columns, columns named twice, no features, or numeric ones of another type.
    DataError
        When an action meets a null in a numeric column.
    """
    used = [label, *numeric, *categorical]
    types = {name: known_column(df, name).dataType for name in used}
    kept = [name for name in df.columns if name not in used]
    if repeated := sorted({name for name in used if used.count(name) > 1}):
        raise ConfigError(f"found {repeated} named twice; expected each column in one role")
    if taken := sorted({"label", "features"}.intersection(kept)):
        raise ConfigError(
            f"found columns {taken} beside the label {label!r}; expected these names to be free "
            "for the result: rename or drop them"
        )
    if len(used) == 1:
        raise ConfigError("found no feature columns; expected numeric or categorical names")
    for name in numeric:
        if not isinstance(types[name], NumericType | BooleanType):
            raise ConfigError(
                f"found {types[name].simpleString()} in column {name!r}; expected numbers: cast "
                "it, or name it as categorical"
            )
    others = map(quoted, [label, *categorical, *kept])
    rows = df.select(*others, *(_present(name).alias(name) for name in numeric))
    if not categorical:
        rows = VectorAssembler(inputCols=[*numeric], outputCol="features").transform(rows)
        features = F.col("features")
    else:
        hasher = FeatureHasher(inputCols=[*categorical], categoricalCols=[*categorical])
        rows = hasher.setNumFeatures(dimension).setOutputCol("hashed").transform(rows)
        blocks = [*numeric, "hashed"]
        rows = VectorAssembler(inputCols=blocks, outputCol="features").transform(rows)
        # The assembler names each hashed column too: at 2^20 that text exhausts the heap.
        names = [{"idx": i, "name": name} for i, name in enumerate(numeric)]
        size = len(numeric) + dimension
        metadata = {"ml_attr": {"attrs": {"numeric": names}, "num_attrs": size}}
        features = F.col("features").alias("features", metadata=metadata)
    return rows.select(F.col(quoted(label)).alias("label"), features, *map(quoted, kept))


def _present(name: str) -> Column:
    """Return a numeric column as double, where a null fails the action."""
    value = F.col(quoted(name))
    text = f"found a null in column {name!r}; expected numbers: fill or remove these rows"
    return checked(value.cast("double"), F.when(value.isNull(), text))
