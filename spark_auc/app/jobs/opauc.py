"""Train a linear ranker for AUC in one pass, on one batch or on a stream.

The job is OPAUC (Gao et al.) without gradient steps: the class statistics are exact, and the model
is the all-pairs solution for the statistics so far. Section ``opauc`` of the configuration: data,
columns, features (a recipe of raw columns; for a stream that of a published model), learner and
training (its Params; those of MBAClassifier, the default, for a single penalty), prior, output and
stream. Without --stream, data is one batch, and the part stream is ignored: checkpoint, trigger
("availableNow" or an interval), halfLife, publishEvery, and either source, or schema,
maxFilesPerTrigger and rejected for files that arrive in the directory data.path.

A stream resumes from its checkpoint, even after a crash or a power failure: files that Spark lost
are restored from the last state, and if the last state is damaged, the one before it is used. Each
batch is scored by the current model, and then added to the statistics exactly once. For each batch
status.jsonl in the checkpoint has a line. SIGTERM and SIGINT end the job after the current batch.

A file is learned once, by its name. Write it under a temporary name that starts with a dot, then
rename it. The option recursiveFileLookup includes subdirectories. An invalid file moves to
rejected, beside a file with the reason; a CSV file is invalid too if its header has other columns
or another order.

A source is any source of Structured Streaming: table, or format with path and options, which also
limit the size of a batch. The job learns the source's columns or, with value: json or csv, the rows
of this schema in the text column ``value``, as of Kafka. An invalid row fails its batch and the
job; nothing of the batch is learned.

Where the moments of all features do not fit in memory, a stream has exact covariances of a head of
the columns (training.covariance: head): that of the model that features.recipe names, or else one
that a first batch of 2,000 rows or more chooses.

The learner OPAUCClassifier or SOLAMClassifier takes a gradient step for each row, in order, in
place of the solution of all pairs; prior is a published model with whose weights it begins.

With the part store, each batch also joins the periods of its rows in the store of the job retrain.

Publishes ``model`` (loaded by ``RankerPipelineModel.load``), ``config.json`` and ``summary.json``,
and with features ``recipe.json``.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.config.sections import text_of
from spark_auc.app.config.sources import Source, check_path
from spark_auc.app.config.stream import Stream
from spark_auc.app.config.training import estimator_class
from spark_auc.app.jobs.drift import drift_of, log_unknown
from spark_auc.app.jobs.engines import SparkEngine
from spark_auc.app.jobs.published_model import (
    KIND,
    check_model,
    read_recipe,
    set_prior,
    write_model,
)
from spark_auc.app.jobs.raw_rows import features_by, fitted_recipe, named
from spark_auc.app.jobs.stop_signals import stop_signals
from spark_auc.app.jobs.stream_state import Checkpoint, StreamState, settings
from spark_auc.errors import ConfigError
from spark_auc.pipeline.models import FittedRecipe, PipelineModel, plain_ranker
from spark_auc.pipeline.recipe_ranker import suited, with_head
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import resolve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_auc.app.jobs.stream_store import StreamStore
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.estimators.ranker import RankerEstimator
    from spark_auc.spark.streaming.learning import Learning
    from spark_auc.spark.streaming.stream import Stream as StreamSource

_STREAMED = ("parquet", "orc", "csv", "json")


def check(config: Opauc) -> None:
    """Check the configuration before Spark starts; see `spark_auc.app.jobs`."""
    replace = config.output.replace
    if config.stream is not None:
        replace |= _check_stream(config, config.stream)
    elif config.data is not None:
        config.data.check()
    else:
        raise ConfigError(
            "found no opauc.data, expected the rows of a batch; add it, or set --stream to learn "
            "opauc.stream.source"
        )
    if config.prior:
        check_model(config.prior)
    if config.learner != "MBAClassifier":
        _estimator(config).check()
    check_free(config.output.path, replace)


def _check_stream(config: Opauc, stream: Stream) -> bool:
    """Check the stream's configuration; True if this stream published the current model."""
    if config.features is not None and config.features.recipe is None:
        raise ConfigError(
            "found opauc.features that are to be fitted, expected a fitted recipe for a stream; "
            "train a model with these features first, and set opauc.features.recipe to its path"
        )
    if stream.store is not None:
        import spark_auc.store  # noqa: F401
    if stream.source is not None:
        check_path(stream.source.path)
    else:
        _check_files(config.data)
    checkpoint = Checkpoint.of(config, stream)
    for name, directory in {
        "stream.checkpoint": checkpoint.directory,
        "stream.rejected": checkpoint.rejected,
        "output.path": Directory.of(config.output.path),
    }.items():
        source = checkpoint.arriving
        if source and f"{directory.path}/".startswith(source.path.rstrip("/") + "/"):
            source_key = "data.path" if stream.source is None else "stream.source.path"
            raise ConfigError(
                f"found opauc.{name} inside opauc.{source_key}, expected it outside, since all "
                "files inside are data; set another directory"
            )
    stored = checkpoint.load().progress.settings
    recipe = config.features and config.features.recipe
    current = settings(config, read_recipe(recipe) if recipe else None)
    checkpoint.check_settings(stored, current)
    return bool(stored) and stored["output"] == config.output.path


