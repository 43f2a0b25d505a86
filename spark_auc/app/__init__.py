"""What a job is made of: configuration, publication, reports, and one module per job."""

from spark_auc.errors import require

require("spark", "pyspark", "pyarrow", "pandas", "pydantic", "yaml")
