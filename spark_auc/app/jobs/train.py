"""Train a linear ranker for AUC, and publish it.

Section ``train`` of the configuration: data (parquet, csv, libsvm, any Spark format, or a
table), columns, method (an estimator, MBAClassifier by default), training (its Params), select (a
grid of penalties for cross-validation), calibration, output. Publishes ``model`` (loaded by
``LinearRankerModel.load``), ``config.json`` and ``summary.json``; ``calibration`` if configured,
``moments.parquet`` if saveMoments is true, and ``selection.json`` and ``selection.png`` if the
penalty was selected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.app.config.jobs import Calibration, Train
from spark_auc.app.config.training import estimator_class
from spark_auc.app.jobs.published_model import CALIBRATION
from spark_auc.app.publish import check_free, publication
from spark_auc.app.report.penalties import penalties
from spark_auc.app.report.pictures import check_packages, png

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from spark_auc.core.moments.pair_moments import PairMoments
    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel
    from spark_auc.spark.estimators.ranker import RankerEstimator
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrationModel

KIND = "model"


def check(config: Train) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    config.data.check()
    if config.calibration:
        config.calibration.data.check()
    estimator = _estimator(config)
    estimator.check()
    if estimator.selects:
        check_packages()
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Train) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    estimator = _estimator(config)
    with (
        config.data.read(spark) as rows,
        publication(config.output.path, config.output.replace, KIND) as version,
    ):
        model = estimator.fit(rows)
        model.save(f"{version.uri}/model")
        if config.calibration:
            calibration = _calibrated(spark, model, config.calibration)
            calibration.save(f"{version.uri}/{CALIBRATION}")
        summary = model.summary.as_dict() | {"threshold": model.threshold}
        version.write_json("summary.json", summary)
        if selection := model.summary.selection:
            version.write_json("selection.json", selection)
            version.write("selection.png", png(penalties(selection)))
        version.write_json("config.json", config.model_dump(mode="json"))
        if model.moments is not None:
            version.write("moments.parquet", _moments_table(model.moments))
    return {
        "model": config.output.path,
        "features": model.numFeatures,
        "nonzeros": summary["nonzeros"],
        "regParam": summary["reg_param"],
        "elasticNetParam": summary["elastic_net_param"],
        "estimator": summary["estimator"],
        "numPairs": summary["pairs"],
        "estimatedAUC": summary["estimated_auc"],
        "rows": summary["rows"],
        "certificate": summary["certificate"],
        "phases": summary["seconds"],
    }


def _estimator(config: Train) -> RankerEstimator:
    """The estimator of the method, or of select, with the values that the configuration sets."""
    columns = config.columns
    named: dict[str, Any] = {
        "featuresCol": columns.features,
        "numFeatures": columns.numFeatures,
        "labelCol": columns.label,
        "positiveLabel": columns.positiveLabel,
        "weightCol": columns.weight,
        "keyCol": columns.key,
        "foldCol": columns.fold,
        "keepMoments": config.saveMoments or None,
    }
    named = {name: value for name, value in named.items() if value is not None}
    training = config.training.model_dump(exclude_unset=True)
    select = config.select.model_dump(exclude_unset=True) if config.select else {}
    made = estimator_class("MBASelector" if config.select else config.method)
    return made(**named, **training, **select)


def _calibrated(
    spark: SparkSession, model: LinearRankerModel, calibration: Calibration
) -> ScoreCalibrationModel:
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrator

    calibrator = ScoreCalibrator(
        rawPredictionCol=model.getRawPredictionCol(),
        labelCol=model.getLabelCol(),
        positiveLabel=model.scorer.positive,
        weightCol=model.values()["weightCol"],
        **calibration.model_dump(exclude={"data"}),
    )
    with calibration.data.read(spark) as rows:
        scored = model.transform(rows).cache()
        try:
            return calibrator.fit(scored)
        finally:
            scored.unpersist()


def _moments_table(moments: PairMoments) -> bytes:
    names, tiles = zip(*moments.parts(), strict=True)
    table = pa.table({"tile": list(names), "moments": [t.to_bytes() for t in tiles]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