def _check_files(data: Source | None) -> None:
    if data is None or data.path is None or data.format not in _STREAMED:
        source = f"format {data.format!r}" if data and data.path else "no path"
        raise ConfigError(
            f"found {source} in opauc.data, expected for a stream a directory of files of the "
            f"formats {', '.join(_STREAMED)}; set opauc.data.path and opauc.data.format, or "
            "opauc.stream.source for another source"
        )
    keys = ("where", "select", "types", "dropMissing")
    if given := [f"opauc.data.{key}" for key in keys if getattr(data, key)]:
        raise ConfigError(
            f"found {' and '.join(given)}, expected none of them for a stream of files; leave them "
            "out, and write the rows and columns to learn"
        )
    data.check()
    if resolve(data.path) != Directory.of(data.path).uri:
        raise ConfigError(
            f"found a published output at {data.path!r}, expected for a stream a directory "
            "to which files are added, since a publication is replaced as a whole; copy its files "
            "to another directory"
        )


def run(engine: SparkEngine, config: Opauc) -> dict[str, Any]:
    """Run the job; see `spark_auc.app.jobs`."""
    spark = engine.session
    if config.stream is None:
        return _batch(spark, config)
    with Checkpoint.of(config, config.stream).opened() as checkpoint:
        return _stream(spark, config, checkpoint)


def _batch(spark: SparkSession, config: Opauc) -> dict[str, Any]:
    from spark_auc.pipeline.one_pass import model_of, statistics
    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.rows import TableRows

    assert config.data is not None
    names = config.columns
    with (
        config.data.read(spark) as rows,
        publication(config.output.path, config.output.replace, KIND) as version,
    ):
        start = time.perf_counter()
        table = SparkTable(rows)
        recipe = fitted_recipe(config.features, table, names)
        features = features_by(recipe, names)(table, names.numFeatures)
        columns = TrainingColumns.resolve(
            table, features, names.label, names.positiveLabel, names.weight
        )
        estimator = suited(_estimator(config), recipe)
        set_prior(estimator, config.prior)
        # One pass without the survey of columns that the estimator makes for other ways.
        if isinstance(estimator, MBAClassifier) and estimator.approximation.kind == "full":
            totals = statistics(TableRows.of(table, columns))
            seconds = {"moments": time.perf_counter() - start}
            prior = estimator.prior_for(features)
            model = model_of(totals, columns, estimator, seconds, prior)
        else:
            model = estimator.fitted(table, features)
        model = named(config.features, table, recipe, model)
        write_model(version, _pipeline(model, recipe), config)
        drift: dict[str, Any] = {}
        if config.drift and config.features and config.features.recipe:
            drift = drift_of(recipe, table, (names.label, names.weight))
            log_unknown(drift)
    return _result(config, model) | drift


