"""Trees that are grown from a sample of raw rows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.row_groups import row_groups
from spark_auc.features.tree_growth import grown
from spark_auc.trees.forest import CATEGORICAL
from tests.features.raw_rows import take, text

N = 4000
RNG = np.random.default_rng(0)
SAMPLE = KeySample(0.5, 3)
NUMBER = np.where(RNG.random(N) < 0.1, np.nan, RNG.normal(size=N))
CODE = RNG.integers(0, 9, N)
THERE = RNG.random(N) < 0.9
COLUMNS = {
    "city": text(RNG.choice(["a", "b", ""], N).tolist()),
    "number": Numbers(NUMBER),
    "code": Numbers(CODE, THERE),
}
TYPES = {"code": "integer", "number": "float"}
NOISE = RNG.random(N) < 0.4
Y = (np.nan_to_num(NUMBER) + 2 * np.isin(CODE, [1, 5, 6]) + RNG.normal(size=N)) > 1
SMALL = {"numTrees": 20, "numLeaves": 8}


def test_other_rows_have_no_effect():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    inside = SAMPLE.of(row_groups(COLUMNS))
    assert 0.45 < inside.mean() < 0.55
    leaves = grown(COLUMNS, TYPES, Y, sample=SAMPLE, categorical=["code"], **SMALL)
    assert leaves.grown == SAMPLE
    changed = np.where(inside, Y, ~Y)
    assert grown(COLUMNS, TYPES, changed, sample=SAMPLE, categorical=["code"], **SMALL) == leaves
    alone = {name: take(column, np.flatnonzero(inside)) for name, column in COLUMNS.items()}
    again = grown(alone, TYPES, Y[inside], sample=SAMPLE, categorical=["code"], **SMALL)
    assert again == leaves
    assert grown(COLUMNS, TYPES, ~Y, sample=SAMPLE, categorical=["code"], **SMALL) != leaves
    # The places of categories and the missing values are those of the columns.
    forest = leaves.forest
    is_set = (forest.rule & CATEGORICAL) != 0
    assert is_set.any()
    assert set(forest.column[is_set].tolist()) == {0}
    recipe = Recipe(trees=leaves, unit=False)
    assert from_json(to_json(recipe)) == recipe
    scores = recipe.transform(COLUMNS) @ forest.values
    assert roc_auc_score(Y[~inside], scores[~inside]) > 0.8


def test_text_is_split_by_the_frequent_values_of_the_sample():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    words = np.array(["ant", "bee", "", "emu", "é"])[RNG.integers(0, 5, N)]
    words[RNG.random(N) < 0.1] = "rare"
    rows = {"word": text(words.tolist()), "number": Numbers(NUMBER)}
    y = np.isin(words, ["bee", "é"]) ^ (RNG.random(N) < 0.1)
    inside = SAMPLE.of(row_groups(rows))
    leaves = grown(rows, {"word": "text", "number": "float"}, y, sample=SAMPLE, **SMALL)
    counts = Counter(words[inside & (words != "")])
    values = leaves.columns[0].values
    assert set(values) == set(counts)
    assert [counts[v] for v in values] == sorted(counts.values(), reverse=True)
    recipe = Recipe(trees=leaves, unit=False)
    assert from_json(to_json(recipe)) == recipe
    scores = recipe.transform(rows) @ leaves.forest.values
    assert roc_auc_score(y[~inside], scores[~inside]) > 0.85
    # Unknown, empty and missing values are one.
    odd = {"word": text(["never seen", "", None]), "number": Numbers(np.zeros(3))}
    assert len({tuple(row) for row in recipe.transform(odd).toarray()}) == 1


def test_groups_of_a_user_key_grow_together():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    groups = RNG.integers(40, size=N).astype(np.uint64)
    leaves = grown(COLUMNS, TYPES, Y, sample=SAMPLE, groups=groups, **SMALL)
    chosen = np.isin(groups, [g for g in range(40) if SAMPLE.of(np.array([g], np.uint64))[0]])
    changed = np.where(chosen, Y, ~Y)
    assert grown(COLUMNS, TYPES, changed, sample=SAMPLE, groups=groups, **SMALL) == leaves


def test_weights_of_the_sample_count():
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    inside = SAMPLE.of(row_groups(COLUMNS))
    plain = grown(COLUMNS, TYPES, Y, sample=SAMPLE, **SMALL)
    weight = np.where(inside, 1.0, 9.0)
    assert grown(COLUMNS, TYPES, Y, weight, sample=SAMPLE, **SMALL) == plain
    assert grown(COLUMNS, TYPES, Y, np.where(Y, 1.0, 9.0), sample=SAMPLE, **SMALL) != plain


def test_rows_that_grew_the_trees_deceive():
    """Labels of pure noise: held-out rows look ranked if the trees have seen their labels."""
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    leaves = grown(COLUMNS, TYPES, NOISE, sample=SAMPLE)
    X = Recipe(trees=leaves, unit=False).transform(COLUMNS)
    inside = SAMPLE.of(row_groups(COLUMNS))
    found = []
    for side in (inside, ~inside):
        train, test = np.flatnonzero(side)[::2], np.flatnonzero(side)[1::2]
        ridge = Ridge(alpha=100.0).fit(X[train], NOISE[train])
        found.append(roc_auc_score(NOISE[test], ridge.predict(X[test])))
    # The standard deviation of the AUC of 1000 rows is 0.019.
    assert found[0] > 0.5 + 4 * 0.019
    assert abs(found[1] - 0.5) < 4 * 0.019


def test_errors():
    with pytest.raises(ConfigError, match=r"found columns of categories \['city'\]"):
        grown(COLUMNS, TYPES, Y, sample=SAMPLE, categorical=["city"])
    with pytest.raises(DataError, match="column 'code' of type integer, expected type text"):
        grown(COLUMNS, {"code": "text"}, Y, sample=SAMPLE)
    with pytest.raises(DataError, match="column 'code' of type integer, expected type time"):
        grown(COLUMNS, {"code": "time"}, Y, sample=SAMPLE)
    with pytest.raises(DataError, match="rows of one class"):
        grown(COLUMNS, TYPES, np.ones(N, bool), sample=SAMPLE)
