"""The job train on a store of the job retrain: labels of predictions, and excluded periods."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from tests.app.test_retrain import day, retrain, written
from tests.app.transformed import transformed

pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]

COLUMNS = {"features": ["age", "price"]}
TRAINING = {"regParam": 0.1, "standardization": False, "tol": 1e-12}


@pytest.mark.slow
def test_predictions_have_the_labels_of_stored_rows(retrain, spark, capsys):
    for k in range(3):
        written(k)
        table = pq.read_table(f"clicks/{day(k)}.parquet")
        label = pa.array(np.where(table["label"].to_numpy() > 0, 1, -1))
        pq.write_table(table.set_column(0, "label", label), f"clicks/{day(k)}.parquet")
    code, result = retrain(2, features=None, columns=COLUMNS, gate={"least": 10**6})
    assert (code, result["stored"]) == (0, 3), result

    def train(moments, **others):
        output = {"path": "trained", "replace": True}
        section = {"columns": COLUMNS, "training": TRAINING, "output": output} | others
        Path("train.yaml").write_text(yaml.safe_dump({"train": section | {"moments": moments}}))
        code = run("train", "train.yaml")
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    excluding = {"store": "moments", "exclude": [day(1)]}
    code, result = train(excluding)
    assert code == 0, result
    rows = spark.read.parquet(str(Path("clicks").absolute()))
    predicted = transformed(read_model("trained"), rows).select("prediction").distinct().collect()
    assert {row[0] for row in predicted} == {-1.0, 1.0}

    # The excluded day is not in the moments; unknown ones are refused by name.
    table = pa.concat_tables([pq.read_table(f"clicks/{day(k)}.parquet") for k in (0, 2)])
    X = np.column_stack([table[name].to_numpy() for name in COLUMNS["features"]])
    y = table["label"].to_numpy() > 0
    mu = X[y].mean(0) - X[~y].mean(0)
    Sigma = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + np.outer(mu, mu)
    expected = np.linalg.solve(Sigma + 0.1 * np.eye(2), mu)
    np.testing.assert_allclose(read_model("trained").ranker.scorer.w, expected, rtol=1e-9)
    assert result["rows"] == {"1.0": int(y.sum()), "-1.0": int((~y).sum())}
    code, result = train({"store": "moments", "exclude": [day(1), day(9)]})
    assert (code, day(9) in result["message"]) == (3, True), result

    # Other labels are refused, in the configuration and in the rows beside.
    code, result = train({"store": "moments", "negativeLabel": 0})
    assert (code, "different labels" in result["message"]) == (3, True), result
    pq.write_table(table.set_column(0, "label", pa.array(np.full(len(y), 2))), "new.parquet")
    code, result = train({"store": "moments"}, data={"path": "new.parquet"})
    assert (code, "found the label 2.0" in result["message"]) == (3, True), result
