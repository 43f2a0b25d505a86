"""Locations as Arrow's file systems, on the driver and in tasks; no Spark, no pydantic.

Each process makes its own file system of a URI, with the credentials of its own machine. Begin
with `spark_auc.storage.file_systems`.
"""

from spark_auc.errors import require

require("serving", "pyarrow")
