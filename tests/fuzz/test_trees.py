"""Random forests against descents in Python, and mutated models."""

from __future__ import annotations

import json
import random
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_auc.errors import ModelFormatError
from spark_auc.trees.forest_json import from_json, to_json
from spark_auc.trees.leaves import leaves
from spark_auc.trees.lightgbm_models import from_lightgbm
from spark_auc.trees.xgboost_models import from_xgboost
from tests.fuzz.inputs import inputs
from tests.fuzz.test_recipes import places
from tests.trees.forests import descended, edge_rows, random_forest, same

pytestmark = pytest.mark.fuzz

VALUES = [None, True, 0, -1, 1, 2, 1.5, -2.5, 31, 2**31, -(2**31), 2**70, 1e300, "", "1", "inf"]
# Larger categories are valid, and take megabytes for each node.
VALUES += [[], {}, [[]], 1000]


@given(st.integers(0, 2**32))
@inputs(2_000)
def test_random_forests(seed):
    draw = random.Random(seed)
    sizes = [draw.choice([1, 2, 3, 9, 63, 64, 65, 66, 100]) for _ in range(draw.randrange(1, 5))]
    kind = draw.choice(["truncated", "float32", "exact"])
    forest = random_forest(seed, kind, sizes, draw.randrange(1, 9))
    X = edge_rows(forest, draw.choice([1, 30, 260]), seed)
    found = leaves(forest, X)
    np.testing.assert_array_equal(found.indices.reshape(len(X), -1), descended(forest, X))
    assert same(from_json(to_json(forest)), forest)


def read_and_used(read, text):
    """Whatever a reader accepts sends every row to a leaf of each tree."""
    try:
        forest = read(text)
    except ModelFormatError:
        return
    if forest.columns > 1000:
        return
    found = leaves(forest, edge_rows(forest, 20)).indices.reshape(-1, forest.trees)
    first = forest.starts[:-1] + np.arange(forest.trees)
    assert ((found >= first) & (found < first + np.diff(forest.starts) + 1)).all()


def mutated(draw, stored):
    for _ in range(draw.randrange(1, 4)):
        container, key = draw.choice(list(places(stored)))
        container[key] = draw.choice(VALUES)
        if draw.random() < 0.1:
            del container[key]
    return json.dumps(stored)


@given(st.integers(0, 2**32))
@inputs(5_000)
def test_mutated_forests(seed):
    draw = random.Random(seed)
    forest = random_forest(seed % 50, "exact", [1, 4, 9], 3)
    read_and_used(from_json, mutated(draw, json.loads(to_json(forest))))


@cache
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    X[:, 2] = rng.integers(0, 9, 300)
    return X, (X[:, 0] + np.isin(X[:, 2], [1, 4]) > 0.5).astype(float)


@cache
def xgboost_booster():
    xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")
    X, y = data()
    kinds = ["float", "float", "c"]
    rows = xgboost.DMatrix(X, y, feature_types=kinds, enable_categorical=True)
    settings = {"objective": "binary:logistic", "max_depth": 3, "max_cat_to_onehot": 1}
    return xgboost.train(settings, rows, 2)


@cache
def xgboost_model():
    stored = json.loads(xgboost_booster().save_raw("json"))
    # Only these fields are read.
    used = {"tree_param", "left_children", "right_children", "split_indices", "split_conditions"}
    used |= {"default_left", "split_type", "categories", "categories_nodes"}
    used |= {"categories_segments", "categories_sizes"}
    model = stored["learner"]["gradient_booster"]["model"]
    model["trees"] = [{name: tree[name] for name in used} for tree in model["trees"]]
    return json.dumps(stored)


@given(st.integers(0, 2**32))
@inputs(5_000)
def test_mutated_xgboost_models(seed):
    read_and_used(from_xgboost, mutated(random.Random(seed), json.loads(xgboost_model())))


@given(st.integers(0, 2**32))
@inputs(5_000)
def test_mutated_bytes_of_xgboost_models(seed):
    draw, model = random.Random(seed), xgboost_booster().save_raw("ubj")
    for _ in range(draw.randrange(1, 3)):
        at, some = draw.randrange(len(model)), draw.randbytes(draw.choice([1, 1, 4]))
        model[at : at + draw.choice([0, len(some), len(some), len(some)])] = some
    if draw.random() < 0.2:
        del model[draw.randrange(len(model)) :]
    read_and_used(from_xgboost, model)


@cache
def lightgbm_model():
    lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    X, y = data()
    settings = {"objective": "binary", "num_leaves": 6, "verbose": -1, "min_data_per_group": 5}
    rows = lightgbm.Dataset(X, y, categorical_feature=[2])
    text = lightgbm.train(settings | {"cat_smooth": 1.0}, rows, 2).model_to_string()
    return text.partition("\nfeature_importances")[0]


@given(st.integers(0, 2**32))
@inputs(5_000)
def test_mutated_lightgbm_models(seed):
    draw = random.Random(seed)
    lines = lightgbm_model().splitlines()
    for _ in range(draw.randrange(1, 4)):
        k = draw.randrange(len(lines))
        name, sign, value = lines[k].partition("=")
        parts = value.split(" ")
        parts[draw.randrange(len(parts))] = draw.choice(
            ["", "0", "-1", "1", "2", "-3", "9", "1e308", "nan", "inf", "x", str(2**31), str(2**70)]
        )
        lines[k] = draw.choice([name + sign + " ".join(parts), "", name])
    read_and_used(from_lightgbm, "\n".join(lines))
