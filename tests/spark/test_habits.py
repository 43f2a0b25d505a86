"""What users of Spark ML expect of a stage."""

import math
import pickle
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.classification import OneVsRest
from pyspark.ml.evaluation import BinaryClassificationEvaluator
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.functions import array_to_vector
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, DoubleType

import spark_auc
from spark_auc import (
    AUCEvaluator,
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    RankerPipeline,
    RankerPipelineModel,
    ScoreCalibrator,
    SOLAMClassifier,
    SplineBasis,
    compare,
    evaluate,
)
from spark_auc.errors import ConfigError, DataError
from spark_auc.spark.contributions import with_contributions

pytestmark = pytest.mark.slow

N = 600
rng = np.random.default_rng(8)
TABLE = pd.DataFrame({"a": rng.normal(size=N), "b": rng.integers(-3, 4, N).astype(float)})
TABLE["label"] = (rng.random(N) < 1 / (1 + np.exp(1 - TABLE.a - TABLE.b / 3))).astype(float)
TABLE["id"] = np.arange(N)
COLUMNS = ["a", "b"]


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(TABLE).cache()


@pytest.fixture(scope="module")
def model(rows):
    return MBAClassifier(featuresCol=COLUMNS, regParam=0.1).fit(rows)


@pytest.fixture(scope="module")
def pipeline(rows):
    recipe = FeatureRecipe(spline=["a"], standard=["b"], auto=False)
    made = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
    return made.calibrated(ScoreCalibrator().fit(made.transform(rows)))


def scored(model, rows, *columns):
    return model.transform(rows).orderBy("id").select(*columns).toPandas()


def test_thresholds_that_evaluate_chose_give_its_rates(model, rows):
    """Scores repeat, so that a rule that excludes the threshold has other rates."""
    coarse = model.copy()
    table = rows.withColumn("a", F.round("a"))
    report = coarse.evaluate(table)
    assert report.auc == pytest.approx(evaluate(coarse.transform(table)).auc, abs=0)
    for name, point in report.thresholds.items():
        if math.isinf(point.threshold):
            continue
        coarse.setThreshold(point.threshold)
        found = scored(coarse, table, "label", "prediction", "rawPrediction")
        assert (found.rawPrediction == point.threshold).sum() > 1, name
        positive = found.label == 1
        assert found.prediction[positive].mean() == pytest.approx(point.tpr, rel=1e-12)
        assert found.prediction[~positive].mean() == pytest.approx(point.fpr, rel=1e-12)


def test_threshold_is_a_param(model, rows, tmp_path):
    of_training = model.getThreshold()
    assert of_training == model.scorer.threshold
    above = model.transform(rows, {model.threshold: 1e6})
    assert above.filter("prediction = 1").count() == 0
    assert model.getThreshold() == of_training
    chosen = model.copy().setThreshold(0.25)
    assert "(current: 0.25)" in chosen.explainParam("threshold")
    chosen.save(str(tmp_path / "model"))
    served = spark_auc.load(str(tmp_path / "model"))
    assert LinearRankerModel.load(str(tmp_path / "model")).getThreshold() == 0.25
    assert served.threshold == 0.25
    features = TABLE[COLUMNS].to_numpy()
    np.testing.assert_array_equal(
        served.predict(features), scored(chosen, rows, "prediction").prediction
    )
    predicted = [chosen.predict(Vectors.dense(row)) for row in features[:20]]
    assert predicted == served.predict(features[:20]).tolist()
    assert chosen.setParams(threshold=None).getThreshold() == of_training
    with pytest.raises(ConfigError, match="found threshold inf, expected a finite number"):
        chosen.setThreshold(math.inf)


def test_a_threshold_reaches_the_ranker_of_a_pipeline(pipeline, rows):
    for found in (
        pipeline.transform(rows, {pipeline.ranker.threshold: 1e6}),
        pipeline.copy({pipeline.ranker.threshold: 1e6}).transform(rows),
    ):
        assert found.filter("prediction = 1").count() == 0
    assert pipeline.copy().uid == pipeline.uid
    report = pipeline.evaluate(rows, maxFPR=0.2)
    assert report.asked.max_fpr == 0.2
    assert report.auc == pytest.approx(evaluate(pipeline.transform(rows)).auc, abs=0)


def test_equal_scores_are_all_predicted_negative_where_positives_are_rare(rows):
    few = rows.withColumn("label", (F.col("id") % 10 == 0).cast("double")).withColumn("z", F.lit(0))
    ranker = SOLAMClassifier(featuresCol=["z", "z"]).fit(few)
    assert ranker.transform(few).filter("prediction = 1").count() == 0


