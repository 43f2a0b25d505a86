"""Published rankers in a process without Spark: the formats of files, and scores of rows.

Begin with `spark_auc.serving.ranker`.
"""

from spark_auc.errors import require

require("serving", "pyarrow")
