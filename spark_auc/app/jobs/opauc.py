"""Learn a linear ranker for AUC in one pass, of a batch or of rows that arrive.

OPAUC (Gao et al.) without its step: class statistics are exact, and the model is the all-pairs
solution of the statistics so far. Section ``opauc`` of the configuration: data, columns, training
(of the Params of MBAClassifier those of a single penalty), output and stream, which counts with
--stream alone: checkpoint, trigger ("availableNow" or an interval), halfLife, publishEvery, and
schema, maxFilesPerTrigger, rejected for files that arrive in the directory data.path, or else
source. Without --stream, all of data is one batch.

A stream goes on where it ended, however it ended: what Spark lost of its account of the batches is
put back from the last state, and the state before it serves where the last one is lost. Each batch
is scored by the model of those before it and then added to the statistics, once; status.jsonl in
the checkpoint has a line for each. SIGTERM and SIGINT end the job after the batch at hand. Each
file counts once, by its name: write it under another, such as one that begins with a dot, and
rename it. Files in directories below count with the option recursiveFileLookup. A file that cannot
be used is moved to rejected, with the reason beside it; so is one of CSV whose header names other
columns, or the same in another order.

A source is any that Structured Streaming knows: table, or format with path and options, which also
say how much a batch has. Its own columns are learned of or, with value: json or csv, the rows of
this schema that are written in its column ``value``, as Kafka has. A row that cannot be used fails
its batch, of which nothing is learned, and the job.

Publishes ``model`` (loaded by ``LinearRankerModel.load``), ``config.json`` and ``summary.json``.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Opauc
from spark_auc.app.config.sections import Source, text_of
from spark_auc.app.config.stream import Stream
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.inputs import check_path, reading
from spark_auc.app.jobs.stream_state import ACCOUNT, REJECTED, Checkpoint, StreamState, settings
from spark_auc.app.publish import check_free, publication, resolve
from spark_auc.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.spark.streaming.stream import Stream as Arriving

KIND = "model"
_STREAMED = ("parquet", "orc", "csv", "json")


def check(config: Opauc) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    replace = config.output.replace
    if config.stream is not None:
        replace |= _check_stream(config, config.stream)
    elif config.data is not None:
        check_path(config.data.path)
    else:
        raise ConfigError(
            "found no opauc.data, expected the rows of a batch; add it, or give --stream to learn "
            "of opauc.stream.source"
        )
    check_free(config.output.path, replace)


def _check_stream(config: Opauc, stream: Stream) -> bool:
    """Whether the published model is one of this stream's own."""
    if stream.source is not None:
        check_path(stream.source.path)
    else:
        _check_files(config.data)
    checkpoint = _checkpoint(config, stream)
    for name, place in {
        "stream.checkpoint": checkpoint.directory,
        "stream.rejected": checkpoint.rejected,
        "output.path": Directory.of(config.output.path),
    }.items():
        there = checkpoint.arriving
        if there and f"{place.path}/".startswith(there.path.rstrip("/") + "/"):
            where = "data.path" if stream.source is None else "stream.source.path"
            raise ConfigError(
                f"found opauc.{name} inside opauc.{where}, expected it elsewhere, for all files "
                "there are taken for data; set another directory"
            )
    known = checkpoint.load().progress.settings
    for name, value in settings(config).items():
        if known and name != "output" and known.get(name) != value:
            raise ConfigError(
                f"found a checkpoint of {name} {known.get(name)!r} at {stream.checkpoint!r}, "
                f"expected it of {value!r}; set another opauc.stream.checkpoint to begin again"
            )
    return bool(known) and known["output"] == config.output.path


def _check_files(data: Source | None) -> None:
    if data is None or data.path is None or data.format not in _STREAMED:
        found = f"format {data.format!r}" if data and data.path else "no path"
        raise ConfigError(
            f"found {found} in opauc.data, expected for a stream a directory of files of the "
            f"formats {', '.join(_STREAMED)}; set opauc.data.path and opauc.data.format, or "
            "opauc.stream.source for rows that come otherwise"
        )
    check_path(data.path)
    if resolve(data.path) != Directory.of(data.path).uri:
        raise ConfigError(
            f"found a published output at {data.path!r}, expected for a stream a directory "
            "to which files are added, for a publication is replaced; copy its files to one"
        )


