"""Rankers in MLflow's model format: what they take, and what they refuse."""

import subprocess
import sys
from dataclasses import replace

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow.exceptions import MlflowException

import spark_auc.mlflow
from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
    ServedRanker,
    SOLAMClassifier,
)
from spark_auc.core.segments import SegmentWeights
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.mlflow.facts import metrics_of, params_of
from spark_auc.mlflow.signature import signature_of
from spark_auc.serving.linear_scorer import SegmentScorer


def test_rows_as_mlflow_sends_them(table, model, tmp_path):
    """Frames of pandas and JSON with missing values, against scores of the Arrow table."""
    from fastapi.testclient import TestClient
    from mlflow.pyfunc import scoring_server

    spark_auc.mlflow.save_model(model, str(tmp_path / "m"))
    function = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    types = {spec.name: str(spec.type) for spec in function.metadata.signature.inputs.inputs}
    assert types == {
        "x": "DataType.double",
        "age": "Any",
        "when": "DataType.datetime",
        "city": "DataType.string",
        "code": "Any",
        "flag": "Any",
    }
    some = table.drop_columns(["label"])
    expected = ServedRanker.of(model.write().stored()).score(some)
    frame = some.to_pandas()
    whole = frame.assign(age=frame["age"].astype("Int64"), code=frame["code"].astype("Int64"))
    nullable = whole.assign(
        flag=frame["flag"].astype("boolean"), city=frame["city"].astype("string")
    )
    nullable = nullable[list(reversed(nullable.columns))].assign(other=1)
    for form in (frame, whole, nullable):
        assert function.predict(form)["score"].to_numpy().tobytes() == expected.tobytes()
    app = TestClient(scoring_server.init(function))
    records = [
        {k: v.isoformat() if k == "when" and v is not None else v for k, v in row.items()}
        for row in some.to_pylist()
    ]
    split = {"columns": list(records[0]), "data": [list(row.values()) for row in records]}
    for body in ({"dataframe_records": records}, {"dataframe_split": split}):
        answer = app.post("/invocations", json=body)
        assert answer.status_code == 200, answer.text
        found = [row["score"] for row in answer.json()["predictions"]]
        assert found == expected.tolist()
    alone = [app.post("/invocations", json={"dataframe_records": [r]}) for r in records[:40]]
    assert [a.text for a in alone if a.status_code != 200] == []
    assert [a.json()["predictions"][0]["score"] for a in alone] == expected[:40].tolist()
    with pytest.raises(MlflowException, match=r"missing inputs.*city"):
        function.predict(frame.drop(columns="city"))
    with pytest.raises(DataError, match="column 'code' of type float, expected type integer"):
        function.predict(frame.assign(code=1.5))


def test_features_without_names(rows, tmp_path):
    arrays = rows.selectExpr("label", "array(label + rand(1), rand(2)) as features")
    model = MBAClassifier(regParam=0.1).fit(arrays)
    spark_auc.mlflow.save_model(model, str(tmp_path / "m"), input_example=[0.5, 1.0])
    function = mlflow.pyfunc.load_model(str(tmp_path / "m"))
    X = np.random.default_rng(3).normal(size=(9, 2))
    expected = ServedRanker.of(model.write().stored()).score(X)
    found = function.predict(X)
    assert list(found.columns) == ["score"]
    assert found["score"].tolist() == expected.tolist()
    assert function.predict(X[:1])["score"].tolist() == expected[:1].tolist()


def test_models_of_other_flavours_and_damaged_ones(model, tmp_path):
    mlflow.pyfunc.save_model(str(tmp_path / "other"), loader_module="json", data_path=__file__)
    with pytest.raises(ConfigError, match="flavours python_function at"):
        spark_auc.mlflow.load_model(str(tmp_path / "other"))
    spark_auc.mlflow.save_model(model, str(tmp_path / "m"))
    (weights,) = (tmp_path / "m/data/ranker/ranker/data").glob("*.parquet")
    changed = pq.read_table(weights)
    pq.write_table(changed.set_column(1, "weight", pa.array(np.ones(len(changed)))), weights)
    for load in (spark_auc.mlflow.load_model, mlflow.pyfunc.load_model):
        with pytest.raises(ModelFormatError, match="not those saved with the metadata"):
            load(str(tmp_path / "m"))


def test_without_mlflow():
    code = "import sys; sys.modules['mlflow'] = None; import spark_auc.mlflow"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "run pip install 'spark-auc[mlflow]'" in done.stderr.splitlines()[-1]


@pytest.mark.slow
def test_settings_of_other_rankers(spark, rows):
    """Online learners have no certificate; trees, pairs, embeddings and segments are counted."""
    many = [f"feature {k}" for k in range(200)]
    wide = rows.selectExpr("label", *[f"rand({k}) as `{name}`" for k, name in enumerate(many)])
    online = served(SOLAMClassifier(featuresCol=many).fit(wide))
    params, metrics = params_of(online), metrics_of(online, None)
    assert params["estimator"] == "SOLAM"
    assert params["numFeatures"] == "200"
    assert len(params["featuresCol"]) == 1000
    assert params["featuresCol"].startswith("['feature 0', 'feature 1'")
    assert not {"regParam", "stopReason", "recipe.spline"} & set(params)
    assert metrics["rows"] == rows.count()
    assert not {"kkt", "auc"} & set(metrics)

    trees = {"grow": {"numTrees": 3, "numLeaves": 4}}
    recipe = FeatureRecipe(spline=["x", "age"], pairs=[["x", "age"]], trees=trees, auto=False)
    stages = [recipe, MBAClassifier(regParam=0.1)]
    params = params_of(served(RankerPipeline(stages).fit(rows)))
    assert params["recipe.pairs"] == "1"
    assert params["recipe.trees"] == "3"
    assert 3 < int(params["recipe.leaves"]) <= 12
    assert "recipe.dimension" not in params

    plan = FeatureRecipe(tokens=["city"], auto=False, dimension=64)
    ranker = MBAClassifier(segmentCol="code", regParam=0.1)
    assert params_of(served(RankerPipeline([plan, ranker]).fit(rows)))["segmentCol"] == "code"
    stages = [plan, NystroemEmbedding(numLandmarks=5), MBAClassifier(regParam=0.1)]
    params = params_of(served(RankerPipeline(stages).fit(rows)))
    assert params["embeddings"] == "1"


def test_the_column_of_segments_is_an_input(model):
    part = model.write().stored()
    ranker = ServedRanker.of(part)
    weights = SegmentWeights(("a",), np.ones((2, ranker.scorer.w.size)), np.zeros(2))
    scorer = replace(ranker.scorer, segments=SegmentScorer("region", weights))
    specs = signature_of(replace(ranker, scorer=scorer)).inputs.inputs
    assert [spec.name for spec in specs] == [*ranker.columns, "region"]
    assert str(specs[-1].type) == "Any"


def served(model):
    return ServedRanker.of(model.write().stored())


def test_params_have_no_secrets(model):
    stage = model.write().stored()
    stage.parts["ranker"].metadata["paramMap"]["labelCol"] = "s3://user:correct-horse@bucket/x"
    found = params_of(ServedRanker.of(stage))
    assert found["labelCol"] == "s3://***redacted***@bucket/x"
    assert found["recipe.tokens"] == "['city', 'code', 'flag']"
