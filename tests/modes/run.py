"""Everything that one mode is asked to do; in a process of its own, the results as JSON.

python run.py MODE DATA RESULT, or by spark-submit. MODE: connect or cluster.
"""

import json
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F

import spark_auc
from spark_auc import (
    LinearRankerModel,
    MBAClassifier,
    MBASelector,
    ScoreCalibrator,
    SOLAMClassifier,
    compare,
    evaluate,
)
from spark_auc.spark.data.session import session

DATASETS = {
    "sparse": {"elasticNetParam": 0.5, "regParam": 0.1},
    "dense": {"weightCol": "weight", "regParam": 0.01},
}
CONNECT = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}


def trained(rows, params):
    """Scores of all rows in order, and what the model says of its training."""
    model = MBAClassifier(**params).fit(rows)
    return model, {
        "scores": scores(model, rows),
        "rows": model.summary.rows,
        "positiveWeight": model.summary.positive_weight,
        "negativeWeight": model.summary.negative_weight,
        "nonzeros": model.summary.nonzeros,
    }


def scores(model, rows):
    """Key, score and prediction of each row, in order of the key."""
    scored = model.transform(rows).select("id", "rawPrediction", "prediction").collect()
    return sorted(map(list, scored))


def values(stage):
    """Class, name and all Params."""
    return (
        type(stage),
        stage.uid,
        {param.name: value for param, value in stage.extractParamMap().items()},
    )


def saved(instance, path):
    """What is loaded after saving, failing to save there again, and overwriting."""
    instance.save(path)
    try:
        instance.save(path)
    except Exception:
        instance.write().overwrite().save(path)
        return type(instance).load(path)
    raise AssertionError(f"{type(instance).__name__}.save() replaced what was at {path}")


def sampled(rows):
    """What training on draws and choosing a penalty find."""
    drawn = {
        estimator: MBAClassifier(
            regParam=0.1, estimator=estimator, numPairs=512, seed=3, keyCol="id"
        ).fit(rows)
        for estimator in ("complete", "paired")
    }
    learned = SOLAMClassifier(orderCol="id").fit(rows)
    chosen = MBASelector(regParams=[0.01, 1.0], elasticNetParams=[0.0, 0.5]).fit(rows).summary
    return {
        "weights": {name: list(m.scorer.w) for name, m in (drawn | {"solam": learned}).items()},
        "cost": drawn["complete"].summary.sampling_suboptimality,
        "chosen": [chosen.reg_param, chosen.elastic_net_param],
        "selection": [candidate["auc"] for candidate in chosen.selection["candidates"]],
    }


def measures(model, rows):
    """What evaluation, comparison and calibration find."""
    scored = model.transform(rows).withColumn("other", F.expr("rawPrediction + id % 7"))
    scored = scored.withColumn("group", F.expr("id % 3"))
    paired = compare(scored, ["rawPrediction", "other"])
    return {
        "report": evaluate(scored, groupCol="group").as_dict(),
        "histogram": evaluate(scored, exact=False, maxBins=32).as_dict(),
        "difference": paired.difference("rawPrediction", "other"),
        "curve": vars(ScoreCalibrator().fit(scored.cache()).curve),
    }


def persistence(model, rows, params, place):
    """Whether all that can be saved comes back as it was."""
    assembler = VectorAssembler(inputCols=["weight", "vector"], outputCol="all")
    estimator = MBAClassifier(**params, featuresCol="all")
    pipeline = Pipeline(stages=[assembler, estimator])
    fitted = pipeline.fit(rows)

    model_again = saved(model, f"{place}/model")
    estimator_again = saved(estimator, f"{place}/estimator")
    pipeline_again = saved(pipeline, f"{place}/pipeline")
    fitted_again = saved(fitted, f"{place}/fitted")
    return {
        "model": scores(model_again, rows) == scores(model, rows)
        and model_again.summary == model.summary
        and values(model_again) == values(model),
        "estimator": values(estimator_again) == values(estimator),
        "pipeline": [*map(values, pipeline_again.getStages())]
        == [*map(values, [assembler, estimator])],
        "pipelineModel": scores(fitted_again, rows) == scores(fitted, rows),
    }


def tuning(rows, params):
    """Metrics of the candidates by Spark ML's two tuners."""
    estimator = MBAClassifier(**params)
    grid = ParamGridBuilder().addGrid(estimator.regParam, [0.01, 10.0]).build()
    common = {
        "estimator": estimator,
        "estimatorParamMaps": grid,
        "evaluator": BinaryClassificationEvaluator(weightCol="weight"),
        "seed": 1,
    }
    folds = CrossValidator(**common, numFolds=2).fit(rows)
    part = TrainValidationSplit(**common).fit(rows)
    for best in (folds.bestModel, part.bestModel):
        assert isinstance(best, LinearRankerModel)
    return {"folds": list(folds.avgMetrics), "part": list(part.validationMetrics)}


def origins(spark):
    """Where the driver and each executor import the package from."""

    def imported(batches):
        import spark_auc

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"file": [str(spark_auc.__file__)]})

    found = spark.range(8, numPartitions=4).mapInArrow(imported, "file string").collect()
    return sorted({str(spark_auc.__file__)} | {row.file for row in found})


def found(spark, mode, data, place):
    """All that the mode is asked for."""
    made = {"origins": origins(spark), "session": type(spark).__module__}
    for name, params in DATASETS.items():
        rows = spark.read.parquet(f"{data}/{name}")
        model, made[name] = trained(rows, params)
        _, made[f"{name} again"] = trained(rows, params)
    made["measures"] = measures(model, rows)
    made["sampled"] = sampled(spark.read.parquet(f"{data}/sparse"))
    if mode != "cluster":
        # One file, one task a stage: what is asked here does not depend on the number of rows.
        few = spark.read.parquet(f"{data}/dense/0.parquet")
        made["persistence"] = persistence(model, few, params, place)
        made["tuning"] = tuning(few, params)
    return made


def main(mode, data, result):
    remote = {"conf": CONNECT, "remote": "local[2]"} if mode == "connect" else {}
    with session(f"modes {mode}", **remote) as spark:
        made = found(spark, mode, data, Path(result).parent / mode)
    Path(result).write_text(json.dumps(made))


if __name__ == "__main__":
    main(*sys.argv[1:])
