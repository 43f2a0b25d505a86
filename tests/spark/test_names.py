"""Names of columns as Spark compares them, in inputs and in outputs."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    MBASelector,
    RankerPipeline,
    ScoreCalibrator,
    SplineBasis,
    compare,
    evaluate,
    train,
    with_contributions,
)
from spark_auc.app.config.sources import Source
from spark_auc.errors import ConfigError
from spark_auc.spark.data.names import check_new, known_column
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.names import folded, free_names
from spark_auc.tables.table import own_names

CASE = "spark.sql.caseSensitive"
N = 300
rng = np.random.default_rng(0)
TABLE = pd.DataFrame({"x": rng.normal(size=N), "kind": rng.choice(["a", "b"], N)})
TABLE["label"] = (TABLE.x + rng.normal(size=N) > 1).astype(float)
TABLE["id"] = np.arange(N) // 3
TABLE["u"] = rng.integers(1, 4, N).astype(float)
OUTPUTS = ["rawPrediction", "prediction", "probability"]


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(TABLE).cache()


@pytest.fixture(scope="module")
def model(rows):
    return MBAClassifier(featuresCol=["x"], regParam=0.1).fit(rows)


@pytest.fixture(scope="module")
def pipeline(rows):
    recipe = FeatureRecipe(auto=False, spline=["x"], tokens=["kind"])
    made = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    return made.calibrated(ScoreCalibrator().fit(made.transform(rows)))


@pytest.fixture
def case_sensitive(spark):
    spark.conf.set(CASE, "true")
    yield
    spark.conf.unset(CASE)


@pytest.mark.parametrize("name", ["Prediction", "RAWPREDICTION", "prediction"])
def test_no_column_of_the_user_is_replaced(model, rows, name):
    taken = rows.withColumn(name, F.lit("my own text"))
    with pytest.raises(ConfigError, match=f"found column '{name}' in the data already"):
        model.transform(taken)
    with pytest.raises(ConfigError, match=f"found column '{name}' in the data already"):
        MBAClassifier(featuresCol=["x"], regParam=0.1).fit(taken)
    renamed = model.copy({model.predictionCol: "p", model.rawPredictionCol: "s"})
    made = renamed.transform(taken)
    assert made.columns == [*taken.columns, "s", "p"]
    assert made.filter(F.col(name) == "my own text").count() == N
    assert model.evaluate(taken).auc == model.evaluate(rows).auc


def test_names_of_one_spelling_more_in_a_session_that_tells_them_apart(case_sensitive, model, rows):
    taken = rows.withColumn("Prediction", F.lit("my own text")).withColumn("X", F.lit(0.0))
    made = model.transform(taken)
    assert made.columns == [*taken.columns, "rawPrediction", "prediction"]
    assert made.filter("Prediction = 'my own text'").count() == N
    other = MBAClassifier(featuresCol=["x", "X"], regParam=0.1).fit(taken)
    assert other.coefficients[0] == pytest.approx(model.coefficients[0], rel=1e-9)
    with pytest.raises(ConfigError, match="found no column 'Label'"):
        MBAClassifier(featuresCol=["x"], labelCol="Label", regParam=0.1).fit(rows)


@pytest.mark.slow
def test_probabilities_and_other_outputs(pipeline, rows):
    for name in OUTPUTS:
        taken = rows.withColumn(name.upper(), F.lit(1.0))
        with pytest.raises(ConfigError, match=f"set {name}Col to another name"):
            pipeline.transform(taken)
        assert pipeline.evaluate(taken).auc == pipeline.evaluate(rows).auc
    made = pipeline.copy(
        {
            pipeline.ranker.rawPredictionCol: "s",
            pipeline.ranker.predictionCol: "p",
            pipeline.calibration.probabilityCol: "q",
        }
    )
    taken = rows.select("*", *(F.lit("mine").alias(name) for name in OUTPUTS))
    scored = made.transform(taken)
    assert scored.columns == [*taken.columns, "s", "p", "q"]
    expected = pipeline.transform(rows).orderBy("x").select(OUTPUTS).toPandas()
    found = scored.orderBy("x").select("s", "p", "q").toPandas()
    np.testing.assert_array_equal(found, expected)
    for stage in (SplineBasis(inputCol=["x"]), FeatureRecipe()):
        stage.setOutputCol("KIND")
        with pytest.raises(ConfigError, match="found column 'kind' in the data already"):
            stage.fit(rows)
    with pytest.raises(ConfigError, match="found column 'Contributions' in the data already"):
        with_contributions(pipeline, rows.withColumn("Contributions", F.lit(1)))
    explained = with_contributions(pipeline, rows, contributionsCol="why")
    assert explained.columns == [*rows.columns, *OUTPUTS, "why"]
    calibrator = ScoreCalibrator(rawPredictionCol="x", probabilityCol="X")
    with pytest.raises(ConfigError, match="found column 'x' in the data already"):
        calibrator.fit(rows)
    with pytest.raises(ConfigError, match="found rawPredictionCol 'S' and predictionCol 's'"):
        MBAClassifier(featuresCol=["x"], rawPredictionCol="S", predictionCol="s").fit(rows)


def test_inputs_of_another_case(model, pipeline, rows):
    """A table of Hive has lower case only, whatever the training data had."""
    loud = rows.toDF(*map(str.upper, rows.columns))
    for each in (model, pipeline):
        expected = each.transform(rows).orderBy("x").toPandas()
        found = each.transform(loud).orderBy("X").toPandas()
        np.testing.assert_array_equal(found.to_numpy(), expected.to_numpy())
    assert evaluate(loud, scoreCol="x", labelCol="label", weightCol="u", groupCol="kind").auc
    assert compare(loud, ["x", "u"]).paired.auc[0] == evaluate(rows, scoreCol="x").auc
    names = {"labelCol": "label", "weightCol": "u", "keyCol": "id"}
    other = {name: column.upper() for name, column in names.items()}
    own, direct = (
        MBASelector(featuresCol=[x], regParams=[0.1, 1.0], numFolds=2, **columns).fit(rows)
        for x, columns in (("x", names), ("X", other))
    )
    assert direct.coefficients == own.coefficients
    recipe = FeatureRecipe(
        spline=["X", "U"],
        tokens=["Kind", "ID"],
        leaveOut=["LABEL"],
        crosses=[["Id", "KIND"]],
        pairs=[["X", "u"]],
        dimension=64,
        crossBits=6,
    )
    made = RankerPipeline([recipe, MBAClassifier(labelCol="LABEL", regParam=0.1)]).fit(rows).recipe
    assert {column.name for column in made.columns} == {"x", "u", "kind", "id"}


def test_files_that_tasks_read(rows, tmp_path):
    """Tasks find the columns of files, and drift knows them, by names of another case."""
    rows.coalesce(1).write.parquet(str(tmp_path / "rows"))
    files = rows.sparkSession.read.parquet(str(tmp_path / "rows"))

    def fitted(change):
        recipe = FeatureRecipe(spline=[change("x")], tokens=[change("kind")], auto=False)
        ranker = MBAClassifier(labelCol=change("label"), weightCol=change("u"), regParam=0.1)
        return RankerPipeline([recipe, ranker]).fit(files)

    plain, loud = fitted(str), fitted(str.upper)
    assert loud.ranker.coefficients == plain.ranker.coefficients
    renamed = files.toDF(*map(str.upper, files.columns))
    drift = plain.stages[0].drift_of(renamed)
    assert (drift.absent.size, sorted(drift.unknown)) == (0, ["ID", "LABEL", "U"])


def test_twins_are_one_sentence(rows):
    twins = rows.withColumn("y", F.col("x")).toDF(*rows.columns, "X")
    said = r"found 2 columns 'x', 'X' for the name 'x', expected one"
    with pytest.raises(ConfigError, match=said):
        MBAClassifier(featuresCol=["x", "X"], regParam=0.1).fit(twins)
    with pytest.raises(ConfigError, match=said):
        FeatureRecipe().fit(twins)
    with pytest.raises(ConfigError, match=rf"{said}.*set spark.sql.caseSensitive"):
        evaluate(twins, scoreCol="x")
    # Columns that are not read may have twins.
    other = MBAClassifier(featuresCol=["u"], regParam=0.1).fit(twins)
    assert other.transform(twins).columns == [*twins.columns, "rawPrediction", "prediction"]
    assert FeatureRecipe(leaveOut=["x"], outputCol="made").fit(twins).recipe.size
    joined = rows.join(rows.select("x", F.col("label")), "x")
    said = "found 2 columns 'label', 'label' for the name 'label', expected one"
    with pytest.raises(ConfigError, match=said) as raised:
        evaluate(joined, scoreCol="x")
    assert "caseSensitive" not in str(raised.value)
    with pytest.raises(ConfigError, match=said):
        MBAClassifier(featuresCol=["x"], regParam=0.1).fit(joined)


def test_files_of_twins_are_told_apart_while_they_are_read(spark, tmp_path):
    place = str(tmp_path / "rows.parquet")
    pq.write_table(pa.table({"x": [1, 2], "X": ["a", "b"], "y": [0, 1]}), place)
    with Source(path=place, where="X = 'b'").read(spark) as rows:
        assert [*map(tuple, rows.collect())] == [(2, "b", 1)]
        assert known_column(rows, "X").dataType.simpleString() == "string"
        with pytest.raises(ConfigError, match="no column 'Y'"):
            known_column(rows, "Y")
    assert spark.conf.get(CASE) == "false"
    pq.write_table(pa.table({"x": [1, 2], "y": [0, 1]}), place)
    with Source(path=place).read(spark) as rows:
        assert known_column(rows, "Y").name == "y"


def test_fields_of_structs_beside_columns_of_one_name(rows):
    nested = rows.select(F.struct("x", F.struct("u").alias("In")).alias("s"), "label", "id")
    model = MBAClassifier(featuresCol=["s.x", "S.in.U"], regParam=0.1).fit(nested)
    right = nested.select("id").distinct().alias("r")
    joined = nested.alias("l").join(right, F.col("l.id") == F.col("r.id"))
    made = model.transform(joined)
    assert made.columns == [*joined.columns, "rawPrediction", "prediction"]
    assert made.select("s", "rawPrediction").distinct().count() == N
    twice = nested.select("*", F.col("s").alias("S"))
    with pytest.raises(ConfigError, match="found 2 columns 's', 'S' for the name"):
        model.transform(twice)


def test_names_are_compared_as_spark_does(spark):
    """Spark itself says which names are one: it replaces the column of `withColumn`."""
    pairs = [("a b", "A B"), ("straße", "STRASSE"), ("ß", "ẞ"), ("Ä", "ä"), ("\u0131", "i")]
    pairs += [("İ", "i"), ("Σ", "ς"), ("K", "k"), ("\u0149", "\u02bcN"), ("a", "b"), ("x.y", "X.Y")]
    pairs += [("\u017f", "S")]
    for first, second in pairs:
        one = spark.range(1).select(F.lit(1).alias(first))
        is_same = len(one.withColumn(second, F.lit(2)).columns) == 1
        assert (folded(first) == folded(second)) == is_same, (first, second)


def test_names_that_are_free(rows):
    assert free_names(rows.columns, {"a": "new", "b": "X", "c": "x", "d": ""}) == {
        "a": "new",
        "b": "X_",
        "c": "x__",
        "d": "",
    }
    assert own_names(SparkTable(rows), ["X", ["KIND", "none"]]) == ["x", ["kind", "none"]]
    assert known_column(rows, "LABEL").name == "label"
    check_new(rows, {"a": "new", "b": ""})


def test_fields_of_structs_of_a_frame_are_columns_in_one_call(spark):
    """Also of a struct with a field of a type that Arrow does not have."""
    made = spark.range(400).select(
        F.struct(
            (F.col("id") % 7).alias("a"), F.expr("make_ym_interval(1, 2)").alias("span")
        ).alias("s"),
        (F.col("id") % 5).alias("b"),
        (F.col("id") % 7 > 3).alias("label"),
    )
    settings = {"numKnots": 4}
    trained = train(made, "label", features=settings)
    assert sorted(trained.ranker.columns) == ["b", "s.a"]
    assert trained.evaluation.auc > 0.9
    assert trained.score({"s": {"a": 6}, "b": 1}) > trained.score({"s": {"a": 1}, "b": 1})
    without = train(made, "label", features=settings | {"leaveOut": ["s"]})
    assert without.ranker.columns == ("b",)
