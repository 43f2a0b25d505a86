"""DataFrames: the only room below the application that imports pyspark and pyarrow.

Users import the public names from ``spark_auc``; the application imports from the rooms in here.
Begin with `spark_auc.spark.estimators.mba`.
"""

from spark_auc.errors import require

require("spark", "pyspark", "pyarrow", "pandas")
