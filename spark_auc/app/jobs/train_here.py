"""Train on a raw table in this process, without Spark: the files that arguments name.

`reason_for_spark` says why a section needs Spark. The files that are published are those of
`spark_auc.app.jobs.train`.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np
import pyarrow as pa

from spark_auc.app.config.arguments import COMPRESSED, source
from spark_auc.app.config.jobs import Measures, Train
from spark_auc.app.config.sections import SparkSection
from spark_auc.app.config.split import Split
from spark_auc.app.jobs.evaluation import facts_of
from spark_auc.app.jobs.raw_labels import MOST_LABELS, check_labels, start_of_last
from spark_auc.app.jobs.train import rows_told, write_all, write_measures
from spark_auc.app.report.pictures import check_packages
from spark_auc.errors import ConfigError
from spark_auc.pipeline.estimators import (
    HingeEstimator,
    MBAEstimator,
    MBASelectingEstimator,
    MethodEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.pipeline.method_fit import ADDED
from spark_auc.pipeline.pipeline_fit import KNOTS
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import resolve
from spark_auc.storage.file_systems import is_local
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.files import open_file
from spark_auc.tables.split import by_key, by_time
from spark_auc.tables.table import field_of
from spark_auc.tables.tally import tallied
from spark_auc.tables.types import is_text, raw_type

_log = logging.getLogger(__name__)

KIND = "model"
# Spark's types of text, which the remedy of rows to leave out names.
_PARSED = {"integer": "bigint", "float": "double", "time": "timestamp_ntz"}
_LEARNERS = {"MBAClassifier": MBAEstimator, "RankSVMClassifier": HingeEstimator}


def reason_for_spark(config: Train, spark: SparkSection, options: Mapping[str, Any]) -> str | None:
    """Why Spark trains on the rows of arguments; None where this process does.

    Parameters
    ----------
    config
        The section, as the arguments and overrides make it.
    spark
        The settings of Spark.
    options
        Options of the command line by name.

    Raises
    ------
    ConfigError
        ``--engine local`` is set, and there is a reason.
    """
    engine, reason = options.get("engine"), _reason(config, spark, options)
    if engine == "local" and reason is not None:
        raise ConfigError(
            f"found --engine local and {reason}, which Spark alone serves, expected one of them; "
            "leave out --engine"
        )
    return "--engine spark" if engine == "spark" else reason


def _reason(config: Train, spark: SparkSection, options: Mapping[str, Any]) -> str | None:
    data, features = config.data, config.features
    if data is None or data.path is None or not is_local(data.path):
        return "rows that are no local file"
    given, path = source(options["data"]), resolve(data.path)
    changed = {**given.get("options", {})} != data.options or data.where or data.select
    reasons = {
        "spark.conf or spark.remote": spark.conf or spark.remote,
        "spark-submit": "PYSPARK_GATEWAY_PORT" in os.environ,
        f"files of {data.format}": data.format not in ("csv", "parquet"),
        "compressed files": path.lower().endswith(COMPRESSED),
        "a pattern of files": any(letter in path for letter in "*?[{"),
        "settings of train.data": changed or data.format != given.get("format"),
        "embeddings": config.embeddings,
        "moments": config.moments is not None,
        "calibration": config.calibration is not None,
        "prior": config.prior,
        "a published recipe": features is None or features.recipe is not None,
        f"learner {config.learner}": config.learner not in _LEARNERS,
        "a holdout by position": config.holdout is not None and config.holdout.by == "position",
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def run(config: Train, options: Mapping[str, Any]) -> dict[str, Any]:
    """Train, evaluate and publish, and return the job's result for standard output.

    Parameters
    ----------
    config
        The section, as the arguments and overrides make it.
    options
        Options of the command line by name.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    assert config.data is not None
    assert config.data.path is not None
    names = config.columns
    ranker = _ranker(config)
    ranker.check()
    outputs = {
        f"train.training.{n}": ranker.values()[n] for n in ("rawPredictionCol", "predictionCol")
    }
    config.data.check(names.label, names.weight, names.key, names.fold, new=outputs)
    check_packages()
    check_free(config.output.path, config.output.replace)
    _log.info("engine: this process")
    # Labels of words are named as they are written.
    table = open_file(_local(config.data.path), words=names.label)
    config = _resolved(config, table, options)
    train, test = _halves(table, config)
    with publication(config.output.path, config.output.replace, KIND) as version:
        model = _fit(config, ranker).fitted(train)
        told = write_all(version, model, config, {})
        if test is None:
            return told
        segments = model.ranker.scorer.segments
        measures = Measures(groupCol=None if segments is None else segments.column)
        report = model.evaluate(test, **measures.model_dump())
        result = report.as_dict() | facts_of(model, config.output.path, rows_told(config))
        drifting = test if config.drift else None
        return told | write_measures(version, model, config, result, report.groups, drifting)


