"""Hashes of values against Spark's own function."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.hashes import check_hashable, xxhash64

VALUES = {
    "tinyint": "cast(id % 7 - 3 as tinyint)",
    "smallint": "cast(id * 37 - 500 as smallint)",
    "int": "cast(id * 123457 - 4000000 as int)",
    "bigint": "id * 123456789012345 - 4",
    "float": "cast(case when id = 3 then 'NaN' when id = 4 then -0.0 else id / 7 - 2 end as float)",
    "double": "case when id = 3 then double('NaN') when id = 4 then double(-0.0) else id / 7d end",
    "boolean": "id % 2 = 0",
    "decimal": "cast(id * 1.37 - 4 as decimal(12, 2))",
    "date": "date_add(date'1969-12-20', cast(id as int))",
    "timestamp": "timestamp_micros(id * 987654321 - 5)",
    "timestamp_ntz": "cast(timestamp_micros(id * 987654321 - 5) as timestamp_ntz)",
    "string": "repeat('añb', cast(id as int))",
}


# What Spark hashes in place of values of other types; of numbers, where they are not whole.
STANDS_FOR = {
    **dict.fromkeys(["tinyint", "smallint", "int", "bigint", "boolean"], "bigint"),
    **dict.fromkeys(["float", "double", "decimal"], "double"),
    **dict.fromkeys(["date", "timestamp_ntz"], "timestamp_ntz"),
}


@pytest.mark.parametrize("kind", VALUES)
def test_hashes_are_those_of_spark(spark, kind):
    rows = spark.range(0, 40, 1, 1).selectExpr(
        f"if(id % 11 = 10, null, {VALUES[kind]}) as value", "cast(id as int) as other"
    )
    stands_for = STANDS_FOR.get(kind, kind)

    def hashed(*before):
        def of(target):
            others = [F.col(name).cast("bigint") for name in ("other",) if name in before]
            salt = [F.lit(5)] if 5 in before else []
            return F.xxhash64(*salt, F.col("value").cast(target), *others)

        if stands_for != "double":
            return of(stands_for)
        return F.when(F.col("value") == F.floor("value"), of("bigint")).otherwise(of("double"))

    expected = rows.select(hashed(), hashed(5), hashed("other")).toArrow()
    table = SparkTable(rows).select(["value", "other"]).gathered()
    value, other = (column.combine_chunks() for column in table.columns)
    found = xxhash64([value]), xxhash64([value], salt=5), xxhash64([value, other])
    for mine, theirs in zip(found, expected.columns, strict=True):
        np.testing.assert_array_equal(mine.view(np.int64), theirs.to_numpy())
    half = xxhash64([value[7:23]])
    np.testing.assert_array_equal(half.view(np.int64), expected.column(0).to_numpy()[7:23])


def test_what_has_no_hash_is_one_error(spark):
    rows = spark.range(3).selectExpr("array(id) as list", "cast(id as decimal(30, 2)) as wide")
    for name in rows.columns:
        with pytest.raises(ConfigError, match="expected text, numbers, booleans or times"):
            check_hashable(SparkTable(rows), name)
    assert xxhash64([pa.array([], pa.string())]).size == 0
