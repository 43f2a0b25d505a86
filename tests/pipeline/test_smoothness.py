"""The smoothness of curves in a pipeline: its choice, its refit, and what contradicts it."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy import linalg

from spark_auc import train
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.pipeline import method_fit, pipeline_fit
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator
from spark_auc.serving.tables import columns_of
from spark_auc.tables.arrow_table import ArrowTable


def frame(n=600, seed=0):
    """A wave, a line, and words; some numbers are missing."""
    rng = np.random.default_rng(seed)
    wave, line = rng.uniform(size=n), rng.normal(size=n)
    word = rng.choice(list("abc"), n)
    y = np.sin(7 * wave) + 0.3 * line + (word == "a") + 0.6 * rng.normal(size=n) > 0.5
    wave[rng.random(n) < 0.05] = np.nan
    return pd.DataFrame({"wave": wave, "line": line, "word": word, "y": y})


def fitted(rows, recipe=(), **settings):
    stages = [
        RecipeEstimator(labelCol="y", **dict(recipe)),
        MBAEstimator(labelCol="y", **settings),
    ]
    return PipelineEstimator(stages).fitted(ArrowTable.of(pa.Table.from_pandas(rows)))


@pytest.mark.parametrize("standardization", [False, True])
def test_weights_are_those_of_the_penalty_on_all_pairs(standardization):
    rows = frame()
    settings = {"regParam": 0.02, "smoothness": 5.0, "standardization": standardization}
    model = fitted(rows, {"numKnots": 12, "pairs": [["wave", "line"]]}, **settings)
    recipe = model.recipe
    X = recipe.transform(columns_of(pa.Table.from_pandas(rows), recipe)).toarray()
    y = rows["y"].to_numpy()
    pairs = (X[y][:, None, :] - X[~y][None, :, :]).reshape(-1, X.shape[1])
    P = np.eye(recipe.size)
    first = 0
    for column in recipe.numeric:
        m = len(column.knots)
        assert m > 6
        D = linalg.toeplitz([1.0] + [0.0] * (m - 3), [1.0, -2.0, 1.0] + [0.0] * (m - 3))
        block = 5.0 * 10 / 3 * (m / 24) ** 3 * D.T @ D + 0.1 * np.eye(m)
        P[first : first + m, first : first + m] = block
        # Each column has an indicator of missing values.
        first += m + 1
    if standardization:
        scale = X.std(axis=0, ddof=1)
        scale[scale == 0] = 1.0
        P *= np.outer(scale, scale)
    w = np.linalg.lstsq(pairs.T @ pairs / len(pairs) + 0.02 * P, pairs.mean(axis=0), rcond=None)[0]
    varies = X.std(axis=0) > 0
    np.testing.assert_allclose(model.ranker.scorer.w[varies], w[varies], rtol=1e-6, atol=1e-9)
    assert model.summary.certificate["reason"] == "converged"
    assert model.summary.smoothness == 5.0


def test_the_best_of_four_is_chosen_and_told():
    model = fitted(frame(), {"numKnots": 20}, smoothness="auto")
    selection = model.summary.selection
    best = {}
    for candidate in selection["candidates"]:
        smoothness = candidate["smoothness"]
        best[smoothness] = max(best.get(smoothness, 0.0), candidate["auc"])
    assert sorted(best) == [0.1, 1.0, 10.0, 100.0]
    chosen = selection["candidates"][selection["chosen"]]
    assert chosen["smoothness"] == max(best, key=best.get) == model.summary.smoothness
    for smoothness, auc in best.items():
        alone = fitted(frame(), {"numKnots": 20}, smoothness=smoothness).summary.selection
        assert alone["candidates"][alone["chosen"]]["auc"] == pytest.approx(auc, abs=1e-12)


def test_more_knots_do_no_harm():
    new = frame(4000, 1)
    aucs = {}
    for smoothness in (None, "auto"):
        for knots in (8, 60):
            model = fitted(frame(200), {"numKnots": knots}, smoothness=smoothness)
            table = ArrowTable.of(pa.Table.from_pandas(new))
            aucs[smoothness, knots] = model.evaluate(table).auc
    assert aucs[None, 60] < aucs[None, 8] - 0.005
    assert aucs["auto", 60] > aucs["auto", 8] - 0.005
    assert aucs["auto", 60] > aucs[None, 60] + 0.01


def test_all_rows_train_with_the_smoothness_that_was_chosen():
    trained = train(frame(), "y")
    alone = train(frame(), "y", refit=False)
    assert trained.model.summary.smoothness == alone.model.summary.smoothness is not None
    assert sum(trained.model.summary.rows.values()) == 600
    given = alone.model.summary
    again = fitted(frame(), {"numKnots": 20}, regParam=given.reg_param, smoothness=given.smoothness)
    assert again.recipe.size == trained.model.recipe.size


def test_rows_without_curves_have_a_ridge():
    words = frame()[["word", "y"]].assign(other=lambda rows: rows["word"] == "a")
    model = train(words, "y").model
    assert model.summary.smoothness is None
    assert "smoothness" not in model.summary.as_dict()


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"elasticNetParam": 0.5, "regParam": 0.1}, "found smoothness with elasticNetParam"),
        ({"covariance": "head"}, "found smoothness with covariance"),
        ({"estimator": "paired"}, "found smoothness with estimator"),
        ({"segmentCol": "word"}, "found smoothness with segmentCol"),
    ],
)
def test_what_contradicts_it_is_refused(settings, found):
    with pytest.raises(ConfigError, match=found):
        fitted(frame(), smoothness=1.0, **settings)


def test_features_that_are_no_recipe_are_refused():
    table = ArrowTable.of(pa.Table.from_pandas(frame()[["line", "y"]]))
    with pytest.raises(ConfigError, match="not of a recipe"):
        MBAEstimator(labelCol="y", featuresCol=["line"], smoothness=1.0).fitted(table)


@pytest.mark.parametrize("training", [{"elasticNetParam": 0.5}, {"covariance": "head"}])
def test_the_default_gives_way_to_other_settings(training):
    model = train(frame(), "y", training=training, features={"pairs": None}).model
    assert model.summary.smoothness is None
    # Heights with a ridge alone need 30 rows each.
    assert {len(column.knots) for column in model.recipe.numeric} == {8}


def interacting(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = X[:, 0] * X[:, 1] + 0.3 * rng.normal(size=n) > 0
    return pd.DataFrame(X, columns=list("abc")).assign(y=y)


def test_pairs_beside_a_fixed_penalty():
    model = train(interacting(), "y", training={"regParam": 0.02, "smoothness": "auto"}).model
    assert model.summary.reg_param == 0.02
    straight = {"pairs": "auto", "numKnots": 2}
    model = fitted(interacting(), straight, regParam=0.02, smoothness="auto")
    assert model.summary.smoothness is None


@pytest.mark.parametrize(
    ("settings", "method"), [({}, "auto"), ({"maxFPR": 0.1}, None), ({}, None)]
)
def test_more_features_than_a_matrix_holds_of_which_few_occur(settings, method):
    features = {"dimension": 1 << 18} | ({"trees": None} if method else {})
    trained = train(frame(300), "y", training=settings, features=features, method=method)
    assert trained.model.summary.smoothness is not None
    assert trained.model.ranker.numFeatures > 1 << 18
    penalty = {"regParam": 0.02, "smoothness": 3.0}
    assert fitted(frame(), {"dimension": 1 << 18}, **penalty).summary.smoothness == 3.0


def test_the_second_step_has_the_same_penalty():
    rows = frame()
    penalty = {"regParam": 0.02, "smoothness": 5.0, "maxFPR": 0.1}
    recipe = {"numKnots": 12, "unit": False}
    narrow, wide = (fitted(rows, recipe | {"dimension": d}, **penalty) for d in (64, 1 << 18))
    first = len(narrow.recipe.names())
    one, other = (model.ranker.scorer.w[:first] for model in (narrow, wide))
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-9)
    del penalty["maxFPR"]
    once = fitted(rows, recipe | {"dimension": 64}, **penalty).ranker.scorer.w[:first]
    assert np.abs(once - one).max() > 1e-3


@pytest.mark.parametrize("method", [None, "auto"])
def test_none_turns_it_off(method):
    features = {"trees": None} if method else {}
    settings = {"training": {"smoothness": None}, "features": features, "method": method}
    assert train(frame(), "y", **settings).model.summary.smoothness is None


def test_trees_of_all_rows_have_no_curves():
    pytest.importorskip("lightgbm")
    features = {"trees": {"grow": {"growShare": 1, "numTrees": 3}}, "pairs": None}
    assert train(frame(), "y", features=features).model.summary.smoothness is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "no candidates are compared"),
        ({"maxFPR": 0.1}, "pairs and crosses of columns are left out"),
    ],
)
def test_a_failed_comparison_leaves_the_single_columns(monkeypatch, caplog, settings, told):
    def fail(*args, **kwargs):
        raise ConvergenceError("found no solution")

    monkeypatch.setattr(method_fit, "compared", fail)
    monkeypatch.setattr(pipeline_fit, "compared", fail)
    model = train(interacting(), "y", training=settings).model
    assert model.recipe.pairs == ()
    assert f"{told}: found no solution" in caplog.text


@pytest.mark.parametrize(
    ("rows", "columns", "knots"), [(600, 2, 20), (90, 9, 10), (40, 30, 2), (900, 150, 6)]
)
def test_the_number_of_knots_suits_columns_and_rows(rows, columns, knots):
    numbers = np.random.default_rng(0).normal(size=(rows, columns))
    made = pd.DataFrame(numbers, columns=[f"c{k}" for k in range(columns)])
    model = fitted(
        made.assign(y=numbers[:, 0] > 0), {"numKnots": "auto"}, regParam=1.0, smoothness=1.0
    )
    assert {len(column.knots) for column in model.recipe.numeric} == {knots}


@pytest.mark.parametrize(("knots", "form"), [(20, "rows"), (28, "tiles")])
def test_of_more_features_than_rows_curves_are_smooth(knots, form):
    numbers = np.random.default_rng(0).normal(size=(60, 90))
    made = pd.DataFrame(numbers, columns=[f"c{k}" for k in range(90)]).assign(y=numbers[:, 0] > 0)
    summary = fitted(made, {"numKnots": knots}, smoothness="auto").summary
    assert summary.form == form
    assert summary.smoothness in (0.1, 1, 10, 100)


def test_without_a_matrix_the_smoothness_is_1(monkeypatch):
    monkeypatch.setattr("spark_auc.training.problem.fits_in_matrix", lambda rows: False)
    summary = fitted(frame(), {"numKnots": 20}, smoothness="auto").summary
    assert (summary.form, summary.smoothness) == ("rows", 1.0)
