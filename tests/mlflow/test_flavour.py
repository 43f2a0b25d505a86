"""Rankers in MLflow's model format: what they take, and what they refuse."""

import subprocess
import sys

import mlflow
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from mlflow.exceptions import MlflowException

import spark_auc.mlflow
from spark_auc import MBAClassifier, ServedRanker
from spark_auc.errors import ConfigError, DataError, ModelFormatError


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
