"""Train a linear ranker in doubling stages (AdaDSG), and publish it.

Section ``adadsg`` of the configuration: data, validation (rows for the AUC of each stage),
columns, features (a recipe of raw columns), embeddings, training (the Params of AdaDSGClassifier),
stop (condition for ending before the last stage), checkpoint, output. After a crash the job resumes
from its checkpoint, with the same result. Publishes ``model`` (loaded by
``RankerPipelineModel.load``), ``summary.json``, ``stages.json``, ``stages.png``, ``config.json``
and, with features, ``recipe.json``.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from spark_auc.app.config.jobs import Adadsg, Stop
from spark_auc.app.jobs.adadsg_stage import StageCheckpoint, fingerprint
from spark_auc.app.jobs.engines import SparkEngine
from spark_auc.app.jobs.published_model import KIND, write_model
from spark_auc.app.jobs.raw_rows import (
    FeaturesOf,
    embedded,
    embeddings_of,
    features_by,
    fitted_recipe,
    named,
)
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, STYLE, check_packages, drawable, png
from spark_auc.errors import ConfigError
from spark_auc.learners.dsgd import DSGD
from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.models import FittedEmbedding, PipelineModel, plain_ranker
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.scored_rows import with_scores
from spark_auc.publication.publish import check_free, publication
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.tables.names import free_names

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from spark_auc.core.evaluation.report import AUCReport
    from spark_auc.core.types import Float
    from spark_auc.spark.data.prepared import SequentialRows
    from spark_auc.spark.estimators.adadsg import AdaDSGClassifier
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.tables.features import Features

_log = logging.getLogger(__name__)


def check(config: Adadsg) -> None:
    """Check the configuration before Spark starts; see `spark_auc.app.jobs`."""
    if config.columns.weight:
        raise ConfigError(
            "found adadsg.columns.weight, expected none: pairs are drawn without weights; remove it"
        )
    config.data.check()
    config.validation.check()
    check_packages()
    check_free(config.output.path, config.output.replace)
    for stage in (*embeddings_of(config.embeddings, config.columns), _estimator(config)):
        stage.check()
    StageCheckpoint.of(config).load()


def run(engine: SparkEngine, config: Adadsg) -> dict[str, Any]:
    """Run the job; see `spark_auc.app.jobs`."""
    spark = engine.session
    from spark_auc.pipeline.recipe_ranker import suited
    from spark_auc.spark.data.spark_table import SparkTable

    checkpoint = StageCheckpoint.of(config)
    with (
        config.data.read(spark) as rows,
        config.validation.read(spark) as held_out,
        publication(config.output.path, config.output.replace, KIND) as version,
    ):
        names, table = config.columns, SparkTable(rows)
        recipe = fitted_recipe(config.features, table, names)
        estimators = embeddings_of(config.embeddings, names)
        embeddings, features = embedded(estimators, table, features_by(recipe, names), names)
        estimator = _estimator(config)
        if not embeddings:
            estimator = suited(estimator, recipe)
        model, log, stopped = _trained(rows, held_out, config, estimator, features, checkpoint)
        if not embeddings:
            model = named(config.features, table, recipe, model)
        maps = [FittedEmbedding.of(embedding) for embedding in embeddings]
        made = PipelineModel(plain_ranker(model), recipe, maps)
        summary = write_model(version, made, config)
        version.write_json("stages.json", {"stages": log, "stopped": stopped})
        if drawable():
            version.write("stages.png", png(picture(log)))
    checkpoint.clear()
    return {
        "model": config.output.path,
        "features": model.numFeatures,
        "rows": summary["rows"],
        "stages": len(log),
        "stopped": stopped,
        "steps": log[-1]["steps"],
        "auc": log[-1]["auc"],
        "interval": log[-1]["interval"],
    }


def enough(log: Sequence[dict[str, Any]], stop: Stop | None) -> bool:
    """Whether the validation AUC changed less than the tolerance in each of the last stages.

    Parameters
    ----------
    log
        Log of the stages so far.
    stop
        Number of stages, and tolerance in half widths of the AUC's interval; None for no stop.
    """
    if stop is None or len(log) <= stop.stages:
        return False
    last = log[-stop.stages - 1 :]
    return all(
        abs(after["auc"] - before["auc"]) < stop.within * _half_width(after)
        for before, after in itertools.pairwise(last)
    )


def picture(log: Sequence[dict[str, Any]]) -> Figure:
    """Plot the validation AUC and its interval over the number of rows of each stage."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    rows, auc = ([stage[name] for stage in log] for name in ("rows", "auc"))
    lower, upper = np.array([stage["interval"] for stage in log]).T
    with rc_context(STYLE):
        figure = Figure(figsize=(6.0, 3.4), layout="constrained")
        axes = figure.subplots()
        axes.fill_between(rows, lower, upper, color=NEGATIVE, alpha=0.2, linewidth=0)
        axes.plot(rows, auc, "o-", color=NEGATIVE, markersize=3)
        axes.axhline(auc[-1], color=GUIDE, linestyle="--", linewidth=1)
        axes.set(xscale="log", xlabel="rows of the stage", ylabel="validation AUC")
        axes.set_title(f"AUC {auc[-1]:.4f} after {len(log)} stages")
    return figure