def test_vectors_of_two(model, pipeline, rows):
    plain = scored(model, rows, "rawPrediction").rawPrediction
    vectors = model.copy({model.vectorOutput: True})
    found = scored(vectors, rows, "rawPrediction", "prediction")
    raw = np.array([v.toArray() for v in found.rawPrediction])
    np.testing.assert_array_equal(raw, np.column_stack([-plain, plain]))
    np.testing.assert_array_equal(found.prediction, scored(model, rows, "prediction").prediction)
    exact = model.evaluate(rows).auc
    assert vectors.evaluate(rows).auc == exact
    spark_ml = BinaryClassificationEvaluator(numBins=0)
    assert spark_ml.evaluate(vectors.transform(rows)) == pytest.approx(exact, abs=1e-12)

    probability = scored(pipeline, rows, "probability").probability
    # One Param of the pipeline's ranker is enough; that of the calibration is for it alone.
    expected = np.column_stack([1 - probability, probability])
    for stage, kind in ((pipeline.ranker, VectorUDT()), (pipeline.calibration, DoubleType())):
        made = pipeline.transform(rows, {stage.vectorOutput: True}).orderBy("id")
        assert made.schema["rawPrediction"].dataType == kind
        found = made.toPandas().probability
        np.testing.assert_array_equal(np.array([v.toArray() for v in found]), expected)


def test_one_versus_rest(spark):
    """Three classes; the class of a row is that of the largest of three rankers' scores."""
    draw = np.random.default_rng(3)
    kind = draw.integers(0, 3, N)
    X = draw.normal(size=(N, 3)) + 2 * np.eye(3)[kind]
    table = pd.DataFrame(X, columns=["x", "y", "z"]).assign(label=kind.astype(float), id=range(N))
    frame = VectorAssembler(inputCols=["x", "y", "z"], outputCol="features").transform(
        spark.createDataFrame(table)
    )
    ranker = MBAClassifier(regParam=0.1, vectorOutput=True)
    made = OneVsRest(classifier=ranker).fit(frame)
    found = scored(made, frame, "prediction").prediction
    scores = np.column_stack([X @ one.coefficients.toArray() for one in made.models])
    np.testing.assert_array_equal(found, scores.argmax(axis=1))
    assert (found == kind).mean() > 0.8


@pytest.mark.parametrize("form", ["numbers", "array", "indexed", "vector", "recipe", "spline"])
def test_rows_that_cannot_be_scored(spark, model, pipeline, rows, form):
    """'skip' and 'keep' give other rows the scores that they have by themselves."""
    bad = {3: math.nan, 5: math.inf, 9: None}
    numbers = [(i, 0.5, bad[i]) if i in bad else (i, i / 7, i / 3) for i in range(20)]
    frame = spark.createDataFrame(numbers, "id int, a double, b double")
    wrong = set(bad)
    if form == "numbers":
        ranker = made = model.copy()
    elif form == "recipe":
        # Missing values have a feature, and a standardised number cannot be infinite.
        made = pipeline.copy()
        ranker, wrong = made.ranker, {5}
    elif form == "spline":
        recipe = SplineBasis(inputCol=COLUMNS, numKnots=3)
        made = RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows)
        ranker, wrong = made.ranker, set()
    else:
        pair = F.array("a", "b")
        missing = F.col("b").isNull()
        if form == "array":
            # One row has a null element, another no array.
            frame = frame.withColumn("x", F.when(F.col("id") != 11, pair))
        elif form == "indexed":
            frame = frame.withColumn("i", F.array(F.lit(0), F.lit(1))).withColumn("x", pair)
            frame = frame.withColumn("i", F.when(F.col("id") != 11, F.col("i")))
        else:
            filled = F.when(missing, F.array(F.col("a"), F.lit(math.nan))).otherwise(pair)
            frame = frame.withColumn("x", F.when(F.col("id") != 11, array_to_vector(filled)))
        wrong |= {11}
        ranker = made = model.copy()
        made.setFeaturesCol(["i", "x"] if form == "indexed" else "x")
    good = frame.filter(~F.col("id").isin(wrong)) if wrong else frame
    expected = scored(made, good, "id", "rawPrediction", "prediction")
    if wrong:
        with pytest.raises(Exception, match=r"DataError: found|nulls in column"):
            made.transform(frame).collect()

    ranker.setHandleInvalid("skip")
    pd.testing.assert_frame_equal(
        scored(made, frame, "id", "rawPrediction", "prediction"), expected
    )
    ranker.setHandleInvalid("keep")
    kept = scored(made, frame, "id", "rawPrediction", "prediction")
    assert len(kept) == 20
    assert set(kept.id[kept.rawPrediction.isna()]) == wrong
    assert set(kept.id[kept.prediction.isna()]) == wrong
    pd.testing.assert_frame_equal(
        kept[~kept.id.isin(wrong)].reset_index(drop=True), expected, check_dtype=False
    )
    if form == "recipe":
        skipped = with_contributions(made.copy({ranker.handleInvalid: "skip"}), frame, 2)
        assert skipped.select("contributions").count() == len(skipped.collect()) == 19
        probability = made.transform(frame).filter("probability is null").select("id").collect()
        assert [row.id for row in probability] == [5]
    both = made.copy({ranker.vectorOutput: True, ranker.handleInvalid: "keep"})
    assert both.transform(frame).filter("rawPrediction is null").count() == len(wrong)


