"""Train in doubling stages (AdaDSG) and publish the model.

Section ``adadsg`` of the configuration: data, validation (rows by whose AUC the stages are
followed), columns, training (the Params of AdaDSGClassifier), stop (when further stages are not
worth their time), checkpoint, output. A job that dies goes on from its checkpoint, and ends with
the same model. Publishes ``model`` (loaded by ``LinearRankerModel.load``), ``summary.json``,
``stages.json``, ``stages.png`` and ``config.json``.
"""

from __future__ import annotations

import itertools
import json
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from spark_auc.app.config.jobs import Adadsg, Stop
from spark_auc.app.config.redaction import names_secret, redacted
from spark_auc.app.directory import Directory
from spark_auc.app.jobs.adadsg_stage import StoredStage
from spark_auc.app.jobs.inputs import check_path, reading
from spark_auc.app.publish import check_free, publication
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, STYLE, check_packages, png
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.errors import ConfigError
from spark_auc.learners.dsgd import DSGD

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame, SparkSession

    from spark_auc.spark.data.prepared import SequentialRows
    from spark_auc.spark.estimators.adadsg import AdaDSGClassifier
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel

_log = logging.getLogger(__name__)

_KIND = "model"
_STATE = "stage.bin"


def check(config: Adadsg) -> None:
    """What can be known to be wrong before Spark starts; `ConfigError`."""
    if config.columns.weight:
        raise ConfigError(
            "found adadsg.columns.weight, expected none: pairs are drawn without weights; leave it "
            "out"
        )
    check_path(config.data.path)
    check_path(config.validation.path)
    check_packages()
    check_free(config.output.path, config.output.replace)
    _estimator(config).check()
    _Checkpoint.of(config).load()


def run(spark: SparkSession, config: Adadsg) -> dict[str, Any]:
    """Run the job; the result for standard output."""
    checkpoint = _Checkpoint.of(config)
    with (
        reading(spark, config.data) as rows,
        reading(spark, config.validation) as held_out,
        publication(config.output.path, config.output.replace, _KIND) as version,
    ):
        validation = held_out.cache()
        try:
            model, log, stopped = _trained(rows, validation, config, checkpoint)
        finally:
            validation.unpersist()
        model.save(f"{version.uri}/model")
        summary = model.summary.as_dict() | {"threshold": model.threshold}
        version.write_json("summary.json", summary)
        version.write_json("stages.json", {"stages": log, "stopped": stopped})
        version.write("stages.png", png(picture(log)))
        version.write_json("config.json", config.model_dump(mode="json"))
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
    """Whether the AUC has moved by little in each of the last stages."""
    if stop is None or len(log) <= stop.stages:
        return False
    last = log[-stop.stages - 1 :]
    return all(
        abs(after["auc"] - before["auc"]) < stop.within * _half_width(after)
        for before, after in itertools.pairwise(last)
    )


def picture(log: Sequence[dict[str, Any]]) -> Figure:
    """Validation AUC with its interval against the rows of each stage."""
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


def _trained(
    rows: DataFrame, held_out: DataFrame, config: Adadsg, checkpoint: _Checkpoint
) -> tuple[LinearRankerModel, list[dict[str, Any]], str]:
    """The model, the log of the stages, and why there were no more of them."""
    from spark_auc.spark.estimators.online import Pass

    estimator = _estimator(config)
    start = time.perf_counter()
    given = estimator.prepared(rows)
    checkpoint = replace(checkpoint, rows=_told(given.surveyed))
    learner, log = checkpoint.load() or (estimator.learner(given), [])
    done = Pass(learner, None)
    if log:
        _log.info("going on after stage %d", len(log))
    stopped = "all stages"
    begun = time.perf_counter()
    seconds = {"survey": begun - start}
    if enough(log, config.stop):
        stopped = "the AUC stands still"
    else:
        with estimator.kept(given) as kept:
            for done in estimator.passes(kept, learner, first=len(log)):
                learner = cast(DSGD, done.learner)
                log.append(_stage(estimator, given, learner, len(log), held_out, begun))
                _log.info("%s", log[-1])
                checkpoint.commit(learner, log)
                begun = time.perf_counter()
                if enough(log, config.stop):
                    stopped = "the AUC stands still"
                    break
    seconds["learn"] = sum(stage["seconds"] for stage in log)
    return estimator.model_of(given, done, seconds), log, stopped


