"""Pairs of numeric columns that the fit of a recipe chooses, or that its settings name."""

import logging

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe_fit import doubles_of
from spark_auc.features.row_groups import row_groups
from spark_auc.pipeline import recipe_interactions
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.hashes import xxhash64
from spark_auc.training.pairs import with_pairs
from spark_auc.training.raw_rows import RawRows
from spark_auc.training.single_columns import single_scores

NAMES = ["x1", "x2", "x3", "x4", "count"]


def table(n, product=2.0, seed=0):
    """Five numeric columns with missing values; "x1" and "x2" interact."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(n, 4)), columns=NAMES[:4])
    frame["count"] = rng.integers(0, 400, n)
    odds = product * frame.x1 * frame.x2 + np.sin(frame.x3)
    frame.loc[rng.random(n) < 0.1, "x3"] = np.nan
    frame.loc[rng.random(n) < 0.02, "x4"] = np.nan
    frame.loc[rng.random(n) < 0.01, "x4"] = np.inf
    frame["label"] = (rng.random(n) < 1 / (1 + np.exp(-odds))).astype(int)
    frame["user"] = rng.integers(0, n // 3, n)
    return frame


@pytest.fixture(scope="module")
def frame():
    return table(3000)


def arrow(frame):
    """Missing values of "x3" are null, those of "x4" NaN."""
    return pa.table({name: pa.array(frame[name], from_pandas=name != "x4") for name in frame})


@pytest.fixture(scope="module")
def rows(frame):
    return ArrowTable.of(arrow(frame), 1000)


def settings(**others):
    return {"spline": NAMES, "auto": False, "unit": False, "numKnots": 6} | others


def recipe_of(**others):
    return RecipeEstimator(**settings(**others))


def raw(frame):
    return {name: Numbers(frame[name].to_numpy()) for name in NAMES}


def names(recipe):
    return [tuple(column.name for column in pair.columns) for pair in recipe.pairs]


def hats(values, knots):
    """The piecewise linear interpolation of unit vectors, by numpy."""
    return np.array([np.interp(values, knots, unit) for unit in np.eye(len(knots))]).T


def surface(pair, frame):
    """The features of a pair, by its definition."""
    one, other = (hats(frame[c.name], c.knots) for c in pair.columns)
    products = (one[:, :, None] * other[:, None, :]).reshape(len(frame), -1)
    missing = frame[[c.name for c in pair.columns]].isna().any(axis=1)
    return np.where(missing.to_numpy()[:, None], 0.0, products)


def check_surfaces(recipe, frame):
    """The features of the pairs are those of the definition."""
    X, first = recipe.transform(raw(frame)).toarray(), recipe.starts[len(recipe.numeric)]
    for pair in recipe.pairs:
        made = X[:, first : first + pair.size]
        np.testing.assert_allclose(made, surface(pair, frame), atol=1e-12)
        first += pair.size


def test_the_pairs_are_those_of_the_sample_in_memory(rows, frame):
    made = recipe_of(pairs=3).fitted(rows).recipe
    assert names(made)[0] == ("x1", "x2")
    # Half of the groups of equal values choose.
    sample = KeySample(0.5)
    assert made.chosen_by == sample
    inside = sample.of(row_groups(raw(frame)))
    assert 0.45 < inside.mean() < 0.55
    half = frame[inside]
    single = recipe_of().fitted(rows).recipe
    chosen = RawRows(raw(half), half["label"].to_numpy() == 1, None, row_groups(raw(half)))
    again = with_pairs(single, chosen, single_scores(single, chosen), count=3)
    assert again.pairs == made.pairs
    check_surfaces(made, frame)
    assert recipe_of(pairs=3).fitted(ArrowTable.of(arrow(frame)[::-1], 700)).recipe == made


def test_more_pairs_are_asked_for_than_there_are_and_noise_has_none(rows):
    assert 1 <= len(recipe_of(pairs=100).fitted(rows).recipe.pairs) < 10
    found = []
    for seed in range(3):
        noise = ArrowTable.of(arrow(table(1000, 0.0, seed)))
        recipe = recipe_of(pairs=5).fitted(noise).recipe
        assert recipe.pairs or recipe.chosen_by is None
        found += names(recipe)
    assert len(found) <= 1


def test_no_pass_is_made_without_two_numeric_columns(rows, monkeypatch):
    monkeypatch.setattr(recipe_interactions, "label_sample", None)
    one = RecipeEstimator(spline=["x1"], standard=["x1"], auto=False, pairs=2)
    assert one.fitted(rows).recipe.pairs == ()
    given = rows.gathered()
    text = given.append_column("text", pc.cast(given["x1"], pa.string()))
    recipe = RecipeEstimator(tokens=["text"], auto=False, pairs=2)
    assert recipe.fitted(ArrowTable.of(text)).recipe.pairs == ()


def test_one_sample_chooses_pairs_and_crosses(monkeypatch):
    frame = table(3000)
    rng = np.random.default_rng(5)
    for name in "abc":
        frame[name] = rng.choice(["u", "v", "w"], 3000)
    same = frame.a == frame.b
    frame["label"] = np.where(rng.random(3000) < 0.4, same.astype(int), frame.label)
    calls = []
    gather = recipe_interactions.label_sample

    def counted(*args, **settings):
        calls.append(settings["sample"])
        return gather(*args, **settings)

    monkeypatch.setattr(recipe_interactions, "label_sample", counted)
    recipe = RecipeEstimator(
        spline=NAMES, tokens=[*"abc"], auto=False, dimension=64, pairs=2, crosses="auto"
    )
    made = recipe.fitted(ArrowTable.of(arrow(frame))).recipe
    assert calls == [KeySample(0.5)]
    assert ("x1", "x2") in names(made)
    assert ("a", "b") in made.crosses.pairs
    assert made.chosen_by == KeySample(0.5)


@pytest.mark.parametrize("key", [None, "user"])
def test_the_rows_that_grew_trees_choose(rows, frame, key, monkeypatch):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    seen = []

    def recorded(recipe, rows, scores, **settings):
        seen.append(rows)
        return with_pairs(recipe, rows, scores, **settings)

    monkeypatch.setattr(recipe_interactions, "with_pairs", recorded)
    trees = {"grow": {"numTrees": 5, "numLeaves": 4, "growShare": 0.4, "seed": 7}}
    recipe = recipe_of(pairs=3, trees=trees)
    model = PipelineEstimator([recipe, MBAEstimator(keyCol=key)]).fitted(rows)
    grown = model.recipe.trees.grown
    assert grown == KeySample(0.4, 7)
    assert names(model.recipe)[0] == ("x1", "x2")
    assert model.recipe.chosen_by is None
    given = row_groups(raw(frame))
    if key:
        given = xxhash64([pa.array(frame[key])])
    inside = grown.of(given)
    ((columns, y, _, group),) = seen
    np.testing.assert_array_equal(np.sort(group), np.sort(given[inside]))
    for name in NAMES:
        both = doubles_of(columns[name]), frame[name][inside]
        np.testing.assert_array_equal(*map(np.sort, both))
    assert sum(model.ranker.summary.rows.values()) == 3000 - y.size


def test_named_pairs_are_taken_as_they_are(rows, frame, monkeypatch):
    monkeypatch.setattr(recipe_interactions, "label_sample", None)
    made = recipe_of(pairs=[["x2", "x1"], ["x3", "count"]]).fitted(rows).recipe
    assert names(made) == [("x2", "x1"), ("x3", "count")]
    assert made.chosen_by is None
    assert all(len(column.knots) == 8 for pair in made.pairs for column in pair.columns)
    check_surfaces(made, frame)
    # A column may be numeric because auto found it to be so.
    auto = RecipeEstimator(leaveOut=["user"], pairs=[["x1", "x2"]])
    assert names(auto.fitted(rows).recipe) == [("x1", "x2")]


def test_the_log_names_the_pairs(rows, caplog):
    recipe = RecipeEstimator(spline=NAMES, auto=False, numKnots=9, pairs=2)
    with caplog.at_level(logging.INFO, "spark_auc"):
        made = recipe.fitted(rows).recipe
    assert made.pairs
    assert made.chosen_by == KeySample(0.5)
    assert any('"pairs": [["x1", "x2"]' in message for message in caplog.messages)


def test_what_is_refused(rows):
    for wrong, found in [
        ([["x1"]], "different pairs of two columns"),
        ([["x1", "x2"], ["x2", "x1"]], "different pairs of two columns"),
        ([["x1", "no"]], "'no'"),
        ([["x1", "user"]], "found a pair of the columns 'user', expected numeric columns"),
    ]:
        with pytest.raises(ConfigError, match=found):
            recipe_of(pairs=wrong).fitted(rows)
    for wrong in (0, -1, []):
        with pytest.raises(ConfigError, match="found pairs"):
            recipe_of(pairs=wrong)
    with pytest.raises(TypeError, match="found pairs True"):
        recipe_of(pairs=True)
