"""Trees of XGBoost models: the leaves and scores of the library itself."""

import json
import tracemalloc

import numpy as np
import pytest

from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.trees.forest_json import from_json, to_json
from spark_auc.trees.leaves import leaves
from spark_auc.trees.xgboost_models import float32_threshold, from_xgboost, xgboost_names
from tests.trees.forests import edge_rows, labels, same

xgboost = pytest.importorskip("xgboost", reason="xgboost is not installed")

D = 6
KINDS = ["float", "float", "c", "c", "float", "float"]


def rows(n=3000):
    """Numbers, numbers with many zeros, categories, and numbers up to those of float32."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    X[:, 1] = X[:, 1].round(1) * (rng.random(n) < 0.6)
    X[:, 2] = rng.integers(0, 70, n)
    X[:, 3] = rng.integers(0, 4, n)
    X[:, 4] = 10.0 ** rng.uniform(30, 38, n) * rng.choice([-1, 1], n)
    X[:, 5] *= 1e-42
    score = X[:, 0] + (X[:, 1] == 0) + np.isin(X[:, 2], [1, 5, 7, 20, 64]) + (X[:, 3] == 2)
    score += (np.abs(X[:, 4]) > 1e34) + (X[:, 5] > 0)
    y = score + rng.normal(size=n) > 2.0
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y.astype(float)


X, Y = rows()


def matrix(some, y=None, kinds=KINDS):
    return xgboost.DMatrix(some, y, feature_types=kinds, enable_categorical=True, nthread=1)


def trained(rounds=12, y=Y, **settings):
    data = matrix(X, y, settings.pop("kinds", KINDS))
    defaults = {"objective": "binary:logistic", "max_depth": 5, "nthread": 1, "min_child_weight": 0}
    return xgboost.train(defaults | settings, data, rounds)


def check(model, kinds=KINDS):
    """Leaves and scores of rows at the edges of all nodes are those of the library."""
    forest = from_xgboost(model.save_raw("json"))
    assert same(from_xgboost(model.save_raw("ubj")), forest)
    hostile = edge_rows(forest, 6000)
    with np.errstate(over="ignore"):
        # The library refuses infinite numbers.
        hostile[np.isinf(hostile.astype(np.float32))] = 3.4e38
    hostile = np.concatenate([hostile, X[:200]])
    data, found = matrix(hostile, kinds=kinds), leaves(forest, hostile)
    np.testing.assert_array_equal(
        labels(forest, found), model.predict(data, pred_leaf=True).reshape(len(hostile), -1)
    )
    # The library adds float32 numbers.
    scores = found @ forest.values + forest.offset
    np.testing.assert_allclose(scores, model.predict(data, output_margin=True), rtol=0, atol=4e-6)
    one = model.predict(matrix(hostile[:1], kinds=kinds), pred_leaf=True)
    np.testing.assert_array_equal(labels(forest, leaves(forest, hostile[:1]))[0], np.ravel(one))
    assert same(from_json(to_json(forest)), forest)
    return forest


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"max_cat_to_onehot": 100},
        {"max_cat_to_onehot": 1},
        {"grow_policy": "lossguide", "max_leaves": 64, "max_depth": 0},
        {"max_leaves": 200, "max_depth": 9, "rounds": 3},
        {"max_depth": 1},
        {"gamma": 5.0, "max_depth": 6},
        {"booster": "dart", "rate_drop": 0.5},
        {"num_parallel_tree": 3, "subsample": 0.5, "rounds": 4},
        {"tree_method": "approx"},
        {"tree_method": "exact", "kinds": None},
        {"tree_method": "exact", "kinds": None, "gamma": 3.0, "max_depth": 8},
    ],
)
def test_leaves_are_those_of_xgboost(settings):
    kinds = settings.get("kinds", KINDS)
    forest = check(trained(**settings), kinds)
    assert set(forest.rule.tolist()) >= ({0, 1} if kinds is None else {12, 13})


@pytest.mark.parametrize(
    "objective",
    [
        "reg:logistic",
        "binary:logitraw",
        "binary:hinge",
        "reg:squarederror",
        "reg:pseudohubererror",
        "reg:gamma",
        "reg:tweedie",
        "count:poisson",
        "survival:cox",
        "rank:pairwise",
    ],
)
def test_the_base_score_is_added_as_xgboost_adds_it(objective):
    positive = objective in ("reg:gamma", "survival:cox")
    for settings in ({}, {"base_score": 0.8}):
        forest = check(trained(3, Y + 0.5 if positive else Y, objective=objective, **settings))
    assert forest.offset != 0.0


def test_trees_of_a_single_leaf_are_read():
    forest = check(trained(rounds=2, gamma=1e6))
    assert (forest.trees, forest.leaves) == (2, 2)


def test_trees_after_the_best_iteration_are_read_unless_left_out():
    model = xgboost.XGBClassifier(n_estimators=50, learning_rate=1.0, early_stopping_rounds=3)
    some = X[:, :2]
    model.fit(some[:300], Y[:300], eval_set=[(some[300:], Y[300:])], verbose=False)
    booster, best = model.get_booster(), model.best_iteration + 1
    assert from_xgboost(booster.save_raw("json")).trees == booster.num_boosted_rounds() > best
    forest = from_xgboost(booster[:best].save_raw("json"))
    scores = leaves(forest, some) @ forest.values + forest.offset
    assert forest.trees == best
    np.testing.assert_allclose(scores, model.predict(some, output_margin=True), atol=4e-6)


def test_thresholds_of_float32_are_doubles():
    """All floats near 0 and near the largest, and random ones, against numpy's rounding."""
    rng = np.random.default_rng(0)
    bits = rng.integers(2**32, size=50_000, dtype=np.uint32)
    ends = np.arange(1000, dtype=np.uint32)
    ends = np.concatenate([ends, ends + np.uint32(2**31), np.uint32(0x7F800000) - ends])
    t = np.concatenate([bits, ends, np.uint32(0xFF7FFFFF) - ends[:100]]).view(np.float32)
    t = t[t > -np.inf]
    assert np.isinf(t).any()
    cut = float32_threshold(t)
    with np.errstate(over="ignore"):
        assert (cut.astype(np.float32) < t).all()
        assert not (np.nextafter(cut, np.inf).astype(np.float32) < t).any()
    for wrong in (np.nan, -np.inf):
        with pytest.raises(ModelFormatError, match="NaN or minus infinity"):
            float32_threshold(np.array([1, wrong], np.float32))


