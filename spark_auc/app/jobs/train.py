"""Train a linear ranker for AUC, and publish it.

Section ``train`` of the configuration: data (parquet, csv, libsvm, any Spark format, or a
table), columns, features (a recipe of raw columns), embeddings, learner (an estimator,
MBAClassifier by default), training (its Params), select (a grid of penalties for cross-validation),
method (auto: a choice among models of the blocks of features, in place of these three), prior (a
published model as the centre of the penalty), calibration, holdout (rows to evaluate on), output,
and moments: those of a store or of published models, with or without new rows in data.
Publishes ``model`` (loaded by ``RankerPipelineModel.load``), ``config.json`` and ``summary.json``;
``recipe.json`` with features, ``moments.parquet`` if saveMoments is true, ``selection.json`` and
``selection.png`` if the penalty was selected, ``method.json`` if the model was chosen among
several, and the files of the job ``evaluate`` if rows are held out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.app.config.jobs import Calibration, Measures, Train
from spark_auc.app.config.training import estimator_class
from spark_auc.app.jobs.evaluation import drift_of_evaluated, evaluation, write_evaluation
from spark_auc.app.jobs.parts import halves
from spark_auc.app.jobs.published_model import KIND, check_model, set_prior, write_model
from spark_auc.app.jobs.raw_rows import embeddings_of, recipe_of
from spark_auc.app.report.penalties import penalties
from spark_auc.app.report.pictures import check_packages, drawable, png
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from spark_auc.core.evaluation.groups import Groups
    from spark_auc.core.moments.pair_moments import PairMoments
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.spark.estimators.ranker import RankerEstimator
    from spark_auc.spark.features.recipe import FeatureRecipe
    from spark_auc.spark.features.recipe_model import FeatureRecipeModel
    from spark_auc.spark.method_choice import MethodChooser
    from spark_auc.spark.pipeline import RankerPipeline
    from spark_auc.spark.pipeline_model import RankerPipelineModel
    from spark_auc.tables.table import Table


def check(config: Train) -> None:
    """Check the configuration before Spark starts.

    Raises
    ------
    ConfigError
        A setting, a path or an output location is invalid.
    """
    if config.moments is not None:
        import spark_auc.store  # noqa: F401
    if config.prior:
        if config.embeddings:
            raise ConfigError(
                f"found train.prior with {len(config.embeddings)} embeddings, expected none: "
                "features of two embeddings do not correspond; leave out one of them"
            )
        check_model(config.prior)
    pipeline = _chooser(config) if config.method else _pipeline(config)
    pipeline.check()
    new = _outputs(config)
    if config.data is not None:
        names = config.columns
        holdout = None if config.holdout is None else config.holdout.column
        config.data.check(names.label, names.weight, names.key, names.fold, holdout, new=new)
    if config.calibration:
        config.calibration.data.check(new=new)
    if pipeline.ranker.selects or config.holdout:
        check_packages()
    check_free(config.output.path, config.output.replace)


def run(spark: SparkSession, config: Train) -> dict[str, Any]:
    """Run the job, and return its result for standard output.

    Raises
    ------
    SparkAUCError
        The job failed; nothing is published.
    """
    from spark_auc.spark.data.spark_table import SparkTable

    with ExitStack() as stack:
        rows = None if config.data is None else stack.enter_context(config.data.read(spark))
        version = stack.enter_context(publication(config.output.path, config.output.replace, KIND))
        train, test = rows, None
        _check_outputs(spark, config, rows)
        if rows is not None:
            train, test = halves(rows, config.holdout, config.columns.label)
        model, others = _fitted(config, train)
        if config.calibration:
            model = _calibrated(spark, model, config.calibration)
        evaluated = {}
        written = write_all(version, model, config, others)
        if test is not None:
            data, segments = rows_told(config), model.ranker.segments
            # A group for each ranker: the column can have many more values.
            measures = Measures(groupCol=None if segments is None else segments.column)
            result, groups = evaluation(model, test, measures, config.output.path, data, segments)
            evaluated = write_measures(
                version, model, config, result, groups, SparkTable(test) if config.drift else None
            )
    return written | evaluated


def write_all(
    version: Directory,
    model: RankerPipelineModel | PipelineModel,
    config: Train,
    others: Mapping[str, Any],
) -> dict[str, Any]:
    """Write a model with how it was chosen, and return the job's result.

    Parameters
    ----------
    version
        Directory of the files.
    model
        The model.
    config
        The section.
    others
        Further values of the summary and of the result.
    """
    summary = write_model(version, model, config, **others)
    selection = model.ranker.summary.selection
    if selection:
        version.write_json("selection.json", selection)
        if drawable():
            version.write("selection.png", png(penalties(selection)))
        if methods := selection.get("methods"):
            version.write_json("method.json", methods)
    if model.ranker.moments is not None:
        version.write("moments.parquet", _moments_table(model.ranker.moments))
    chosen, methods = (selection or {}).get("numKnots"), (selection or {}).get("methods")
    return {
        "model": config.output.path,
        **({"numKnots": chosen["candidates"][chosen["chosen"]]["numKnots"]} if chosen else {}),
        **({"method": methods["candidates"][methods["chosen"]]["name"]} if methods else {}),
        "features": model.ranker.numFeatures,
        "nonzeros": summary["nonzeros"],
        "regParam": summary["reg_param"],
        "elasticNetParam": summary["elastic_net_param"],
        "estimator": summary["estimator"],
        "numPairs": summary["pairs"],
        "estimatedAUC": summary["estimated_auc"],
        "rows": summary["rows"],
        "certificate": summary["certificate"],
        **({"prior": summary["prior"]} if "prior" in summary else {}),
        **({"maxFPR": summary["max_fpr"]} if "max_fpr" in summary else {}),
        "phases": summary["seconds"],
        **others,
    }


def _outputs(config: Train) -> dict[str, str | None]:
    """Names of the columns that the model adds to rows, by their keys."""
    outputs = estimator_of(config).outputs()
    named: dict[str, str | None] = {f"train.training.{p.name}": n for p, n in outputs.items()}
    if config.calibration:
        named["train.calibration.probabilityCol"] = config.calibration.probabilityCol
    return named


def _check_outputs(spark: SparkSession, config: Train, rows: DataFrame | None) -> None:
    """`ConfigError`, before any fit, if rows have columns that the model adds."""
    from spark_auc.spark.data.names import check_new

    if rows is not None:
        check_new(rows, _outputs(config))
    if config.calibration:
        with config.calibration.data.read(spark) as others:
            check_new(others, _outputs(config))


def _fitted(config: Train, rows: DataFrame | None) -> tuple[RankerPipelineModel, dict[str, Any]]:
    """The model of the rows and of the moments, and what the moments are of."""
    if config.moments is None:
        assert rows is not None
        if config.method:
            return _chooser(config).fit(rows), {}
        pipeline = _pipeline(config)
        set_prior(pipeline.ranker, config.prior)
        return pipeline.fit(rows), {}
    # The package deltalake is optional: a training on rows runs without it.
    from spark_auc.app.jobs.train_moments import trained_on_moments
    from spark_auc.spark.estimators.pair_moments_estimator import PairMomentsEstimator

    estimator = estimator_of(config)
    assert isinstance(estimator, PairMomentsEstimator)
    set_prior(estimator, config.prior)
    model, told = trained_on_moments(config, estimator, rows)
    return model, {"moments": told}


def _pipeline(config: Train) -> RankerPipeline:
    """The stages that the configuration names, with the values that it sets."""
    from spark_auc.spark.pipeline import RankerPipeline

    return RankerPipeline(
        [
            *_recipe(config),
            *embeddings_of(config.embeddings, config.columns),
            estimator_of(config),
        ]
    )


def _chooser(config: Train) -> MethodChooser:
    """The choice among models of the features that the configuration names."""
    from spark_auc.pipeline.method_fit import ADDED
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.spark.method_choice import MethodChooser

    (recipe,), ranker = _recipe(config), estimator_of(config)
    assert isinstance(ranker, MBAClassifier)
    assert config.features is not None
    # A key that is set to null declines what the choice would add.
    declined = config.features.model_fields_set
    return MethodChooser(recipe, ranker, [name for name in ADDED if name not in declined])


def _recipe(config: Train) -> list[FeatureRecipe | FeatureRecipeModel]:
    """The recipe of the raw columns, if there is one."""
    holdout = config.holdout
    keys = [holdout.column] if holdout and holdout.by == "key" and holdout.column else []
    return [recipe_of(config.features, keys)] if config.features else []


def estimator_of(config: Train) -> RankerEstimator:
    """The estimator of the learner, or of select, with the values that the configuration sets."""
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
        # A location, for checks without Spark; `set_prior` reads the model.
        "prior": config.prior,
    }
    named = {name: value for name, value in named.items() if value is not None}
    kind = estimator_class("learner", "MBASelector" if config.select else config.learner)
    training = config.training.model_dump(exclude_unset=True)
    select = config.select.model_dump(exclude_unset=True) if config.select else {}
    made: RankerEstimator = kind(**named, **training, **select)
    return made


def _calibrated(
    spark: SparkSession, model: RankerPipelineModel, calibration: Calibration
) -> RankerPipelineModel:
    from spark_auc.spark.evaluation.calibrate import ScoreCalibrator

    ranker = model.ranker
    calibrator = ScoreCalibrator(
        rawPredictionCol=ranker.getRawPredictionCol(),
        labelCol=ranker.getLabelCol(),
        positiveLabel=ranker.scorer.positive,
        weightCol=ranker.values()["weightCol"],
        **calibration.model_dump(exclude={"data"}),
    )
    with calibration.data.read(spark) as rows:
        scored = model.transform(rows).cache()
        try:
            return model.calibrated(calibrator.fit(scored))
        finally:
            scored.unpersist()


def rows_told(config: Train) -> dict[str, Any]:
    """The keys of the source of the held-out rows, for the report."""
    told = config.model_dump(mode="json", include={"data", "holdout"}, exclude_none=True)
    source: dict[str, Any] = told["data"] | {"holdout": told["holdout"]}
    return source


def write_measures(
    version: Directory,
    model: RankerPipelineModel | PipelineModel,
    config: Train,
    result: dict[str, Any],
    groups: Groups | None,
    test: Table | None,
) -> dict[str, Any]:
    """Write the evaluation of held-out rows, and return the keys of the job's result.

    Parameters
    ----------
    version
        Directory of the files.
    model
        The model.
    config
        The section.
    result, groups
        The content of ``evaluation.json``, and AUC by group.
    test
        The rows, whose drift is counted; None for no drift.
    """
    drift = {} if test is None else drift_of_evaluated(model, test)
    report = write_evaluation(
        version,
        result | drift,
        model.ranker.scorer.w,
        model.recipe,
        groups=groups,
        embedded=bool(model.embeddings),
    )
    return {"auc": result["auc"], "interval": result["interval"], "report": report, **drift}


def _moments_table(moments: PairMoments) -> bytes:
    names, tiles = zip(*moments.parts(), strict=True)
    table = pa.table({"tile": list(names), "moments": [t.to_bytes() for t in tiles]})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="zstd")
    return bytes(sink.getvalue())
