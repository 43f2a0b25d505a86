"""Trees of LightGBM models: the leaves and scores of the library itself."""

import re

import numpy as np
import pytest

from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.trees.forest_json import from_json, to_json
from spark_auc.trees.leaves import leaves
from spark_auc.trees.lightgbm_models import from_lightgbm, lightgbm_names
from tests.trees.forests import edge_rows, labels, same

lightgbm = pytest.importorskip("lightgbm", reason="lightgbm is not installed")

D = 6


def rows(n=3000):
    """Numbers, numbers with many zeros, categories, and numbers up to both infinities."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, D))
    X[:, 1] = X[:, 1].round(1) * (rng.random(n) < 0.6)
    X[:, 2] = rng.integers(-1, 70, n)
    X[:, 3] = rng.integers(0, 4, n)
    X[:, 4] = np.where(rng.random(n) < 0.2, np.inf, 10.0 ** rng.uniform(290, 308, n))
    X[:, 4] *= rng.choice([-1, 1], n)
    X[:, 5] *= 1e-35
    score = X[:, 0] + (X[:, 1] == 0) + np.isin(X[:, 2], [1, 5, 7, 20, 64]) + (X[:, 3] == 2)
    score += (np.abs(X[:, 4]) > 1e304) + np.sign(X[:, 5]) * (np.abs(X[:, 5]) > 1e-35)
    y = score + rng.normal(size=n) > 2.0
    X[rng.random(X.shape) < 0.1] = np.nan
    return X, y.astype(float)


X, Y = rows()


def trained(columns=slice(None), rounds=12, labels=Y, **settings):
    defaults = {
        "objective": "binary",
        "verbose": -1,
        "num_threads": 1,
        "num_leaves": 15,
        "min_data_in_leaf": 2,
        "min_data_in_bin": 1,
        "min_data_per_group": 5,
        "cat_smooth": 1.0,
    }
    kinds = settings.pop("categorical_feature", [2, 3])
    data = lightgbm.Dataset(X[:, columns], labels, categorical_feature=kinds)
    return lightgbm.train(defaults | settings, data, rounds)


def check(model, forest=None):
    """Leaves and scores of rows at the edges of all nodes are those of the library."""
    forest = forest or from_lightgbm(model.model_to_string())
    hostile = np.concatenate([edge_rows(forest, 4000), X[:200, : forest.columns]])
    found = leaves(forest, hostile)
    np.testing.assert_array_equal(
        labels(forest, found), model.predict(hostile, pred_leaf=True).reshape(len(hostile), -1)
    )
    scores = found @ forest.values + forest.offset
    np.testing.assert_allclose(scores, model.predict(hostile, raw_score=True), rtol=1e-12)
    one = hostile[:1]
    assert (
        labels(forest, leaves(forest, one))[0, 0] == np.ravel(model.predict(one, pred_leaf=True))[0]
    )
    assert same(from_json(to_json(forest)), forest)
    return forest


def loaded(text):
    """The library's model of a changed text, without the lengths of its trees."""
    return lightgbm.Booster(model_str=re.sub(r"\ntree_sizes=.*", "", text))


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        ({}, {0, 1, 4}),
        ({"zero_as_missing": True}, {2, 3, 4}),
        ({"use_missing": False}, {0, 1, 4}),
        ({"max_cat_to_onehot": 100}, {0, 1, 4}),
        ({"num_leaves": 64}, {0, 1, 4}),
        ({"num_leaves": 65, "rounds": 3}, {0, 1, 4}),
        ({"num_leaves": 200, "rounds": 3, "zero_as_missing": True}, {2, 3, 4}),
        ({"num_leaves": 2}, set()),
        ({"boosting": "dart", "drop_rate": 0.5}, {0, 1, 4}),
        ({"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.5}, {0, 1, 4}),
        ({"objective": "lambdarank", "rounds": 2}, set()),
        ({"objective": "regression"}, {0, 1, 4}),
    ],
)
def test_leaves_are_those_of_lightgbm(settings, rules):
    if settings.get("objective") == "lambdarank":
        data = lightgbm.Dataset(X, Y, group=[30] * 100)
        model = lightgbm.train(settings | {"verbose": -1, "num_threads": 1}, data, 2)
    else:
        model = trained(**settings)
    forest = check(model)
    assert rules <= set(forest.rule.tolist())


def test_thresholds_beyond_the_digits_of_dump_model_are_read():
    """The JSON of dump_model writes all of these as 1e300, and rows would change their leaf."""
    model = trained([4], categorical_feature="auto")
    forest = check(model)
    assert np.unique(forest.threshold[forest.threshold > 1e300]).size > 2
    assert (forest.threshold < -1e300).any()
    assert '"threshold":1e+300' in str(model.dump_model()).replace("'", '"').replace(" ", "")


def test_infinite_thresholds_return_from_json():
    """A split of numbers from missing values alone has the last bound, which is infinite."""
    missing = np.where(np.arange(3000) % 3 == 0, np.nan, X[:, 0])
    data = lightgbm.Dataset(missing[:, None], np.isnan(missing).astype(float))
    model = lightgbm.train({"objective": "binary", "verbose": -1, "num_threads": 1}, data, 2)
    text = model.model_to_string()
    forest = check(model)
    assert same(forest, from_lightgbm(text))
    changed = re.sub(r"\nthreshold=\S+", "\nthreshold=inf", text)
    assert np.isinf(check(loaded(changed)).threshold).any()


