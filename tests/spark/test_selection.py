"""Selection of a penalty over a DataFrame; `tests.pipeline.test_selection` has the choices."""

import numpy as np
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.linalg import Vectors
from pyspark.sql import functions as F

from spark_auc import MBAClassifier, MBASelector
from spark_auc.core.batch import stacked
from spark_auc.errors import DataError
from spark_auc.pipeline.estimators import MBASelectingEstimator
from spark_auc.tables import rows as rows_module
from spark_auc.tables.rows import TableRows
from tests.pipeline import test_sampling as here
from tests.pipeline.test_selection import GRID, K, N, U, X, Y
from tests.spark.test_sampling import read


@pytest.fixture(scope="module")
def rows(spark):
    made = [(k, Vectors.dense(X[k]), float(Y[k]), float(U[k])) for k in range(N)]
    return spark.createDataFrame(made, ["id", "features", "label", "u"]).cache()


def test_the_choice_is_that_of_one_process(rows):
    settings = {"regParams": GRID, "elasticNetParams": [0.0, 0.6], "numFolds": K, "weightCol": "u"}
    settings |= {"keyCol": "id", "seed": 9}
    model = MBASelector(**settings).fit(rows)
    local = MBASelectingEstimator(**settings).fitted(here.table(here.vectors(X, Y, u=U)))
    mine, theirs = (m.summary.selection for m in (model, local))
    assert mine["chosen"] == theirs["chosen"]
    for ours, other in zip(mine["candidates"], theirs["candidates"], strict=True):
        np.testing.assert_allclose(ours["folds"], other["folds"], atol=1e-9)
    np.testing.assert_allclose(model.scorer.w, local.scorer.w, rtol=1e-7, atol=1e-9)
    assert model.getRegParam() == local.values()["regParam"]


def test_without_a_penalty_one_is_chosen(rows):
    model = Pipeline(stages=[MBAClassifier(keyCol="id", seed=2)]).fit(rows).stages[0]
    selected = MBASelector(keyCol="id", seed=2).fit(rows)
    assert model.summary.selection == selected.summary.selection
    np.testing.assert_array_equal(model.scorer.w, selected.scorer.w)
    assert len(model.summary.selection["candidates"]) == 25


@pytest.fixture(scope="module")
def wide(spark):
    """Rows that take less memory than the moments of their features."""
    rng = np.random.default_rng(3)
    columns = np.sort(rng.permuted(np.tile(np.arange(1500), (200, 1)), axis=1)[:, :8], axis=1)
    made = [
        (k, Vectors.sparse(1500, c.tolist(), rng.normal(size=8).tolist()), "yes" if k % 3 else "no")
        for k, c in enumerate(columns)
    ]
    return spark.createDataFrame(made, ["id", "features", "label"]).repartition(5, "id").cache()


@pytest.mark.slow
def test_the_rows_are_gathered_if_they_are_smaller_than_the_moments(wide, monkeypatch, caplog):
    selector = MBASelector(regParams=GRID, numFolds=K, keyCol="id", positiveLabel="yes")
    with caplog.at_level("INFO", "spark_auc"):
        model = selector.fit(wide)
    assert "the rows are gathered in memory" in caplog.text
    assert "67 of label 'no', 133 of label 'yes'" in caplog.text
    monkeypatch.setattr(TableRows, "gathered_within", lambda *_: None)
    expected = selector.fit(wide)
    assert model.summary.form == expected.summary.form == "tiles"
    np.testing.assert_allclose(
        model.coefficients.toArray(), expected.coefficients.toArray(), rtol=1e-9, atol=1e-12
    )
    pairs = zip(
        model.summary.selection["candidates"], expected.summary.selection["candidates"], strict=True
    )
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours["folds"], theirs["folds"], atol=1e-12)


def test_rows_beyond_the_limit_are_not_gathered(wide, monkeypatch):
    yes = (F.col("label") == "yes").cast("double")
    labelled = wide.select("id", "features", yes.alias("label"))
    rows = read(labelled, "id", weight=None)
    assert rows.gathered_within(1e6) is None
    monkeypatch.setattr(rows_module, "_LEAST_SHARE", 0)
    assert rows.gathered_within(1e3) is None
    gathered = rows.gathered_within(1e6)
    assert gathered.labels.rows == {0.0: 67, 1.0: 133}
    ours, theirs = gathered.joined(), stacked(rows.gathered().batches)
    assert (ours.X != theirs.X).nnz == 0
    for name in ("y", "key"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    with pytest.raises(DataError, match="label"):
        read(labelled.filter("label = 1"), "id", weight=None).gathered_within(1e6)