def test_a_null_is_named_by_its_column(model, rows):
    with pytest.raises(Exception, match="nulls in column 'b'"):
        model.transform(rows.withColumn("b", F.when(F.col("id") > 3, F.col("b")))).collect()


@pytest.mark.parametrize(
    ("form", "found"),
    [
        ("array", "1 nulls in column 'x'"),
        ("element", "1 nulls in elements of column 'x'"),
        ("nan", "the first is nan of column 'x'"),
        ("vector", "nulls in column 'x'"),
        ("vector nan", "the first is nan of column 'x'"),
        ("index", "1 nulls in elements of column 'i'"),
    ],
)
def test_nulls_in_arrays_and_vectors_are_named_by_their_column(model, rows, form, found):
    one, pair = F.col("id") == 3, F.array("a", "b")
    nan = F.array(F.lit(math.nan), F.col("b"))
    frame = rows.withColumn("i", F.array(F.lit(0), F.lit(1))).coalesce(1)
    columns = {
        "array": F.when(~one, pair),
        "element": F.when(one, F.array(F.lit(None), F.col("b"))).otherwise(pair),
        "nan": F.when(one, nan).otherwise(pair),
        "vector": F.when(~one, array_to_vector(pair)),
        "vector nan": F.when(one, array_to_vector(nan)).otherwise(array_to_vector(pair)),
        "index": pair,
    }
    frame = frame.withColumn("x", columns[form])
    made = model.copy({model.featuresCol: "x"})
    if form == "index":
        made.setFeaturesCol(["i", "x"])
        frame = frame.withColumn(
            "i", F.when(one, F.array(F.lit(None), F.lit(1))).otherwise(F.col("i"))
        )
    with pytest.raises(Exception, match=found):
        made.transform(frame).collect()


def test_training_refuses_what_scoring_may_skip(rows):
    ranker = MBAClassifier(featuresCol=COLUMNS, regParam=0.1, handleInvalid="skip")
    with pytest.raises(DataError, match="nulls in column 'b'"):
        ranker.fit(rows.withColumn("b", F.when(F.col("id") > 3, F.col("b"))))


@pytest.mark.parametrize("estimator", ["exact", "complete"])
def test_rows_of_weight_0_do_not_train(rows, estimator):
    weighted = rows.withColumn("u", F.when(F.col("id") % 3 == 0, 0.0).otherwise(F.col("id") + 1))
    given = {"featuresCol": COLUMNS, "weightCol": "u", "regParam": 0.1, "estimator": estimator}
    found = MBAClassifier(**given).fit(weighted)
    expected = MBAClassifier(**given).fit(weighted.filter("u > 0"))
    tolerance = {"exact": 1e-12, "complete": 1e-12}[estimator]
    np.testing.assert_allclose(found.coefficients, expected.coefficients, rtol=tolerance)
    assert found.summary.rows == expected.summary.rows


def test_a_third_label_of_weight_0_does_no_harm(rows):
    odd = rows.withColumn("u", (F.col("id") != 7).cast("double"))
    odd = odd.withColumn("label", F.when(F.col("id") == 7, 9.0).otherwise(F.col("label")))
    MBAClassifier(featuresCol=COLUMNS, weightCol="u", regParam=0.1).fit(odd)
    with pytest.raises(DataError, match="found 3 label values"):
        MBAClassifier(featuresCol=COLUMNS, regParam=0.1).fit(odd)