def _stage(
    estimator: AdaDSGClassifier,
    given: SequentialRows,
    learner: DSGD,
    number: int,
    held_out: DataFrame,
    begun: float,
) -> dict[str, Any]:
    """What is noted of a stage."""
    from pyspark.sql import functions as F

    from spark_auc.spark.data.features import Features
    from spark_auc.spark.estimators.linear_ranker import score_column
    from spark_auc.spark.evaluation.evaluate import evaluate

    taken = time.perf_counter() - begun
    w = learner.w / given.scale
    features = Features.resolve(held_out, estimator.getOrDefault(estimator.featuresCol), w.size)
    rows = features.without_nulls(held_out)
    label = F.col(estimator.getLabelCol())
    scored = rows.select(label.alias("label"), score_column(features, w).alias("score"))
    report = evaluate(scored, scoreCol="score", positiveLabel=given.columns.positive)
    return {
        "rows": learner.size,
        "steps": learner.drawn,
        "auc": report.auc,
        "interval": [report.interval.lower, report.interval.upper],
        "objective": estimator.objective(given, learner, number),
        "seconds": round(taken, 3),
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


def _told(surveyed: ColumnMoments) -> list[float]:
    """Numbers by which rows are told from others: of each class, and of the columns mixed."""
    share = np.random.default_rng(0).random(surveyed.mean.shape[1])
    mixed = [surveyed.mean @ share, np.abs(surveyed.mean) @ share, surveyed.variance @ share]
    return [float(v) for part in (surveyed.rows, surveyed.entries, *mixed) for v in part]


def _alike(found: Sequence[float], expected: Sequence[float]) -> bool:
    """Whether these are the same rows, though added in another order."""
    if found[:4] != expected[:4]:
        return False
    scale = np.abs(expected[4:]).max(initial=0.0)
    return bool(np.allclose(found[4:], expected[4:], rtol=0.0, atol=1e-9 * scale))


def _identity(settings: dict[str, Any]) -> str:
    """By what a checkpoint is known: a secret may change, and so may the way to log in."""
    fixed = dict(settings)
    for name in ("data", "validation"):
        source = settings[name]
        options = {key: value for key, value in source["options"].items() if not names_secret(key)}
        fixed[name] = source | {"options": options}
    return json.dumps(redacted(fixed), sort_keys=True)


@dataclass(frozen=True)
class _Checkpoint:
    """What the last stage left, in one file that appears whole.

    Parameters
    ----------
    directory
        Where it is.
    settings
        What must be the same for a job to go on from it.
    rows
        What tells the rows from others, once they were surveyed; see `_told`.
    """

    directory: Directory
    settings: str
    rows: Sequence[float] = ()

    @classmethod
    def of(cls, config: Adadsg) -> _Checkpoint:
        """The checkpoint that a job goes on from."""
        fixed = config.model_dump(
            mode="json", include={"data", "validation", "columns", "training"}
        )
        return cls(Directory.of(config.checkpoint), _identity(fixed))

    def load(self) -> tuple[DSGD, list[dict[str, Any]]] | None:
        """Learner and log after the last stage, None before the first.

        Raises
        ------
        ConfigError
            It is of a job with other settings, or of other rows at the same place.
        ModelFormatError
            It is damaged.
        """
        if _STATE not in self.directory.names():
            return None
        left = StoredStage.from_bytes(self.directory.read(_STATE))
        if left.settings != self.settings:
            raise ConfigError(
                f"found a checkpoint of other data, validation, columns or training in "
                f"{self.directory.uri}, "
                "expected one of this configuration; set another adadsg.checkpoint, or remove it "
                "to begin again"
            )
        if self.rows and not _alike(self.rows, left.rows):
            raise ConfigError(
                f"found {self.rows[0]:.0f} negative and {self.rows[1]:.0f} positive rows, expected "
                f"the {left.rows[0]:.0f} and {left.rows[1]:.0f} of the checkpoint in "
                f"{self.directory.uri}, value for value; restore them, or set another "
                "adadsg.checkpoint, or remove it to begin again"
            )
        return left.learner, left.log

    def commit(self, learner: DSGD, log: Sequence[dict[str, Any]]) -> None:
        """Replace what the stage before left."""
        stage = StoredStage(self.settings, list(self.rows), list(log), learner)
        self.directory.replace(_STATE, stage.to_bytes())

    def clear(self) -> None:
        """Remove what is not needed once the model is published."""
        if _STATE in self.directory.names():
            self.directory.filesystem.delete_file(f"{self.directory.path}/{_STATE}")
