"""Outputs that appear whole or not at all, on any file system that Arrow supports; no Spark.

A job publishes its output as a version with a manifest; readers follow the manifest. Secrets stay
out of what is written. Begin with `spark_auc.publication.publish`.
"""

from spark_auc.errors import require

require("serving", "pyarrow", "pydantic")
