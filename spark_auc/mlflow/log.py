"""Logging a ranker to a run, and registering it: whole or not at all."""

from __future__ import annotations

import logging
from contextlib import AbstractContextManager, nullcontext
from tempfile import TemporaryDirectory
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException
from mlflow.models.model import Model, ModelInfo

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.errors import ConfigError
from spark_auc.mlflow import flavour
from spark_auc.mlflow.facts import metrics_of, params_of, write_files
from spark_auc.mlflow.flavour import ranker_of
from spark_auc.mlflow.signature import example_of
from spark_auc.publication.directory import Directory

_log = logging.getLogger(__name__)


def log_model(
    model: Any,
    name: str = "ranker",
    *,
    registered_model_name: str | None = None,
    alias: str | None = None,
    evaluation: AUCReport | None = None,
    input_example: Any = None,
    pip_requirements: list[str] | None = None,
) -> ModelInfo:
    """Log a ranker with its settings, certificate, measures and report, and register it.

    The active run receives them, or a run that ends with this call: params and metrics, and under
    ``reports/NAME`` the files of `spark_auc.mlflow.facts.write_files`. The logged model has all
    params; the run keeps values that it already has. The alias is set last. After an error there is
    neither a logged model nor a version of it in the registry.

    Parameters
    ----------
    model
        A `RankerPipelineModel`, a `LinearRankerModel`, a `ServedRanker` of `spark_auc.load`, or a
        location that `spark_auc.load` takes.
    name
        Name of the logged model.
    registered_model_name
        Name in the registry. Default: the model is not registered.
    alias
        Alias of the new version, such as ``champion``; another version loses it. Default: none.
    evaluation
        Measures of held-out rows, by `spark_auc.evaluate`. Default: those of a publication.
    input_example
        Rows that are stored with the model: as `ServedRanker.score` takes them, or a list of
        mappings. Default: none.
    pip_requirements
        Packages that score the model. Default: this package with the extra ``serving``.

    Returns
    -------
    ModelInfo
        MLflow's description of the logged model; ``model_uri`` loads it.

    Raises
    ------
    ConfigError
        The model is of another class, its location has none, or an alias has no registered model.
    DataError
        The example cannot be scored.
    ModelFormatError
        A file of the location is missing, truncated or changed.
    MlflowException
        The server refused a part.
    """
    if alias is not None and registered_model_name is None:
        raise ConfigError(
            f"found alias {alias!r} without a registered model, expected the name of one; set "
            "registered_model_name"
        )
    ranker, version = ranker_of(model)
    if input_example is not None:
        ranker.score(example_of(input_example))
    with TemporaryDirectory() as scratch:
        measured = write_files(Directory.of(scratch), name, ranker, version, evaluation)
        params, metrics = params_of(ranker), metrics_of(ranker, measured)
        with _active_run() as run:
            client, run_id = mlflow.MlflowClient(), run.info.run_id
            logged = mlflow.initialize_logged_model(name, source_run_id=run_id, params=params)
            try:
                before = client.get_run(run_id)
                known = before.data.params
                mlflow.log_params({k: v for k, v in params.items() if k not in known})
                # MLflow gives a model all metrics of its step: each model has a step of its own.
                step = len(before.outputs.model_outputs) if before.outputs else 0
                mlflow.log_metrics(metrics, step=step, model_id=logged.model_id)
                client.log_artifacts(run_id, scratch, f"reports/{name}")
                info: ModelInfo = Model.log(
                    artifact_path=None,
                    name=name,
                    flavor=flavour,
                    model_id=logged.model_id,
                    step=step,
                    model=ranker,
                    input_example=input_example,
                    pip_requirements=pip_requirements,
                )
                if registered_model_name is not None:
                    uri = f"models:/{logged.model_id}"
                    made = mlflow.register_model(uri, registered_model_name)
                    info.registered_model_version = made.version
                    if alias is not None:
                        client.set_registered_model_alias(
                            registered_model_name, alias, made.version
                        )
            except BaseException:
                _undo(client, logged.model_id)
                raise
    return info


def _active_run() -> AbstractContextManager[Any]:
    """The active run, which remains active, or else a new one."""
    run = mlflow.active_run()
    return mlflow.start_run() if run is None else nullcontext(run)


def _undo(client: mlflow.MlflowClient, model_id: str) -> None:
    """Delete a logged model and its versions, unless one has its alias already."""
    try:
        found = client.search_model_versions(f"source_path = 'models:/{model_id}'")
        own = [client.get_model_version(version.name, version.version) for version in found]
        # The answer to the last request was lost: the model is registered as a whole.
        if any(version.aliases for version in own):
            return
        for version in own:
            client.delete_model_version(version.name, version.version)
        client.delete_logged_model(model_id)
    except MlflowException as error:
        _log.warning("cannot delete what was logged of model %s: %s", model_id, error)