MODEL = json.loads(trained(rounds=2, max_cat_to_onehot=1).save_raw("json"))


def changed(**fields):
    """The model with changed fields of its first tree, of the booster, or of the learner."""
    model = json.loads(json.dumps(MODEL))
    learner = model["learner"]
    tree = learner["gradient_booster"]["model"]["trees"][0]
    for name, value in fields.items():
        places = [learner["learner_model_param"], tree, tree["tree_param"]]
        places += [learner["gradient_booster"]]
        place = next(p for p in places if name in p)
        place[name] = value(place[name]) if callable(value) else value
    return json.dumps(model)


def first(value):
    return lambda values: [value, *values[1:]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected an XGBoost model in JSON or UBJ"),
        ("[]", "expected an XGBoost model in JSON or UBJ"),
        ("[" * 10**5, "expected an XGBoost model in JSON or UBJ"),
        ('{"learner": 3}', "expected an XGBoost model in JSON or UBJ"),
        (b"{" + bytes(1000), "expected an XGBoost model in JSON or UBJ"),
        (b"{}", "expected an XGBoost model in JSON or UBJ"),
        (changed(num_class="3"), "found an XGBoost model of 3 classes and 1 targets"),
        (changed(num_target="2"), "found an XGBoost model of 0 classes and 2 targets"),
        (changed(size_leaf_vector="2"), "expected one score per row"),
        (changed(name="gblinear"), "expected trees; train it with gbtree or dart"),
        (changed(num_feature="2"), "column indices outside 0 to 1"),
        (changed(base_score="2"), "ValueError base_score"),
        (changed(base_score="[]"), "ValueError"),
        (changed(left_children=first(0)), "two nodes have the same child"),
        (changed(left_children=lambda v: [v[0], 0, *v[2:]]), "two nodes have the same child"),
        (changed(left_children=first(-1)), "a node has a single child"),
        (changed(left_children=first(10**6)), "one that is no node"),
        (changed(left_children=first(2**70)), "a list of whole numbers"),
        (changed(left_children=first(0.5)), "a list of whole numbers"),
        (changed(left_children=[]), "unequal numbers"),
        (changed(split_indices=[0]), "unequal lengths"),
        (changed(split_indices=None), "damaged trees"),
        (changed(default_left=lambda v: v[:-1]), "unequal lengths"),
        (changed(split_conditions=lambda v: [float("nan")] * len(v)), "NaN or minus infinity"),
        (changed(split_conditions=lambda v: ["a"] * len(v)), "ValueError"),
        (changed(split_conditions=lambda v: [1e300] * len(v)), "not finite"),
        (changed(categories=lambda v: [-1] * len(v)), r"has one outside 0 to 16777216"),
        (changed(categories=lambda v: [2**30] * len(v)), r"has one outside 0 to 16777216"),
        (changed(categories=[]), "categories_segments"),
        (changed(categories_nodes=first(10**6)), "categories_segments"),
        (changed(categories_nodes=[]), "ValueError"),
    ],
)
def test_damaged_and_other_models_are_refused(text, said):
    with pytest.raises(ModelFormatError, match=said):
        from_xgboost(text)


