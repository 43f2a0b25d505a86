"""The flavour: rankers in MLflow's model format, loaded without Spark.

The model directory has the saved ranker as `spark_auc.load` takes it, whose hashes are checked when
it is loaded.
"""

from __future__ import annotations

from os import PathLike, fspath
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
import pandas as pd
from mlflow.models import Model

from spark_auc import __version__
from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.mlflow.signature import example_of, scored, signature_of
from spark_auc.publication.directory import Directory
from spark_auc.serving.load import load, stored
from spark_auc.serving.ranker import ServedRanker

FLAVOUR = "spark_auc"
_RANKER = "ranker"


def ranker_of(model: Any) -> tuple[ServedRanker, Directory | None]:
    """The ranker of a model, and the directory of its version if the model is a publication.

    Parameters
    ----------
    model
        A `RankerPipelineModel`, a `LinearRankerModel`, a `ServedRanker`, or a location as
        `spark_auc.load` takes it.

    Raises
    ------
    ConfigError
        The model is of another class, the location has none, or the ranker was not loaded.
    ModelFormatError
        A file of the location is missing, truncated or changed.
    """
    if isinstance(model, str | PathLike):
        stage, version = stored(model)
        return ServedRanker.of(stage), version
    if isinstance(model, ServedRanker):
        if model.stage is None:
            raise ConfigError(
                "found a ServedRanker that was made of its parts, expected one with a record of "
                "its training; take one of spark_auc.load"
            )
        return model, None
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.pipeline_model import RankerPipelineModel

    if isinstance(model, RankerPipelineModel | LinearRankerModel):
        return ServedRanker.of(model.write().stored()), None
    raise ConfigError(
        f"found a model of class {type(model).__name__}, expected a RankerPipelineModel, a "
        "LinearRankerModel, a ServedRanker or a path; fit a RankerPipeline, or log the stage that "
        "ranks"
    )


def save_model(
    model: Any,
    path: AnyPath,
    mlflow_model: Model | None = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
) -> None:
    """Write a ranker as an MLflow model to a local directory; no Spark job runs.

    Parameters
    ----------
    model
        See `spark_auc.mlflow.log.log_model`.
    path
        The directory; it must be new or empty.
    mlflow_model
        MLflow's description of the model, to which the flavour is added. Default: a new one.
    input_example
        Rows as `ServedRanker.score` takes them, or a list of mappings. Default: none.
    pip_requirements
        Packages that score the model. Default: this package with the extra ``serving``.

    Raises
    ------
    ConfigError
        See `ranker_of`.
    DataError
        The example cannot be scored.
    """
    ranker, _ = ranker_of(model)
    assert ranker.stage is not None
    example = None if input_example is None else example_of(input_example)
    if example is not None:
        ranker.score(example)
    described = Model() if mlflow_model is None else mlflow_model
    described.add_flavor(FLAVOUR, spark_auc_version=__version__, data=f"data/{_RANKER}")
    with TemporaryDirectory() as scratch:
        ranker.stage.write(Directory.of(f"{scratch}/{_RANKER}"))
        mlflow.pyfunc.save_model(
            fspath(path),
            loader_module="spark_auc.mlflow",
            data_path=f"{scratch}/{_RANKER}",
            mlflow_model=described,
            signature=signature_of(ranker),
            input_example=example,
            pip_requirements=pip_requirements or [f"spark-auc[serving]=={__version__}"],
        )


def load_model(model_uri: AnyPath) -> ServedRanker:
    """Load a ranker of MLflow into this process; neither Java nor pyspark is needed.

    Parameters
    ----------
    model_uri
        A URI of MLflow, such as ``models:/clicks@champion``, or a local path.

    Raises
    ------
    ConfigError
        The model has another flavour.
    ModelFormatError
        A file is missing, truncated or changed.
    """
    with TemporaryDirectory() as scratch:
        path = mlflow.artifacts.download_artifacts(artifact_uri=fspath(model_uri), dst_path=scratch)
        flavours = Model.load(path).flavors
        if FLAVOUR not in flavours:
            raise ConfigError(
                f"found a model of flavours {', '.join(flavours)} at {model_uri!r}, expected the "
                f"flavour {FLAVOUR}; log the model by spark_auc.mlflow.log_model"
            )
        return load(f"{path}/{flavours[FLAVOUR]['data']}")


class PythonFunction:
    """A ranker as ``mlflow.pyfunc`` calls it.

    Parameters
    ----------
    ranker
        The ranker.
    """

    def __init__(self, ranker: ServedRanker) -> None:
        self.ranker = ranker

    def predict(self, rows: Any) -> pd.DataFrame:
        """The columns ``score``, and ``probability`` if the ranker has a calibration."""
        return scored(self.ranker, rows)


def _load_pyfunc(path: str) -> PythonFunction:
    """The function of a saved ranker; MLflow calls this by its name."""
    return PythonFunction(load(path))
