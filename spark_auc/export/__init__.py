"""Rankers in the formats of other systems: Spark ML's logistic regression, ONNX and SQL.

Begin with `spark_auc.export.to_file`. The functions `to_logistic_regression`, `to_onnx` and
`to_sql` are public.
"""

from spark_auc.errors import require

require("serving", "pyarrow")
