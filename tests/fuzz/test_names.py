"""Random names of columns: those that Spark itself finds, replaces and cannot tell apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from spark_auc.errors import ConfigError
from spark_auc.spark.data.names import check_new, known_column, quoted
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.table import own_names
from tests.fuzz.inputs import inputs

pytestmark = pytest.mark.fuzz
# Without letters such as the long s, whose two lower cases share an upper case: Spark finds a
# column by its lower case, and replaces one by either.
LETTERS = "aAbBéÉßẞsSiIkKσΣǅǆǄ.` _1-"  # noqa: RUF001
NAMES = st.lists(st.text(LETTERS, min_size=1, max_size=3), min_size=1, max_size=4)


@inputs(2000)
@given(columns=NAMES, name=st.text(LETTERS, min_size=1, max_size=3), exact=st.booleans())
def test_a_name_is_that_of_the_column_that_spark_finds(spark, columns, name, exact):
    spark.conf.set("spark.sql.caseSensitive", str(exact).lower())
    try:
        # Columns of equal names, as a join leaves them.
        one = spark.range(1)
        df = one.select(*(F.lit(k).alias(column) for k, column in enumerate(columns)))
        try:
            place = df.select(F.col(quoted(name))).first()[0]
        except AnalysisException:
            with pytest.raises(ConfigError):
                known_column(df, name)
        else:
            assert known_column(df, name).name == columns[place]
            assert own_names(SparkTable(df), name) == columns[place]
        # A new column replaces each one of its name.
        is_new = len(df.withColumn(name, F.lit(9)).schema.names) == len(columns) + 1
        if is_new:
            check_new(df, {"setting": name})
        else:
            with pytest.raises(ConfigError, match="in the data already"):
                check_new(df, {"setting": name})
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
