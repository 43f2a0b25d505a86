"""The job train with a published model as the centre of the penalty."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.published_model import read_model
from spark_auc.app.running import run
from spark_auc.core.moments.pair_moments import PairMoments
from tests.app.arriving import NAMES, parts, table

BASE = {"columns": {"features": NAMES}, "training": {"regParam": 0.5, "tol": 1e-12}}


@pytest.fixture
def train(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(output, **changes):
        section = BASE | changes | {"output": {"path": output}}
        Path("conf.yaml").write_text(yaml.safe_dump({"train": section}))
        code = run("train", "conf.yaml")
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def test_the_model_of_the_day_before(train, spark):
    old, new = parts(2)
    for name, part in (("old", old), ("new", new)):
        pq.write_table(table(*part), f"{name}.parquet")
    code, result = train("first", data={"path": "old.parquet"})
    assert code == 0, result
    assert "prior" not in result
    rows = {"data": {"path": "new.parquet"}, "prior": "first"}
    code, result = train("second", saveMoments=True, **rows)
    assert code == 0, result

    X, y, _ = new
    w0, moments = read_model("first").ranker.scorer.w, PairMoments.of(X, y)
    Sigma, mu = moments.quadratic().Sigma.toarray(), moments.quadratic().mu
    penalty, c = 0.5 * np.diag(X.var(axis=0, ddof=1)), w0 @ mu / (w0 @ Sigma @ w0)
    w = np.linalg.solve(Sigma + penalty, mu + penalty @ (c * w0))
    np.testing.assert_allclose(read_model("second").ranker.scorer.w, w, rtol=1e-8)
    assert result["prior"].pop("scale") == pytest.approx(c, rel=1e-9)
    assert result["prior"] == {"shared": 3, "new": 0, "absent": 0, "largestAbsent": []}

    # The same from the moments of the rows.
    code, result = train("third", moments={"models": ["second"]}, prior="first")
    assert code == 0, result
    np.testing.assert_allclose(read_model("third").ranker.scorer.w, w, rtol=1e-8)
    assert result["prior"]["scale"] == pytest.approx(c, rel=1e-9)

    code, result = train("fourth", **rows | {"prior": "nowhere"})
    assert code != 0
    assert "nowhere" in str(result)
    code, result = train("fourth", **rows, embeddings=["RandomFourierFeatures"])
    assert code != 0
    assert "train.prior with 1 embeddings" in str(result)
