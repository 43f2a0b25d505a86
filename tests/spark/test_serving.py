"""Rankers that Spark trained and saved, loaded without Spark: the same bits."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

import spark_auc
from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
    ScoreCalibrator,
)
from spark_auc.app.running import run
from spark_auc.core.strict_exp import strict_exp
from spark_auc.errors import ConfigError, DataError, ModelFormatError

N = 600
RNG = np.random.default_rng(8)
PLAN = {
    "spline": ["x", "when"],
    "tokens": ["city", "code", "flag"],
    "hour": ["when"],
    "crosses": [["city", "code"]],
    "auto": False,
    "dimension": 256,
    "crossBits": 8,
}


@pytest.fixture(scope="module")
def table():
    x, code = RNG.normal(size=N), RNG.integers(0, 6, N)
    city = RNG.choice(["a", "b", "ö", ""], N)
    when = pa.array(RNG.integers(0, 2**50, N), pa.timestamp("us", "UTC"))
    y = x + (code == 2) + (city == "a") + RNG.logistic(size=N) > 0.5
    missing = RNG.random(N) < 0.05
    return pa.table(
        {
            "x": pa.array(x, mask=missing),
            "code": code,
            "city": pa.array(city, mask=RNG.random(N) < 0.05),
            "flag": x + RNG.normal(size=N) > 0,
            "when": when,
            "label": np.where(y, "yes", "no"),
        }
    )


@pytest.fixture(scope="module")
def rows(spark, table):
    return spark.createDataFrame(table).repartition(2).cache()


def scored(model, rows, *columns):
    """The rows with their scores, in one order."""
    found = model.transform(rows).toArrow()
    return found.sort_by([("x", "ascending"), ("when", "ascending"), ("code", "ascending")])


@pytest.mark.parametrize(
    "embeddings", [[], [NystroemEmbedding(numLandmarks=12)]], ids=["linear", "embedded"]
)
def test_a_pipeline_scores_to_the_same_bits(rows, tmp_path, embeddings):
    ranker = MBAClassifier(positiveLabel="yes", regParam=1e-3)
    model = RankerPipeline([FeatureRecipe(**PLAN), *embeddings, ranker]).fit(rows)
    calibrator = ScoreCalibrator(positiveLabel="yes")
    model = model.calibrated(calibrator.fit(model.transform(rows)))
    model.save(str(tmp_path / "model"))
    served = spark_auc.load(str(tmp_path / "model"))
    found = scored(model, rows)
    expected = found["rawPrediction"].to_numpy()
    assert served.score(found).tobytes() == expected.tobytes()
    assert served.score(found.to_pandas()).tobytes() == expected.tobytes()
    some = found.slice(0, 50).to_pylist()
    assert [served.score(row) for row in some] == expected[:50].tolist()
    assert served.probability(found).tobytes() == found["probability"].to_numpy().tobytes()
    assert [served.probability(row) for row in some] == found["probability"].to_pylist()[:50]
    assert served.predict(found).tolist() == found["prediction"].to_pylist()


def test_isotonic_probabilities_and_features_without_a_recipe(rows, tmp_path):
    filled = rows.na.fill({"x": 0.0}).withColumn("z", F.col("code") * 2.5)
    ranker = MBAClassifier(featuresCol=["x", "z"], positiveLabel="yes", regParam=0.1).fit(filled)
    ranker.save(str(tmp_path / "ranker"))
    served = spark_auc.load(str(tmp_path / "ranker"))
    found = scored(ranker, filled)
    X = np.column_stack([found["x"].to_numpy(), found["z"].to_numpy()])
    assert served.score(X).tobytes() == found["rawPrediction"].to_numpy().tobytes()
    assert served.columns == ("x", "z")
    assert served.score(found).tobytes() == found["rawPrediction"].to_numpy().tobytes()
    model = RankerPipeline([FeatureRecipe(**PLAN), MBAClassifier(positiveLabel="yes")]).fit(rows)
    curve = ScoreCalibrator(positiveLabel="yes", method="isotonic")
    model = model.calibrated(curve.fit(model.transform(rows)))
    model.save(str(tmp_path / "model"))
    found = scored(model, rows)
    served = spark_auc.load(str(tmp_path / "model"))
    assert served.probability(found).tobytes() == found["probability"].to_numpy().tobytes()


def test_fields_of_structs(rows, tmp_path):
    """Nested rows have the same scores in Spark and here."""
    at = F.when(F.col("code") != 2, F.struct("city", "code"))
    user = F.when(F.col("code") != 3, F.struct("x", at.alias("at")))
    nested = rows.select(user.alias("user"), "label")
    recipe = FeatureRecipe(
        spline=["user.x"], tokens=["user.at.city", "user.at.code"], auto=False, dimension=64
    )
    ranker = MBAClassifier(positiveLabel="yes", regParam=0.1)
    model = RankerPipeline([recipe, ranker]).fit(nested)
    model.save(str(tmp_path / "model"))
    served = spark_auc.load(tmp_path / "model")
    assert served.columns == ("user.x", "user.at.city", "user.at.code")
    found = model.transform(nested).toArrow()
    assert found["user"].null_count > 0
    expected = found["rawPrediction"].to_numpy()
    assert served.score(found).tobytes() == expected.tobytes()
    assert [served.score(row) for row in found.to_pylist()] == expected.tolist()


@pytest.mark.slow
def test_a_published_ranker_of_segments_without_pyspark(table, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    pq.write_table(table, "rows.parquet")
    keys = {
        "data": {"path": "rows.parquet"},
        "columns": {"label": "label", "positiveLabel": "yes"},
        "features": PLAN,
        "training": {"segmentCol": "city", "regParam": 0.01},
        "output": {"path": "model"},
    }
    score = {"data": {"path": "rows.parquet"}, "model": "model", "output": {"path": "scores"}}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump({"train": keys}))
    (tmp_path / "score.yaml").write_text(yaml.safe_dump({"score": score}))
    assert run("train", "train.yaml") == 0
    assert run("score", "score.yaml") == 0
    capsys.readouterr()
    program = (
        "import json, sys\n"
        "for name in ('pyspark', 'py4j', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "import spark_auc, pyarrow.parquet as pq\n"
        "table = pq.read_table('rows.parquet')\n"
        "ranker = spark_auc.load('model')\n"
        "scores = ranker.score(table)\n"
        "rows = [ranker.score(row) for row in table.slice(0, 40).to_pylist()]\n"
        "assert rows == scores[:40].tolist()\n"
        "print(json.dumps(sorted(scores.tolist())))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    current = json.loads((tmp_path / "scores" / "manifest.json").read_text())
    assert current
    written = pq.read_table(next((tmp_path / "scores").rglob("*.parquet")).parent)
    assert sorted(written["rawPrediction"].to_pylist()) == json.loads(done.stdout)


def test_single_vectors_without_a_job(rows, tmp_path):
    filled = rows.na.fill({"x": 0.0})
    ranker = MBAClassifier(featuresCol=["x", "code"], positiveLabel="yes", regParam=0.1)
    model = ranker.fit(filled)
    found = scored(model, filled).slice(0, 20)
    for row in found.to_pylist():
        for vector in (
            Vectors.dense(row["x"], row["code"]),
            Vectors.sparse(2, [(0, row["x"]), (1, row["code"])]),
        ):
            assert model.predictRaw(vector).toArray().tolist() == [
                -row["rawPrediction"],
                row["rawPrediction"],
            ]
            assert model.predict(vector) == row["prediction"]
    assert model.intercept == 0.0
    for wrong in (Vectors.dense(1.0), Vectors.sparse(3, {0: 1.0}), Vectors.dense(np.nan, 1.0)):
        with pytest.raises(DataError, match="expected"):
            model.predictRaw(wrong)


def test_the_exponential_is_that_of_spark(spark):
    x = np.concatenate([RNG.normal(size=2000) * scale for scale in (0.1, 1, 30, 400)])
    frame = spark.createDataFrame(pa.table({"k": np.arange(x.size), "x": x}))
    found = frame.select("k", F.exp("x").alias("exp")).toArrow().sort_by("k")
    assert found["exp"].to_numpy().tobytes() == strict_exp(x).tobytes()


def test_damaged_and_other_directories(rows, tmp_path):
    with pytest.raises(ConfigError, match="found no ranker at"):
        spark_auc.load(str(tmp_path))
    VectorAssembler(inputCols=["x"], outputCol="v").save(str(tmp_path / "assembler"))
    with pytest.raises(ModelFormatError, match="found a saved 'VectorAssembler' at"):
        spark_auc.load(str(tmp_path / "assembler"))
    recipe = FeatureRecipe(**PLAN).fit(rows)
    recipe.save(str(tmp_path / "recipe"))
    with pytest.raises(ModelFormatError, match="found a saved 'FeatureRecipeModel'"):
        spark_auc.load(str(tmp_path / "recipe"))
    ranker = MBAClassifier(featuresCol=["code"], positiveLabel="yes", regParam=0.1).fit(rows)
    ranker.save(str(tmp_path / "ranker"))
    (metadata,) = (tmp_path / "ranker" / "metadata").glob("part-*")
    text = metadata.read_text()
    metadata.write_text(text.replace('"threshold":', '"threshold":1', 1))
    with pytest.raises(ModelFormatError, match="damaged metadata"):
        spark_auc.load(str(tmp_path / "ranker"))
    metadata.write_text(text.replace('"version":2', '"version":3', 1))
    with pytest.raises(ModelFormatError, match="of version 3 at"):
        spark_auc.load(str(tmp_path / "ranker"))
    metadata.write_text(text)
    (data,) = (tmp_path / "ranker" / "data").glob("part-*.parquet")
    weights = pq.read_table(data)
    pq.write_table(weights.set_column(1, "weight", pa.array([9.0])), data)
    with pytest.raises(ModelFormatError, match="not those saved with the metadata"):
        spark_auc.load(str(tmp_path / "ranker"))
    data.unlink()
    with pytest.raises(ModelFormatError, match="no files at"):
        spark_auc.load(str(tmp_path / "ranker"))