def _stream(spark: SparkSession, config: Opauc, checkpoint: Checkpoint) -> dict[str, Any]:
    from spark_auc.app.jobs.stream_learner import StreamLearner
    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.spark.estimators.online import OnlineEstimator
    from spark_auc.spark.streaming.all_pairs import AllPairs
    from spark_auc.spark.streaming.one_by_one import OneByOne
    from spark_auc.spark.streaming.stream import check_classic
    from spark_auc.spark.streaming.stream import run as run_stream

    section = config.stream
    assert section is not None
    check_classic(spark)
    state = checkpoint.load()
    checkpoint.account.align(state.progress.batch, state.progress.account)
    checkpoint.repair_status(state)
    checkpoint.move_refused(state)
    stream = _source(spark, config, section, checkpoint)
    checkpoint.keep_schema(stream.schema.json())

    def publish(model: LinearRankerModel, state: StreamState) -> None:
        # `check` applied output.replace to the version from before this stream.
        with publication(config.output.path, True, KIND) as version:
            status = dict(state.progress.status)
            write_model(version, _pipeline(model, recipe), config, stream=status)

    # A stream has no rows to fit a recipe to: `check` requires a fitted one.
    no_rows = SparkTable(spark.createDataFrame([], stream.schema))
    recipe = fitted_recipe(config.features, no_rows, config.columns)
    stored = settings(config, recipe.recipe if recipe else None)
    checkpoint.check_settings(state.progress.settings, stored)
    features = features_by(recipe, config.columns)
    names = config.columns.label, config.columns.weight
    counted = partial(drift_of, recipe, others=names)
    drift = counted if recipe and config.drift else None
    store: StreamStore | None = None
    if section.store is not None:  # The package deltalake is optional.
        from spark_auc.app.jobs.stream_store import StreamStore

        store = StreamStore(section.store, config.columns, features, recipe, checkpoint, state)
    estimator = suited(_estimator(config), recipe)
    set_prior(estimator, config.prior)
    learning: Learning
    if isinstance(estimator, MBAClassifier):
        learning = AllPairs.of(estimator, store is not None)
    else:
        assert isinstance(estimator, OnlineEstimator)
        learning = OneByOne(estimator)
    learner = StreamLearner(
        stream, config, stored, checkpoint, state, features, learning, publish, drift, store
    )
    with stop_signals() as stop:
        run_stream(
            stream,
            learner.learn,
            checkpoint=checkpoint.account.directory.uri,
            every=None if section.trigger == "availableNow" else section.trigger,
            stop=stop,
        )
    learner.publish()
    progress = learner.state.progress
    return _result(config, learner.model) | {
        "lacking": learner.lacking(),
        "batches": progress.batch + 1,
        "files": progress.files,
        "rejected": progress.rejected,
        "prequentialAUC": progress.status.get("prequentialAUC"),
        "prequentialBounds": progress.status.get("prequentialBounds"),
    }


def _source(
    spark: SparkSession, config: Opauc, section: Stream, checkpoint: Checkpoint
) -> StreamSource:
    from spark_auc.spark.streaming.files import FileStream
    from spark_auc.spark.streaming.table import TableStream

    if source := section.source:
        return TableStream.of(
            spark,
            table=source.table,
            form=source.format,
            path=checkpoint.arriving.uri if checkpoint.arriving else None,
            options={key: text_of(value) for key, value in source.options.items()},
            value=source.value,
            ddl=source.ddl,
        )
    assert config.data is not None
    assert checkpoint.arriving is not None
    return FileStream.of(
        spark,
        checkpoint.arriving.uri,
        config.data.format,
        {key: text_of(value) for key, value in config.data.options.items()},
        section.ddl,
        checkpoint.schema(),
        section.maxFilesPerTrigger,
    )


def _estimator(config: Opauc) -> RankerEstimator:
    """The estimator; a prior is the location of the published model."""
    names, given = config.columns, config.training.model_dump(exclude_unset=True)
    estimator = estimator_class("learner", config.learner)
    params = {
        "featuresCol": names.features,
        "numFeatures": names.numFeatures,
        "labelCol": names.label,
        "positiveLabel": names.positiveLabel,
        "weightCol": names.weight,
        "prior": config.prior,
    }
    if given.get("covariance") == "lowRank" and config.learner == "MBAClassifier":
        params["keyCol"] = names.key
    elif config.learner == "OPAUCClassifier":
        params["parallelism"] = "sequential"
    # A learner may lack a Param, such as weightCol, that the configuration does not set.
    set_params = {key: value for key, value in params.items() if value is not None}
    ranker: RankerEstimator = estimator(**set_params | given)
    return ranker


def _pipeline(model: LinearRankerModel, recipe: FittedRecipe | None) -> PipelineModel:
    return PipelineModel(plain_ranker(model), with_head(recipe, model))


def _result(config: Opauc, model: LinearRankerModel | None) -> dict[str, Any]:
    if model is None:
        return {"model": None}
    summary = model.summary
    return {
        "model": config.output.path,
        "features": model.numFeatures,
        "regParam": summary.reg_param,
        "estimatedAUC": summary.estimated_auc,
        "rows": summary.rows,
        "certificate": summary.certificate,
        "phases": summary.seconds,
    }
