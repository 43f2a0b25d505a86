"""Rankers in MLflow: runs, the registry, and a flavour that scores without Spark.

``mlflow.pyfunc.load_model`` imports this room by its name, in processes without pyspark. Begin with
`spark_auc.mlflow.log`.
"""

from spark_auc.errors import require

require("mlflow", "mlflow")

from spark_auc.mlflow.flavour import _load_pyfunc, load_model, save_model  # noqa: E402
from spark_auc.mlflow.log import log_model  # noqa: E402

__all__ = ["_load_pyfunc", "load_model", "log_model", "save_model"]