def test_calibration_ignores_rows_of_weight_0(model, rows):
    scores = model.transform(rows).withColumn("u", (F.col("id") % 2).cast("double"))
    found = ScoreCalibrator(weightCol="u").fit(scores).curve
    expected = ScoreCalibrator(weightCol="u").fit(scores.filter("u > 0")).curve
    assert found.slope == pytest.approx(expected.slope, rel=1e-9)
    with pytest.raises(DataError, match="weights"):
        ScoreCalibrator(weightCol="u").fit(scores.withColumn("u", F.lit(None).cast("double")))


@pytest.fixture(scope="module")
def boolean(rows):
    return rows.withColumn("label", F.col("label") == 1)


@pytest.fixture(scope="module")
def of_booleans(boolean):
    return MBAClassifier(featuresCol=COLUMNS, regParam=0.1).fit(boolean)


def test_booleans_strings_and_numbers_are_predicted_as_they_are(rows, model, boolean, of_booleans):
    given = {"featuresCol": COLUMNS, "regParam": 0.1}
    plain, model = model, of_booleans
    expected = scored(plain, rows, "prediction").prediction == 1
    assert model.transform(rows.drop("label")).schema["prediction"].dataType == BooleanType()
    np.testing.assert_array_equal(scored(model, boolean, "prediction").prediction, expected)
    assert model.evaluate(boolean).auc == plain.evaluate(rows).auc
    assert (model.scorer.positive, model.scorer.negative) == (True, False)
    turned = MBAClassifier(**given, positiveLabel=False).fit(boolean)
    np.testing.assert_allclose(turned.coefficients, -plain.coefficients.toArray(), rtol=1e-9)
    assert (turned.scorer.positive, turned.scorer.negative) == (False, True)
    with pytest.raises(ConfigError, match=r"positiveLabel 2\.0 for the label column 'label'"):
        MBAClassifier(**given, positiveLabel=2.0).fit(boolean)
    whole = rows.withColumn("label", F.col("label").cast("int"))
    assert MBAClassifier(**given).fit(whole).transform(rows).schema["prediction"].dataType == (
        DoubleType()
    )


def test_booleans_survive_saving_and_serving(rows, of_booleans, tmp_path):
    path = str(tmp_path / "model")
    of_booleans.save(path)
    loaded = LinearRankerModel.load(path)
    assert loaded.scorer.positive is True
    assert loaded.transform(rows).schema["prediction"].dataType == BooleanType()
    served = spark_auc.load(path).predict(TABLE[COLUMNS].to_numpy())
    np.testing.assert_array_equal(served, scored(loaded, rows, "prediction").prediction)
    assert served.dtype == bool


@pytest.mark.parametrize("positive", [1, "1"])
def test_a_number_names_a_label_of_text(rows, positive):
    text = rows.withColumn("label", F.col("label").cast("int").cast("string"))
    model = MBAClassifier(featuresCol=COLUMNS, regParam=0.1, positiveLabel=positive).fit(text)
    assert model.scorer.positive == "1"
    assert evaluate(model.transform(text), positiveLabel=positive).auc > 0.6
    decimals = rows.withColumn("label", F.col("label").cast("string"))
    model = MBAClassifier(featuresCol=COLUMNS, regParam=0.1, positiveLabel=1.0).fit(decimals)
    assert model.scorer.positive == "1.0"


def test_arrays_of_integers(rows):
    whole = rows.withColumn("a", F.round("a").cast("int")).withColumn("b", F.col("b").cast("int"))
    expected = MBAClassifier(featuresCol=COLUMNS, regParam=0.1).fit(whole)
    for kind in ("array<int>", "array<bigint>", "array<tinyint>", "array<float>"):
        one = whole.withColumn("x", F.array("a", "b").cast(kind))
        model = MBAClassifier(featuresCol="x", regParam=0.1).fit(one)
        np.testing.assert_allclose(model.coefficients, expected.coefficients, rtol=1e-12)
        np.testing.assert_array_equal(
            scored(model, one, "rawPrediction"), scored(expected, one, "rawPrediction")
        )


