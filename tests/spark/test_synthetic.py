"""Planted click data: reproducible, well formed, and as hard as promised."""

from __future__ import annotations

import numpy as np
import pytest
from chispa import DataFramesNotEqualError, assert_df_equality
from pyspark.ml.linalg import VectorUDT

from spark_auc.core.evaluation.roc import auc, expected_auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.errors import ConfigError
from spark_auc.spark.data.synthetic import best_auc, click_data


def draw(spark, rows, **changed):
    settings = {"dimension": 1000, "positive_rate": 0.2, "ceiling": 0.8, "seed": 3}
    return click_data(spark, rows, **(settings | changed))


def test_rows_depend_on_seed_and_id_alone(spark):
    rows = draw(spark, 300, partitions=3)
    assert [row.id for row in rows.collect()] == list(range(300))
    assert_df_equality(draw(spark, 300, partitions=1), rows)
    assert_df_equality(draw(spark, 500, partitions=4).where("id < 300"), rows)
    with pytest.raises(DataFramesNotEqualError):
        assert_df_equality(draw(spark, 300, seed=4), rows)
    with_probability = draw(spark, 300, with_probability=True)
    assert with_probability.columns == ["id", "label", "features", "probability"]
    assert_df_equality(with_probability.drop("probability"), rows)


@pytest.mark.parametrize(("dimension", "nonzeros"), [(20, 39), (2**20, 39), (1000, 5), (50, 1)])
def test_features_are_well_formed_unit_vectors(spark, dimension, nonzeros):
    df = draw(spark, 200, dimension=dimension, nonzeros=nonzeros)
    assert isinstance(df.schema["features"].dataType, VectorUDT)
    for row in df.collect():
        x = row.features
        assert x.size == dimension
        assert (np.diff(x.indices) > 0).all()
        assert x.indices[0] >= 0
        assert x.indices[-1] < dimension
        tokens = (x.values / x.values.min()).round(9)
        assert x.norm(2) == pytest.approx(1)
        assert len(x.indices) <= nonzeros
        if dimension == 2**20:
            assert tokens.sum() == nonzeros


@pytest.mark.parametrize(
    ("positive_rate", "ceiling"), [(0.2, 0.6), (0.2, 0.8), (0.5, 0.95), (0.02, 0.75)]
)
def test_rate_and_best_auc_are_met(spark, positive_rate, ceiling):
    settings = {"positive_rate": positive_rate, "ceiling": ceiling}
    table = draw(spark, 40_000, with_probability=True, **settings).drop("features").toArrow()
    p, y = np.asarray(table["probability"]), np.asarray(table["label"]) == 1
    sd = np.sqrt(positive_rate * (1 - positive_rate) / len(y))
    assert abs(y.mean() - positive_rate) < 5 * sd
    assert abs(p.mean() - positive_rate) < 5 * sd
    best = best_auc(1000, seed=3, rows=2**16, **settings)
    assert best == pytest.approx(ceiling, abs=0.005)
    error = 0.5 / np.sqrt(y.sum())  # above the standard error of an AUC with many negatives
    assert auc(ScoreTable.of(p, y)) == pytest.approx(best, abs=4 * error)


def test_expected_auc_is_that_of_all_pairs():
    p = np.sort(np.random.default_rng(0).random(200))
    pairs = p[:, np.newaxis] * (1 - p)
    won = np.tril(pairs, -1).sum() + np.trace(pairs) / 2
    assert expected_auc(p) == pytest.approx(won / pairs.sum())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"positive_rate": 0.0}, "found positive_rate = 0.0"),
        ({"positive_rate": 1}, "found positive_rate = 1"),
        ({"ceiling": 0.5}, r"found ceiling = 0.5; expected an AUC in \[0.50"),
        ({"ceiling": 1.0}, "found ceiling = 1.0"),
        ({"dimension": 1}, "found dimension = 1"),
    ],
)
def test_settings_out_of_range(spark, wrong, message):
    with pytest.raises(ConfigError, match=message):
        draw(spark, 10, **wrong)
