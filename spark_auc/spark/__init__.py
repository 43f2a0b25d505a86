"""Where DataFrames become arrays and back: the only room that imports pyspark and pyarrow."""

from spark_auc.errors import require

require("spark", "pyspark", "pyarrow", "pandas")
