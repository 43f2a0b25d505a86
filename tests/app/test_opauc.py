"""The job opauc: as a batch, and as a stream."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.app.jobs.published_model import read_model
from spark_auc.spark.estimators.mba import MBAClassifier
from tests.app import arriving
from tests.app.arriving import (
    NAMES,
    STREAM,
    aged,
    arrive,
    assert_same_moments,
    committed,
    moments,
    parts,
    status,
    table,
)

pytestmark = pytest.mark.usefixtures("spark")
at, job = arriving.at, arriving.job


def weights():
    return read_model("model").ranker.scorer


@pytest.mark.parametrize(
    ("training", "weight"),
    [
        ({"regParam": 0.1}, None),
        ({"regParam": 0.01, "standardization": False}, "u"),
        ({"regParam": 0.1, "elasticNetParam": 0.5}, None),
    ],
)
def test_a_batch_is_the_all_pairs_fit(job, spark, training, weight):
    arrive(parts(3))
    training = training | {"tol": 1e-12}
    columns = {"features": NAMES, "weight": weight}
    code, result = job(columns=columns, training=training)
    assert (code, result["features"]) == (0, 3)
    rows = spark.read.parquet(str(Path("rows").absolute()))
    expected = MBAClassifier(featuresCol=NAMES, weightCol=weight, **training).fit(rows)
    np.testing.assert_allclose(weights().w, expected.scorer.w, rtol=1e-8, atol=1e-12)
    assert weights().threshold == pytest.approx(expected.getThreshold(), rel=1e-8)
    assert weights().names == tuple(NAMES)
    assert result["rows"] == expected.summary.rows


def test_a_stream_is_the_batch_and_repeats_to_the_bit(job, spark):
    made = parts()
    arrive(made)
    code, result = job(STREAM)
    assert code == 0, result
    assert (result["batches"], result["files"], result["rejected"]) == (3, 12, 0)
    state = committed()
    assert_same_moments(state.statistics.moments, moments(made))
    rows = spark.read.parquet(str(Path("rows").absolute()))
    expected = MBAClassifier(featuresCol=NAMES, regParam=0.1).fit(rows)
    np.testing.assert_allclose(weights().w, expected.scorer.w, rtol=1e-8)
    found = status()
    assert [s["batch"] for s in found] == [0, 1, 2]
    assert [s["files"] for s in found] == [5, 5, 2]
    assert found[0]["auc"] is None
    # Test, then train: the second batch is scored by the model of the first.
    first = MBAClassifier(featuresCol=NAMES, regParam=0.1, tol=1e-10).fit(
        spark.read.parquet(*[str(Path(f"rows/{k:03d}.parquet").absolute()) for k in range(5)])
    )
    X, y, _ = (np.concatenate(c) for c in zip(*made[5:10], strict=True))
    assert found[1]["auc"] == pytest.approx(roc_auc_score(y, X @ first.scorer.w), abs=1e-12)
    assert found[1]["prequentialAUC"] == found[1]["auc"]
    low, high = found[2]["prequentialBounds"]
    assert low <= result["prequentialAUC"] <= high
    # The same again elsewhere, and once more where nothing is left to learn.
    assert job(STREAM | {"checkpoint": "other"}, output={"path": "again"})[0] == 0
    assert committed("other").statistics.to_bytes() == state.statistics.to_bytes()
    assert job(STREAM)[1]["batches"] == 3
    assert committed().to_bytes() == state.to_bytes()


def test_files_that_come_later_and_odd_names(job, at):
    made = parts(3)
    data = {"path": "rows", "options": {"recursiveFileLookup": True}}
    (at / "rows" / "sub").mkdir()
    for name, part in zip(["a [1]{b}*.parquet", "sub/c%20?.parquet"], made, strict=False):
        pq.write_table(table(*part), at / "rows" / name)
    stream = {k: v for k, v in STREAM.items() if k != "schema"}
    assert job(stream, data=data)[1]["files"] == 2
    # Older by far than what was learned before it: Spark alone would leave it out.
    pq.write_table(table(*made[2]), "rows/late.parquet")
    aged("rows/late.parquet", -100_000)
    code, result = job(stream, data=data)
    assert (code, result["files"], result["batches"]) == (0, 3, 2)
    assert_same_moments(committed().statistics.moments, moments(made))


def test_batches_of_one_class(job):
    made = [(X, np.full(len(y), k >= 2), u) for k, (X, y, u) in enumerate(parts(4))]
    arrive(made[:2])
    stream = STREAM | {"maxFilesPerTrigger": 1}
    code, result = job(stream)
    assert (code, result["model"]) == (0, None)
    assert "one class only: 0 positive" in result["lacking"]
    assert not Path("model/manifest.json").exists()
    assert "both classes" in status()[-1]["model"]
    arrive(made[2:], first=2)
    code, result = job(stream)
    assert (code, result["batches"], result["lacking"]) == (0, 4, None)
    assert [s["auc"] for s in status()] == [None] * 4
    assert result["prequentialAUC"] is None
    assert_same_moments(committed().statistics.moments, moments(made))


@pytest.mark.parametrize("half_life", [{"rows": 100}, {"hours": 2}])
def test_forgetting(job, half_life):
    made = parts(5)
    # A file that is older than those before it fades nothing.
    hours = [0, 1, 4, 3, 9]
    for k, part in enumerate(made):
        pq.write_table(table(*part), f"rows/{k}.parquet")
        aged(f"rows/{k}.parquet", hours[k])
    order = sorted(range(5), key=lambda k: hours[k])
    code, _ = job(STREAM | {"maxFilesPerTrigger": 2, "halfLife": half_life})
    assert code == 0
    u, newest = [], None
    for batch in (order[:2], order[2:4], order[4:]):
        rows = sum(len(made[k][1]) for k in batch)
        waited = 0 if newest is None else hours[batch[-1]] - newest
        factor = 0.5 ** (rows / 100) if "rows" in half_life else 0.5 ** (waited / 2)
        u = [w * factor for w in u] + [np.ones(len(made[k][1])) for k in batch]
        newest = hours[batch[-1]]
    expected = moments([(*made[k][:2], w) for k, w in zip(order, u, strict=True)], weighted=True)
    assert_same_moments(committed().statistics.moments, expected)


@pytest.mark.parametrize(
    ("stream", "changes", "message"),
    [
        ({}, {"training": {}}, "a regParam"),
        ({}, {"training": {"regParam": 0.1, "estimator": "paired"}}, "leave out"),
        ({}, {"data": {"path": "nowhere"}}, "found nothing at 'nowhere'"),
        ({}, {"data": {"path": "rows", "format": "kafka"}}, "format 'kafka'"),
        ({}, {"data": {"table": "rows"}}, "found no path"),
        ({"trigger": "sometimes"}, {}, "trigger"),
        ({"halfLife": {}}, {}, "either rows or hours"),
        ({"halfLife": {"rows": 1, "hours": 1}}, {}, "either rows or hours"),
        ({"maxFilesPerTriger": 1}, {}, "did you mean 'maxFilesPerTrigger'"),
        ({"checkpoint": "rows/checkpoint"}, {}, "inside opauc.data.path"),
        ({}, {"output": {"path": "rows"}}, "inside opauc.data.path"),
        ({"schema": "a dubble"}, {}, "found the schema 'a dubble'"),
        ({}, {"columns": {"features": ["a", "d"]}}, "no column 'd'"),
    ],
)
def test_mistakes(job, stream, changes, message):
    code, result = job(STREAM | stream, **changes)
    assert code == 2, result
    assert message in result["message"]


def test_a_checkpoint_of_another_stream_is_refused(job, at):
    arrive(parts(1))
    assert job(STREAM)[0] == 0
    code, result = job(STREAM, columns={"features": ["a", "b"]})
    assert code == 2
    assert "found a checkpoint of columns" in result["message"]
    code, result = job(STREAM | {"checkpoint": "other"})
    assert code == 2
    assert "output.replace" in result["message"]
    (at / "checkpoint/spark").rename(at / "elsewhere")
    code, result = job(STREAM)
    assert code == 2
    assert "found state of batch 0 without spark" in result["message"]