def test_fields_of_structs(rows, model, pipeline):
    """A model of nested columns is that of flat ones; a column of the same name goes before."""
    nested = rows.select(
        F.struct("a", F.struct("b").alias("inner")).alias("user"),
        F.struct("label", F.lit(1.0).alias("u")).alias("of"),
        F.lit(7.0).alias("of.v"),
        "id",
    )
    names = {"labelCol": "of.label", "weightCol": "of.u", "regParam": 0.1}
    flat, model = model, MBAClassifier(featuresCol=["user.a", "user.inner.b"], **names).fit(nested)
    np.testing.assert_allclose(model.coefficients, flat.coefficients, rtol=1e-12)
    made = model.transform(nested)
    assert made.columns == ["user", "of", "of.v", "id", "rawPrediction", "prediction"]
    assert model.evaluate(nested).auc == flat.evaluate(rows).auc
    with pytest.raises(ConfigError, match=r"found no column 'user\.inner\.c'"):
        MBAClassifier(featuresCol=["user.a", "user.inner.c"], **names).fit(nested)

    recipe = FeatureRecipe(spline=["user.a"], standard=["user.inner.b"], auto=False)
    found = RankerPipeline([recipe, MBAClassifier(**names)]).fit(nested)
    np.testing.assert_allclose(
        scored(found, nested, "rawPrediction"), scored(pipeline, rows, "rawPrediction"), rtol=1e-12
    )
    explained = with_contributions(found, nested, 3)
    assert explained.columns == [*nested.columns, "rawPrediction", "prediction", "contributions"]
    assert found.stages[0].drift_of(nested).counts[:, 0].tolist() == [N, N]


def test_stages_pickle(model, pipeline, rows):
    expected = scored(pipeline, rows, "probability")
    pd.testing.assert_frame_equal(
        scored(pickle.loads(pickle.dumps(pipeline)), rows, "probability"), expected
    )
    again = pickle.loads(pickle.dumps(model))
    pd.testing.assert_frame_equal(
        scored(again, rows, "rawPrediction"), scored(model, rows, "rawPrediction")
    )
    for name in spark_auc.__all__:
        stage = getattr(spark_auc, name)
        if isinstance(stage, type) and hasattr(stage, "SETTINGS") and not name.endswith("Model"):
            made = pickle.loads(pickle.dumps(stage()))
            assert made.explainParams() == stage().explainParams()
    unfitted = pickle.loads(pickle.dumps(RankerPipeline([FeatureRecipe(), MBAClassifier()])))
    assert isinstance(unfitted.fit(rows.select("a", "b", "label")), RankerPipelineModel)


def test_only_models_transform_and_only_estimators_fit(model, pipeline):
    for thing in (model, pipeline, pipeline.calibration, AUCEvaluator()):
        assert not hasattr(thing, "fit")
    for thing in (MBAClassifier(), FeatureRecipe(), ScoreCalibrator(), AUCEvaluator()):
        assert not hasattr(thing, "transform")


def test_none_clears_a_param():
    ranker = MBAClassifier(regParam=0.1, numFolds=3)
    assert ranker.setParams(regParam=None, numFolds=None) is ranker
    assert ranker.getRegParam() is None
    assert ranker.getNumFolds() == 5
    assert not ranker.isSet("regParam")
    assert ranker.setRegParam(0.2).setRegParam(None).getRegParam() is None


def test_params_of_models_are_explained(model, pipeline):
    assert model.explainParam("handleInvalid").endswith("(default: error)")
    for name in ("regParam", "threshold", "vectorOutput"):
        assert name in model.explainParams()
    assert "probabilityCol" in pipeline.calibration.explainParams()


def test_notebooks_show_results_as_html(model, pipeline, rows):
    report = model.evaluate(rows)
    for thing, found in [
        (report, f"AUC {report.auc:.4f}, 95% interval"),
        (model, f"{model.uid}: 2 features"),
        (model.summary, "Largest weights"),
        (pipeline, "FeatureRecipeModel &gt; LinearRankerModel &gt; ScoreCalibrationModel"),
        (pipeline, pipeline.stages[0]._repr_html_()),
        (pipeline, pipeline.calibration._repr_html_()),
        (pipeline.stages[0], "<td>a</td><td>spline</td><td>float</td>"),
        (pipeline.calibration, f"<td>{pipeline.calibration.curve.slope:.6g}</td>"),
        (compare(rows, ["a", "b"]), "a - b"),
    ]:
        assert found in thing._repr_html_()
        ElementTree.fromstring(f"<div>{thing._repr_html_()}</div>")
    one = evaluate(
        rows.filter("label = 0").limit(5).union(rows.filter("label = 1").limit(1)), scoreCol="a"
    )
    ElementTree.fromstring(one._repr_html_())
