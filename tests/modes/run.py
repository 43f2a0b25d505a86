"""Everything that one mode is asked to do; in a process of its own, the results as JSON.

python run.py MODE DATA RESULT, or by spark-submit. MODE: connect or cluster.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F

import spark_auc
from spark_auc import (
    FeatureRecipe,
    FeatureRecipeModel,
    LinearRankerModel,
    MBAClassifier,
    MBASelector,
    RankerPipeline,
    RankerPipelineModel,
    ScoreCalibrator,
    SOLAMClassifier,
    compare,
    evaluate,
)
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.names import quoted
from spark_auc.spark.data.session import session
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.layouts import layout_of

DATASETS = {
    "sparse": {"elasticNetParam": 0.5, "regParam": 0.1},
    "dense": {"weightCol": "weight", "regParam": 0.01},
}
PARTS = ("indices", "values")
OF_PARTS = {"indices": pa.list_(pa.int32()), "values": pa.list_(pa.float64())}
# Settings under which rows stay the same. The default number of rows in a batch is 10,000.
SESSION = [
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "1"),
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "7"),
    ("spark.sql.session.timeZone", "Asia/Kathmandu"),
]
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


def hashed(*arrays):
    """Hashes of the bytes of arrays."""
    return [hashlib.sha256(array.tobytes()).hexdigest() for array in arrays]


def vectors(df):
    """Hashes of indptr, indices and values of the rows, and of their scores."""
    rows = df.select(*(name for name in ("id", "features", "rawPrediction") if name in df.columns))
    rows = rows.collect()
    if "id" in df.columns:
        rows.sort(key=lambda row: row.id)
    indptr = np.cumsum([0, *(row.features.indices.size for row in rows)])
    indices, values = (np.concatenate([getattr(row.features, n) for row in rows]) for n in PARTS)
    made = hashed(indptr, indices, values)
    if "rawPrediction" in df.columns:
        made += hashed(np.array([row.rawPrediction for row in rows]))
    return made


def by_tasks(df, recipe, direct):
    """The same of rows that tasks map while they read them, by Arrow or from Spark."""
    table = SparkTable(df)
    features = FeatureRecipeModel(recipe).input_features(table)
    selected = table.select([*features.columns, "id"])
    # Tasks that read files are told the numbers of parts.
    assert (selected.frame.columns == ["id"]) == direct

    def rows(batches):
        for batch in batches:
            X = features.decode(batch.columns[:-1])
            ends = pa.array(X.indptr)
            parts = [pa.ListArray.from_arrays(ends, part) for part in (X.indices, X.data)]
            yield pa.record_batch([batch.column(-1), *parts], ["id", *PARTS])

    made = selected.map(rows, pa.schema({"id": pa.int64(), **OF_PARTS})).gathered()
    made = made.sort_by("id").combine_chunks()
    lists = [made[name].chunk(0) for name in PARTS]
    indptr = np.append(0, np.cumsum(lists[0].value_lengths().to_numpy()))
    return hashed(indptr, *(part.flatten().to_numpy() for part in lists))


def streamed(model, pipeline, spark, data, place):
    """What a stream of the table's files writes."""
    schema = spark.read.parquet(f"{data}/raw/table").schema
    arriving = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    rows = model.transform(pipeline.transform(arriving.parquet(f"{data}/raw/table")))
    writer = rows.select("id", "features", "rawPrediction").writeStream.format("parquet")
    writer = writer.option("checkpointLocation", f"{place}/log").trigger(availableNow=True)
    writer.start(f"{place}/rows").awaitTermination()
    return vectors(spark.read.parquet(f"{place}/rows"))


def of_table(spark, name, recipe, data, place):
    """The table, and its rows and their scores by each way to them."""
    df, other = spark.read.parquet(f"{data}/raw/table"), F.lit("other")
    pipeline = RankerPipelineModel.load(f"{data}/raw/{name}")
    model = FeatureRecipeModel(from_json(to_json(recipe)))

    def rows(df, model=model):
        return vectors(model.transform(pipeline.transform(df)))

    made = {"plain": rows(df)}
    if name == "stored":
        made["tasks of Arrow"] = by_tasks(df, recipe, direct=True)
        made["tasks of Spark"] = by_tasks(df.where("id >= 0"), recipe, direct=False)
    if name == "mixed":
        for key, value in SESSION:
            before = spark.conf.get(key)
            spark.conf.set(key, value)
            made[value] = rows(spark.read.parquet(f"{data}/raw/table"))
            spark.conf.set(key, before)
        made["saved"] = rows(df, saved(FeatureRecipeModel(pipeline.recipe), f"{place}/model"))
        permuted = [F.col(quoted(column)) for column in reversed(df.columns)]
        more = df.select(other.alias("more"), *permuted, other.alias("a.b"))
        made["other columns"] = rows(more.drop("label").repartition(4))
        made["stream"] = streamed(model, pipeline, spark, data, f"{place}/stream")
    return df, made


def of_lines(spark, name, recipe, options, data):
    """The rows of text, and their vectors: from files, from Spark, and from a table."""
    layout = layout_of(name, options)
    lines = layout_rows(spark, f"{data}/raw/{name}.txt", layout)
    table = spark.read.parquet(f"{data}/raw/{name}").select(*reversed(layout.names))
    frames = {"lines": lines, "lines of Spark": lines.where("true or rand() > 2"), "table": table}
    model = FeatureRecipeModel(recipe)
    return lines, {way: vectors(model.transform(df).drop("id")) for way, df in frames.items()}


def recipes(spark, data, place):
    """Recipes that are fitted, and what they make of rows."""
    made = {}
    for name, stored in json.loads(Path(data, "raw", "recipes.json").read_text()).items():
        recipe, estimator = from_json(stored["recipe"]), FeatureRecipe(**stored["settings"])
        if "options" in stored:
            rows, ways = of_lines(spark, name, recipe, stored["options"], data)
        else:
            rows, ways = of_table(spark, name, recipe, data, f"{place}/{name}")
        fitted = estimator.fit(rows if name == "stored" else rows.repartition(5)).recipe
        made[name] = {"ways": ways, "fitted": to_json(fitted)}
        if name == "stored":
            ranker = MBAClassifier(regParam=0.01, standardization=False)
            trained = RankerPipeline([estimator, ranker]).fit(rows)
            made[name]["weights"] = trained.ranker.scorer.w.tolist()
    return made


def found(spark, mode, data, place):
    """All that the mode is asked for."""
    made = {"origins": origins(spark), "session": type(spark).__module__}
    for name, params in DATASETS.items():
        rows = spark.read.parquet(f"{data}/{name}")
        model, made[name] = trained(rows, params)
        _, made[f"{name} again"] = trained(rows, params)
    made["measures"] = measures(model, rows)
    made["recipes"] = recipes(spark, data, place)
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