def test_thresholds_next_to_zero_are_those_of_lightgbm():
    """Values up to 1e-35 count as 0, also where a threshold lies among them."""
    text = trained([5], categorical_feature="auto").model_to_string()
    for cut in ("0", "-0", "1e-36", "-1e-36", "1.0000000180025095e-35", "-1.0000000180025095e-35"):
        for decision in ("0", "2", "4", "6", "8", "10"):
            changed = re.sub(r"\nthreshold=\S+", f"\nthreshold={cut}", text)
            changed = re.sub(r"\ndecision_type=\S+", f"\ndecision_type={decision}", changed)
            check(loaded(changed), from_lightgbm(changed))


def test_trees_of_a_single_leaf_are_read():
    check(trained(min_data_in_leaf=2000, rounds=1))
    forest = from_lightgbm(trained(min_data_in_leaf=2000, rounds=1).model_to_string())
    assert (forest.trees, forest.leaves) == (1, 1)


def test_rows_are_read_from_the_best_iteration_as_lightgbm_does(tmp_path):
    model = trained()
    model.best_iteration = 5
    assert check(model).trees == 5
    model.save_model(tmp_path / "model.txt")
    assert same(from_lightgbm((tmp_path / "model.txt").read_text()), check(model))


TEXT = trained(rounds=2).model_to_string()


def replaced(name, value):
    found = re.search(rf"\n{name}=(.*)", TEXT)
    return TEXT.replace(found[0], f"\n{name}={value(found[1])}", 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "expected that of a LightGBM model"),
        ("{}", "expected that of a LightGBM model"),
        (TEXT[: TEXT.index("Tree=1") + 200], "ends within a tree"),
        (TEXT.partition("Tree=0")[0], "found 0 trees"),
        (replaced("num_tree_per_iteration", lambda v: "3"), "num_tree_per_iteration=3"),
        (replaced("is_linear", lambda v: "1"), "linear_tree=False"),
        (replaced("max_feature_idx", lambda v: "2"), "column indices outside"),
        (replaced("max_feature_idx", lambda v: "x"), "ValueError"),
        (replaced("leaf_value", lambda v: "nan " + v), "unequal lengths"),
        (replaced("leaf_value", lambda v: "inf" + v[v.index(" ") :]), "not finite"),
        (replaced("left_child", lambda v: "0" + v[v.index(" ") :]), "neither a later node"),
        (replaced("right_child", lambda v: "99" + v[v.index(" ") :]), "neither a later node"),
        (replaced("right_child", lambda v: str(2**33) + v[v.index(" ") :]), "too large"),
        (replaced("threshold", lambda v: "nan" + v[v.index(" ") :]), "damaged trees"),
        (
            replaced("threshold", lambda v: " ".join(map(str, range(9, 23)))),
            r"threshold of a set\)",
        ),
        (replaced("threshold", lambda v: " ".join(["0"] * 14)), "that another node has"),
        (replaced("decision_type", lambda v: "12" + v[v.index(" ") :]), "decision_type"),
        (replaced("cat_boundaries", lambda v: v.replace("0 ", "0 9999 ", 1)), "cat_boundaries"),
        (replaced("cat_threshold", lambda v: "-1 " + v), "damaged trees"),
        (TEXT.replace("\nsplit_feature=", "\nsplit=", 1), "KeyError 'split_feature'"),
    ],
)
def test_damaged_and_other_models_are_refused(text, said):
    with pytest.raises(ModelFormatError, match=said):
        from_lightgbm(text)


def test_models_of_several_classes_and_linear_trees_are_refused():
    with pytest.raises(ModelFormatError, match="num_tree_per_iteration=3"):
        from_lightgbm(
            trained(objective="multiclass", num_class=3, labels=Y + (X[:, 0] > 1)).model_to_string()
        )
    with pytest.raises(ModelFormatError, match="linear_tree=False"):
        from_lightgbm(
            trained([0, 1], linear_tree=True, categorical_feature="auto").model_to_string()
        )


def test_names_are_those_of_the_columns():
    data = lightgbm.Dataset(X[:, :4], Y, feature_name=["a", "b c d", "ü", "x_y"])
    model = lightgbm.train({"objective": "binary", "verbose": -1}, data, 1)
    assert lightgbm_names(model.model_to_string()) == ["a", "b_c_d", "ü", "x_y"]
    assert lightgbm_names(TEXT) == [f"Column_{k}" for k in range(D)]
    for wrong in ("", "feature_names=a b\n"):
        with pytest.raises(ModelFormatError, match="not one name for each column"):
            lightgbm_names(re.sub(r"feature_names=.*\n", wrong, TEXT))


@pytest.mark.parametrize(("values", "said"), [([10, 20], r"\[10, 20\]"), (["b", "a"], "'a', 'b'")])
def test_columns_of_pandas_categories_have_other_numbers(values, said):
    """The trees have places of values, so that the values alone would find other leaves."""
    pandas = pytest.importorskip("pandas")

    def named(categories):
        kind = pandas.Categorical(np.array(categories)[(X[:, 3] == 2).astype(int)])
        table = pandas.DataFrame({"a": X[:, 0], "kind": kind})
        model = lightgbm.train(
            {"objective": "binary", "verbose": -1}, lightgbm.Dataset(table, Y), 2
        )
        return model.model_to_string()

    assert lightgbm_names(named([0, 1])) == ["a", "kind"]
    with pytest.raises(ConfigError, match=f"found categories .*{said}.* set trees.columns"):
        lightgbm_names(named(values))
    with pytest.raises(ModelFormatError, match="pandas_categorical"):
        lightgbm_names(named([0, 1]).replace("pandas_categorical:[[", "pandas_categorical:[3, [["))
