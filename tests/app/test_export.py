"""The command export: each format to a file, and errors as of a job."""

import json
import sqlite3
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyspark.ml.classification import LogisticRegressionModel

import spark_auc
from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
from spark_auc.app.cli import main

ROWS = 200


@pytest.fixture(scope="module")
def saved(spark, tmp_path_factory):
    draw = np.random.default_rng(3)
    a, b = draw.normal(size=(2, ROWS))
    table = pa.table({"a": a, "b": b, "label": (a + draw.normal(size=ROWS) > 0).astype(float)})
    frame, path = spark.createDataFrame(table), tmp_path_factory.mktemp("saved")
    recipe = FeatureRecipe(spline=["a", "b"], auto=False, numKnots=4)
    RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(frame).save(f"{path}/recipe")
    MBAClassifier(featuresCol=["a", "b"], regParam=0.1).fit(frame).save(f"{path}/columns")
    return path, table


@pytest.fixture
def export(capsys):
    def run(model, kind, output):
        with pytest.raises(SystemExit) as stopped:
            main(["export", "--model", str(model), "--to", kind, "--output", str(output)])
        return stopped.value.code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return run


def test_a_query_that_another_system_runs(spark, saved, export, tmp_path):
    path, table = saved
    code, result = export(path / "recipe", "sql", tmp_path / "ranker.sql")
    assert (code, result["status"], result["output"]) == (0, "ok", str(tmp_path / "ranker.sql"))
    spark.createDataFrame(table).createOrReplaceTempView("rows_to_score")
    found = spark.sql((tmp_path / "ranker.sql").read_text()).toPandas()
    expected = spark_auc.load(str(path / "recipe")).score(found)
    np.testing.assert_allclose(found["score"], expected, rtol=0, atol=1e-9 * expected.std())


def test_files_of_onnx_and_spark_ml(saved, export, tmp_path):
    path, table = saved
    runtime = pytest.importorskip("onnxruntime")
    assert export(path / "recipe", "onnx", tmp_path / "ranker.onnx")[0] == 0
    session = runtime.InferenceSession(str(tmp_path / "ranker.onnx"))
    inputs = {name: table[name].to_numpy() for name in ("a", "b")}
    expected = spark_auc.load(str(path / "recipe")).score(table)
    found = session.run(["score"], inputs)[0].ravel()
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-6 * expected.std())
    assert export(path / "columns", "logistic", tmp_path / "logistic")[0] == 0
    model = LogisticRegressionModel.load(str(tmp_path / "logistic"))
    w = spark_auc.load(str(path / "columns")).scorer.w
    np.testing.assert_array_equal(model.coefficients.toArray(), w)


def test_mistakes_end_with_their_code(saved, export, tmp_path):
    path, _ = saved
    code, result = export(path / "recipe", "logistic", tmp_path / "no")
    assert (code, result["error"]) == (2, "ConfigError")
    assert "a recipe of raw columns" in result["message"]
    (tmp_path / "there").write_text("kept")
    code, result = export(path / "recipe", "sql", tmp_path / "there")
    assert (code, result["status"]) == (2, "error")
    assert (tmp_path / "there").read_text() == "kept"
    code, result = export(tmp_path / "none", "sql", tmp_path / "new")
    assert (code, "no ranker" in result["message"]) == (2, True)
    assert [file.name for file in tmp_path.iterdir()] == ["there"]


def test_no_session_of_spark_is_made(saved, tmp_path):
    path, _ = saved
    arguments = ["export", "--model", f"{path}/recipe", "--to", "sql", "--output", f"{tmp_path}/x"]
    script = (
        "import sys\n"
        "from spark_auc.app.cli import main\n"
        "try:\n"
        f"    main({arguments})\n"
        "finally:\n"
        "    print('pyspark.sql' in sys.modules, file=sys.stderr)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout.splitlines()[-1])["status"] == "ok"
    assert ran.stderr.splitlines()[-1] == "False"


def test_sqlite_runs_the_expressions_of_other_systems(saved):
    path, table = saved
    ranker = spark_auc.load(str(path / "recipe"))
    base = sqlite3.connect(":memory:")
    base.execute("create table t (a, b)")
    pairs = list(zip(table["a"].to_pylist(), table["b"].to_pylist(), strict=True))
    base.executemany("insert into t values (?, ?)", pairs)
    query = f"select {spark_auc.to_sql(ranker, 'ansi').score} from t order by rowid"
    found = np.array(base.execute(query).fetchall())[:, 0]
    expected = ranker.score(table)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9 * expected.std())