def _half_width(stage: dict[str, Any]) -> float:
    lower, upper = stage["interval"]
    return float(upper - lower) / 2


@contextmanager
def _cached(held_out: DataFrame) -> Iterator[None]:
    """Cache the validation rows for the block, where training rows have a cache of their own.

    Spark would read training rows of the same files from this cache, in groups that depend on the
    executors that hold it; the last bits of sums over the rows would differ between runs.
    """
    held_out.persist()
    try:
        yield
    finally:
        held_out.unpersist()


def _trained(
    rows: DataFrame,
    held_out: DataFrame,
    config: Adadsg,
    estimator: AdaDSGClassifier,
    features: FeaturesOf,
    checkpoint: StageCheckpoint,
) -> tuple[LinearRankerModel, list[dict[str, Any]], str]:
    """The model, the log of the stages, and the reason for the last stage."""
    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.spark.estimators.online import Pass

    start = time.perf_counter()
    table = SparkTable(rows)
    prepared = estimator.prepared(table, features(table, config.columns.numFeatures))
    validation = features(SparkTable(held_out), prepared.rows.dimension)
    checkpoint = replace(checkpoint, rows=fingerprint(prepared.surveyed))
    begin, log = Pass(estimator.learner(prepared), None), list[dict[str, Any]]()
    if stored := checkpoint.load():
        begin, log = Pass(stored.learner, stored.held_out, stored.before), stored.log
        _log.info("resuming after stage %d", len(log))
    stage, stopped = begin, "all stages"
    begun = time.perf_counter()
    seconds = {"survey": begun - start}
    if enough(log, config.stop):
        stopped = "the AUC stands still"
    else:
        with estimator.kept(prepared) as cached, _cached(held_out):
            for stage in estimator.passes(cached, begin.learner, len(log), begin):
                learner = cast(DSGD, stage.learner)
                report = _evaluated(held_out, validation, learner.w / prepared.scale, estimator)
                log.append(_stage_log(estimator, cached, learner, len(log), report, begun))
                _log.info(
                    "stage %d: %d rows, %d steps, validation AUC %.6f, %.1f s",
                    len(log),
                    *(log[-1][name] for name in ("rows", "steps", "auc", "seconds")),
                )
                checkpoint.commit(learner, stage.held_out, stage.before, log)
                begun = time.perf_counter()
                if enough(log, config.stop):
                    stopped = "the AUC stands still"
                    break
    seconds["learn"] = sum(stage["seconds"] for stage in log)
    return estimator.model_of(prepared, stage, seconds), log, stopped


def _evaluated(
    held_out: DataFrame, features: Features, w: Float, estimator: AdaDSGClassifier
) -> AUCReport:
    """The AUC of weights ``w`` ``(d,)`` on the validation rows."""
    from spark_auc.spark.data.spark_table import SparkTable

    table, label = SparkTable(held_out), estimator.getLabelCol()
    (name,) = free_names(table.schema.names, {"score": "score"}).values()
    scored = with_scores(table, {name: (LinearScorer(w, 0.0, 1.0, 0.0), features)})
    return evaluated(scored, ScoreColumns(name, label, estimator.values()["positiveLabel"]))


def _stage_log(
    estimator: AdaDSGClassifier,
    rows: SequentialRows,
    learner: DSGD,
    number: int,
    report: AUCReport,
    begun: float,
) -> dict[str, Any]:
    """How the learner is after a stage, with its evaluation on the validation rows."""
    seconds = time.perf_counter() - begun
    objective, error = estimator.objective(rows, learner, number)
    return {
        "rows": learner.size,
        "steps": learner.drawn,
        "auc": report.auc,
        "interval": [report.interval.lower, report.interval.upper],
        "objective": objective,
        "objectiveError": error,
        "seconds": round(seconds, 3),
    }


def _estimator(config: Adadsg) -> AdaDSGClassifier:
    from spark_auc.spark.estimators.adadsg import AdaDSGClassifier

    columns = config.columns
    return AdaDSGClassifier(
        featuresCol=columns.features,
        numFeatures=columns.numFeatures,
        labelCol=columns.label,
        positiveLabel=columns.positiveLabel,
        keyCol=columns.key,
        **config.training.model_dump(exclude_unset=True),
    )
