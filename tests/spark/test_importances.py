"""Importances and weights against contributions of single rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from spark_auc import (
    FeatureRecipe,
    MBAClassifier,
    NystroemEmbedding,
    RankerPipeline,
    feature_weights,
    importances,
)
from spark_auc.errors import ConfigError
from spark_auc.features.contributions import contributions, parts
from spark_auc.tables.arrow_columns import raw_column

ROWS = 500


@pytest.fixture(scope="module")
def table():
    draw = np.random.default_rng(2)
    age, word = draw.normal(size=ROWS), draw.choice(["a", "b", "köln"], ROWS)
    y = (draw.random(ROWS) < 1 / (1 + np.exp(-age - (word == "b")))).astype(float)
    missing = draw.random(ROWS) < 0.1
    return pa.table({"age": pa.array(age, mask=missing), "word": word, "label": y})


@pytest.mark.parametrize("crosses", [None, [["age", "word"]]])
def test_importances_are_deviations_of_contributions(spark, table, crosses):
    frame = spark.createDataFrame(table).repartition(3)
    recipe = FeatureRecipe(spline=["age"], tokens=["word"], auto=False, dimension=64)
    if crosses:
        recipe.setCrosses(crosses)
    model = RankerPipeline([recipe, MBAClassifier(regParam=0.01)]).fit(frame)
    columns = {name: raw_column(name, table[name].combine_chunks()) for name in ("age", "word")}
    values = contributions(model.recipe, model.ranker.scorer.w, columns)
    found = {row.column: row for row in importances(model, frame).collect()}
    assert set(found) == set(parts(model.recipe))
    assert len(found) == (3 if crosses else 2)
    for number, name in enumerate(parts(model.recipe)):
        assert found[name].importance == pytest.approx(values[:, number].std(), rel=1e-9)
        assert found[name].meanContribution == pytest.approx(values[:, number].mean(), abs=1e-12)
    order = [row.importance for row in found.values()]
    assert order == sorted(order, reverse=True)


def test_weights_have_the_names_of_knots_and_tokens(spark, table):
    frame = spark.createDataFrame(table)
    recipe = FeatureRecipe(spline=["age"], tokens=["word"], auto=False, dimension=64, numKnots=3)
    model = RankerPipeline([recipe, MBAClassifier(regParam=0.01)]).fit(frame)
    rows = feature_weights(model, frame).collect()
    w = model.ranker.scorer.w
    np.testing.assert_array_equal([row.weight for row in rows], w)
    names = [row.feature for row in rows]
    assert [name.split(" ")[:2] for name in names[:3]] == [["age:", "knot"]] * 3
    named = {name for name, weight in zip(names[4:], w[4:], strict=True) if weight}
    counts = Counter(table["word"].to_pylist())
    expected = {f"mostly word={word} ({count})" for word, count in counts.items()}
    assert {name.split(": ")[1] for name in named} == expected


def test_other_models_are_refused(spark, table):
    frame = spark.createDataFrame(table).drop("word")
    plain = FeatureRecipe(spline=["age"], auto=False)
    stages = [plain, NystroemEmbedding(numLandmarks=4), MBAClassifier(regParam=0.1)]
    model = RankerPipeline(stages).fit(frame)
    for explain in (importances, feature_weights):
        with pytest.raises(ConfigError, match="expected a ranker without embeddings"):
            explain(model, frame)
