"""Types of the columns of a DataFrame that a recipe may use, and the zone of their times."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence

from pyspark.sql import DataFrame

from spark_auc.errors import ConfigError
from spark_auc.features.time_zones import DEFAULT, zone_name
from spark_auc.spark.data.lines import source_of
from spark_auc.spark.data.names import fields_of, known_column
from spark_auc.spark.data.raw_types import raw_type

_log = logging.getLogger(__name__)


def types_of(
    df: DataFrame, names: Sequence[str], kept: Collection[str], left_out: Collection[str]
) -> dict[str, str]:
    """Types of columns by name.

    Parameters
    ----------
    df
        The rows.
    names
        Names of the columns. Those of a type that recipes do not take are left out, with a warning.
    kept
        Names among them that the user chose for features.
    left_out
        Names of columns without features, unless they are kept.

    Raises
    ------
    ConfigError
        A column that is kept has a type that recipes do not take, or there are several of a name.
    """
    unused = {field.name for name in left_out for field in fields_of(df, name)}
    # The column of the lines whose fields are the other columns.
    lines = (source_of(df) or ())[:1]
    types = dict[str, str]()
    for name in names:
        if name not in kept and (name in unused or name in lines):
            continue
        kind = known_column(df, name).dataType
        if found := raw_type(kind):
            types[name] = found
        elif name in kept:
            raise ConfigError(
                f"found column {name!r} of type {kind.simpleString()}, expected numbers, text, "
                "booleans or times; cast it or leave it out"
            )
        else:
            _log.warning(
                "left out %r of type %s, which recipes do not take", name, kind.simpleString()
            )
    return types


def zone_of_times(df: DataFrame) -> str:
    """The zone of the session, in which Spark reads and shows times; UTC without columns of times.

    A recipe without times does not depend on the session.
    """
    if all(raw_type(field.dataType) != "time" for field in df.schema):
        return DEFAULT
    return zone_name(str(df.sparkSession.conf.get("spark.sql.session.timeZone")))