def run(spark: SparkSession, config: Opauc) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    if config.stream is None:
        return _batch(spark, config)
    return _stream(spark, config, config.stream)


def _batch(spark: SparkSession, config: Opauc) -> dict[str, Any]:
    from spark_auc.spark.data.columns import TrainingColumns
    from spark_auc.spark.data.features import Features
    from spark_auc.spark.data.rows import DistributedRows
    from spark_auc.spark.estimators.one_pass import model_of, statistics

    assert config.data is not None
    names = config.columns
    with (
        reading(spark, config.data) as rows,
        publication(config.output.path, config.output.replace, KIND) as version,
    ):
        start = time.perf_counter()
        features = Features.resolve(rows, names.features, names.numFeatures)
        columns = TrainingColumns.resolve(
            rows, features, names.label, names.positiveLabel, names.weight
        )
        found = statistics(DistributedRows.of(rows, columns))
        seconds = {"moments": time.perf_counter() - start}
        model = model_of(found, columns, _estimator(config), seconds)
        _write(version, model, config)
    return _result(config, model)


def _stream(spark: SparkSession, config: Opauc, given: Stream) -> dict[str, Any]:
    from spark_auc.app.jobs.stream_learner import StreamLearner
    from spark_auc.spark.streaming.stream import check_classic
    from spark_auc.spark.streaming.stream import run as run_stream

    check_classic(spark)
    checkpoint = _checkpoint(config, given)
    state = checkpoint.load()
    checkpoint.account.align(state.progress.batch, state.progress.account)
    checkpoint.repair_status(state)
    checkpoint.move_refused(state)
    stream = _arriving(spark, config, given, checkpoint)
    checkpoint.keep_schema(stream.schema.json())

    def publish(model: LinearRankerModel, state: StreamState) -> None:
        # What was there before the first model of this stream was refused unless replaceable.
        with publication(config.output.path, True, KIND) as version:
            _write(version, model, config, stream=dict(state.progress.status))

    learner = StreamLearner(stream, config, checkpoint, state, _estimator(config), publish)
    with _until_told() as stop:
        run_stream(
            stream,
            learner.learn,
            checkpoint=(checkpoint.directory / ACCOUNT).uri,
            every=None if given.trigger == "availableNow" else given.trigger,
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


def _arriving(
    spark: SparkSession, config: Opauc, given: Stream, checkpoint: Checkpoint
) -> Arriving:
    from spark_auc.spark.streaming.files import FileStream
    from spark_auc.spark.streaming.table import TableStream

    if given.source is not None:
        return TableStream.of(
            spark,
            table=given.source.table,
            form=given.source.format,
            path=checkpoint.arriving.uri if checkpoint.arriving else None,
            options={key: text_of(value) for key, value in given.source.options.items()},
            value=given.source.value,
            ddl=given.source.ddl,
        )
    assert config.data is not None
    assert checkpoint.arriving is not None
    return FileStream.of(
        spark,
        checkpoint.arriving.uri,
        config.data.format,
        {key: text_of(value) for key, value in config.data.options.items()},
        given.ddl,
        checkpoint.schema(),
        given.maxFilesPerTrigger,
    )


def _checkpoint(config: Opauc, stream: Stream) -> Checkpoint:
    directory = Directory.of(stream.checkpoint)
    rejected = Directory.of(stream.rejected) if stream.rejected else directory / REJECTED
    rows = stream.source or config.data
    arriving = Directory.of(rows.path) if rows is not None and rows.path else None
    return Checkpoint(directory, rejected, arriving)


def _estimator(config: Opauc) -> MBAClassifier:
    from spark_auc.spark.estimators.mba import MBAClassifier

    names = config.columns
    return MBAClassifier(
        featuresCol=names.features,
        numFeatures=names.numFeatures,
        labelCol=names.label,
        positiveLabel=names.positiveLabel,
        weightCol=names.weight,
        **config.training.model_dump(exclude_unset=True),
    )


def _write(version: Directory, model: LinearRankerModel, config: Opauc, **others: Any) -> None:
    model.save(f"{version.uri}/model")
    summary = model.summary.as_dict() | {"threshold": model.threshold} | others
    version.write_json("summary.json", summary)
    version.write_json("config.json", config.model_dump(mode="json", by_alias=True))


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


@contextmanager
def _until_told() -> Iterator[threading.Event]:
    """An event that SIGTERM and SIGINT set, where this thread may handle them."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
