"""Recipes and rankers of raw tables: what a recipe takes, names, and refuses."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.estimators import (
    HingeEstimator,
    MBAEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.pipeline.models import PipelineModel
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.encoders import encode_vectors

ROWS = 900


def rows() -> pa.Table:
    rng = np.random.default_rng(3)
    age = rng.integers(18, 80, ROWS)
    city = rng.choice(["a", "b", "", "köln"], ROWS)
    income = rng.lognormal(8, 2, ROWS)
    score = (age > 50) + 1.5 * (city == "b") + rng.normal(0, 1, ROWS)
    return pa.table(
        {
            "age": pa.array(age),
            "income": pa.array(income, mask=rng.random(ROWS) < 0.2),
            "city": pa.array(city, mask=rng.random(ROWS) < 0.1),
            "flag": pa.array(rng.random(ROWS) < 0.3),
            "label": pa.array((score > 1.5).astype(float)),
        }
    )


def settings(**params: object) -> dict[str, object]:
    columns = {"numKnots": 6, "dimension": 64, "crosses": "all", "crossBits": 8}
    return {"leaveOut": ["label"]} | columns | params


def recipe(**params: object) -> RecipeEstimator:
    return RecipeEstimator(**settings(**params))


def mba() -> MBAEstimator:
    return MBAEstimator(standardization=False, regParam=0.01)


def fitted(rows: pa.Table, *stages: object, parts: int = 3) -> PipelineModel:
    return PipelineEstimator(stages).fitted(ArrowTable.of(rows, -(-rows.num_rows // parts)))


def test_the_recipe_does_not_depend_on_parts() -> None:
    expected = recipe().fitted(ArrowTable.of(rows())).recipe
    turned = rows().take(np.arange(ROWS)[::-1])
    for other in (ArrowTable.of(rows(), 13), ArrowTable.of(turned, 400)):
        assert recipe().fitted(other).recipe == expected


def test_a_learner_of_several_passes_takes_the_rows_of_the_recipe() -> None:
    model = fitted(rows(), recipe(), HingeEstimator())
    columns = {
        c.name: raw_column(c.name, rows()[c.name].combine_chunks()) for c in model.recipe.columns
    }
    X = model.recipe.transform(columns)
    made = pa.table({"features": encode_vectors(X), "label": rows()["label"]})
    # Rows of unit length are trained as they are, unless the learner says otherwise.
    alone = HingeEstimator(standardization=False).fitted(ArrowTable.of(made, 300))
    assert model.ranker.values()["standardization"] is False
    assert model.summary.rows == alone.summary.rows
    np.testing.assert_allclose(model.ranker.scorer.w, alone.scorer.w, rtol=1e-9)


def test_hashed_features_are_named_by_frequent_tokens() -> None:
    def names(**params: object) -> list[str]:
        model = fitted(rows(), recipe(crosses=None, **params), mba())
        return [weight.feature for weight in model.summary.largest_weights]

    found = names()
    counts = Counter(rows()["city"].to_pylist())
    (of_b,) = (name for name in found if "city=b" in name)
    assert of_b.endswith(f": mostly city=b ({counts['b']})")
    assert found == names()
    assert not any("city" in name for name in names(tokenNames=False))


def test_auto_leaves_out_what_it_is_told() -> None:
    stage = RecipeEstimator(leaveOut=["label", "age"], tokens=["flag"], standard=["income"])
    made = stage.fitted(ArrowTable.of(rows())).recipe
    kinds = sorted((c.name, type(c).__name__) for c in made.columns)
    assert kinds == [("city", "Tokens"), ("flag", "Tokens"), ("income", "Standard")]


@pytest.mark.parametrize(
    ("params", "error", "match"),
    [
        ({"spline": ["city"]}, ConfigError, "'city' of type text as spline"),
        ({"tokens": ["income"]}, ConfigError, "'income' of type float as tokens"),
        ({"spline": ["nothing"]}, ConfigError, "no column 'nothing'"),
        ({"crosses": [["age", "nothing"]]}, ConfigError, "crosses of .*nothing"),
        ({"crosses": [["age"]]}, ConfigError, "pairs of two columns"),
        ({"auto": False}, ConfigError, "0 columns"),
    ],
)
def test_recipes_that_cannot_be(
    params: dict[str, object], error: type[Exception], match: str
) -> None:
    with pytest.raises(error, match=match):
        recipe(**({"crosses": None} | params)).fitted(ArrowTable.of(rows()))


def test_no_rows() -> None:
    none = ArrowTable.of(rows()[:0])
    with pytest.raises(DataError, match="both classes"):
        recipe().fitted(none)
    with pytest.raises(DataError, match="no rows"):
        RecipeEstimator(spline=["age"], auto=False).fitted(none)
