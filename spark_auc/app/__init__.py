"""The application: jobs, their configuration and reports, and the publication of results.

``spark_auc.app.running`` runs a job by its name. The scripts in ``jobs`` and the experiments import
from this room. Begin with `spark_auc.app.cli`.
"""

from spark_auc.errors import require

require("spark", "pyarrow", "pydantic")