def test_sets_of_categories_are_bounded():
    """A short file whose sets would take some 400 MB, with one category each."""
    tree = {
        "tree_param": {"size_leaf_vector": "0"},
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [0, 0, 0],
        "split_conditions": [0, 1, 2],
        "default_left": [0, 0, 0],
        "split_type": [1, 0, 0],
        "categories": [2**24],
        "categories_nodes": [0],
        "categories_segments": [0],
        "categories_sizes": [1],
    }
    model = json.loads(changed(num_feature="1"))
    model["learner"]["gradient_booster"]["model"]["trees"] = [tree] * 200
    tracemalloc.start()
    with pytest.raises(ModelFormatError, match="sets of categories of more than 64 MiB"):
        from_xgboost(json.dumps(model))
    assert tracemalloc.get_traced_memory()[1] < 100 * 2**20
    tracemalloc.stop()
    model["learner"]["gradient_booster"]["model"]["trees"] = [tree] * 31
    assert from_xgboost(json.dumps(model)).words.size == 31 * (2**19 + 1)


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_models_of_several_scores_are_refused(form):
    labels = np.clip(X[:, 0].round(), -1, 1)
    for settings in (
        {"objective": "multi:softprob", "num_class": 3, "y": np.nan_to_num(labels) + 1},
        {"objective": "reg:squarederror", "y": np.stack([Y, 1 - Y], axis=1)},
        {
            "objective": "reg:squarederror",
            "y": np.stack([Y, 1 - Y], axis=1),
            "multi_strategy": "multi_output_tree",
            "kinds": None,
            "tree_method": "hist",
        },
    ):
        with pytest.raises(ModelFormatError, match="expected one score per row"):
            from_xgboost(trained(rounds=2, **settings).save_raw(form))
    linear = trained(rounds=1, booster="gblinear", kinds=None, max_depth=None)
    with pytest.raises(ModelFormatError, match="booster='gblinear'"):
        from_xgboost(linear.save_raw(form))


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_names_are_those_of_the_columns(form):
    names = ["a", "b c", "ü", "x_y", "e.f", "0"]
    data = xgboost.DMatrix(X, Y, feature_names=names, nthread=1)
    named = xgboost.train({"objective": "binary:logistic"}, data, 1)
    assert xgboost_names(named.save_raw(form)) == names
    assert xgboost_names(trained(rounds=1).save_raw(form)) == []


@pytest.mark.parametrize("names", [["a"], "abcdef", [1, 2, 3, 4, 5, 6], None, {}])
def test_names_that_are_not_one_for_each_column_are_refused(names):
    model = json.loads(json.dumps(MODEL))
    model["learner"]["feature_names"] = names
    with pytest.raises(ModelFormatError, match="not one name for each column"):
        xgboost_names(json.dumps(model))


@pytest.mark.parametrize("form", ["json", "ubj"])
def test_columns_of_pandas_categories_have_other_numbers(form):
    """The trees have places of values, so that the values alone would find other leaves."""
    pandas = pytest.importorskip("pandas")

    def named(categories):
        kind = pandas.Categorical(np.array(categories)[(X[:, 3] == 2).astype(int)])
        table = pandas.DataFrame({"a": X[:, 0], "kind": kind})
        data = xgboost.DMatrix(table, Y, enable_categorical=True, nthread=1)
        return xgboost.train({"objective": "binary:logistic"}, data, 2).save_raw(form)

    assert xgboost_names(named([0, 1])) == ["a", "kind"]
    for values, said in (([10, 20], r"\[10, 20\]"), (["b", "ä"], "'b', '")):
        assert same(from_xgboost(named(values)), from_xgboost(named([0, 1])))
        with pytest.raises(ConfigError, match=f"found categories .*{said}.* set trees.columns"):
            xgboost_names(named(values))


@pytest.mark.parametrize(
    "kept", [{"enc": 3}, {"enc": [{}]}, {"enc": [{"values": [0], "offsets": ["a"]}]}, 3]
)
def test_damaged_categories_are_refused(kept):
    model = json.loads(json.dumps(MODEL))
    model["learner"]["feature_names"] = []
    model["learner"]["gradient_booster"]["model"]["cats"] = kept
    with pytest.raises(ModelFormatError, match="damaged trees"):
        xgboost_names(json.dumps(model))