def _local(path: str) -> str:
    """The path of a local file, or of the files of a published output."""
    place = resolve(path)
    return unquote(urlsplit(place).path) if place.startswith("file:") else place


def _ranker(config: Train) -> Any:
    columns = config.columns
    named: dict[str, Any] = {
        "labelCol": columns.label,
        "positiveLabel": columns.positiveLabel,
        "weightCol": columns.weight,
        "keyCol": columns.key,
        "foldCol": columns.fold,
        "keepMoments": config.saveMoments or None,
    }
    named = {name: value for name, value in named.items() if value is not None}
    training = config.training.model_dump(exclude_unset=True)
    if config.select:
        select = config.select.model_dump(exclude_unset=True)
        return MBASelectingEstimator(**named, **training, **select)
    kind: Any = _LEARNERS[config.learner]
    return kind(**named, **training)


def _fit(config: Train, ranker: Any) -> MethodEstimator | PipelineEstimator:
    assert config.features is not None
    recipe = RecipeEstimator(**config.features.params())
    if config.method:
        declined = config.features.model_fields_set
        return MethodEstimator(recipe, ranker, [name for name in ADDED if name not in declined])
    return PipelineEstimator([recipe, ranker])


def _resolved(config: Train, table: ArrowTable, options: Mapping[str, Any]) -> Train:
    """The section, completed from the rows; it refuses labels that cannot be learned."""
    label, features = config.columns.label, config.features
    assert features is not None
    for name in options.get("leave_out", []):
        field_of(table, name)
    kind, parsed = field_of(table, label).type, dict[str, str | None]()
    if config.rows.format == "csv":
        parsed = {field.name: _PARSED.get(raw_type(field.type) or "") for field in table.schema}
    if not pa.types.is_boolean(kind):
        found = _labels(table, label)
        check_labels(found, config, parsed.get(label), is_text=is_text(kind))
    if time := options.get("time"):
        start = start_of_last(table, time, parsed.get(time), None)
        holdout = Split.model_validate({"by": "time", "column": time, "before": start})
        config = config.model_copy(update={"holdout": holdout})
    is_set = features.model_fields_set & {"numKnots", "recipe"}
    if not (is_set or config.method) and _ranker(config).selects:
        knots = features.model_copy(update={"numKnots": list(KNOTS)})
        knots.model_fields_set.add("numKnots")
        config = config.model_copy(update={"features": knots})
    return config


def _labels(table: ArrowTable, label: str) -> dict[Any, int]:
    """Number of rows of each label, the most frequent first; None stands for no label."""
    tally = tallied(table, label)
    convert: Any = str if is_text(field_of(table, label).type) else _number
    found = {convert(v): int(n) for v, n in zip(tally.values, tally.rows, strict=True)}
    if tally.missing:
        found[None] = tally.missing
    frequent = sorted(found, key=lambda value: -found[value])
    return {value: found[value] for value in frequent[: MOST_LABELS + 1]}


def _number(text: str) -> int | float:
    number = float(text)
    return int(number) if number.is_integer() else number


def _halves(table: ArrowTable, config: Train) -> tuple[ArrowTable, ArrowTable | None]:
    """The rows to train on, and those to test on."""
    split = config.holdout
    if split is None:
        return table, None
    if split.by == "key":
        return by_key(table, split.train, split.seed, split.column, config.columns.label)
    assert split.column is not None
    return by_time(table, split.column, np.datetime64(split.before, "us"))
