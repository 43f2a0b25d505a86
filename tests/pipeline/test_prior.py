"""An earlier model as the centre of the penalty, against all pairs of the rows."""

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError
from spark_auc.pipeline.estimators import (
    MBAEstimator,
    MBASelectingEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.pipeline.models import PipelineModel
from spark_auc.tables.arrow_table import ArrowTable

ROWS, NAMES = 300, ["a", "b", "c"]


def table(seed, names=NAMES):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 4)) * [1, 10, 0.1, 2]
    y = X @ [1, 0.1, -5, 0.5] + rng.normal(size=ROWS) > 1
    columns = dict(zip("abcd", X.T, strict=True))
    return pa.table({name: columns[name] for name in names} | {"label": y.astype(float)})


def expected(before, reg):
    """Weights by all pairs, and the factor of the prior."""
    X = np.column_stack([table(1)[name].to_numpy() for name in NAMES])
    y = table(1)["label"].to_numpy() > 0
    D = (X[y][:, None] - X[~y]).reshape(-1, 3)
    Sigma, mu, penalty = D.T @ D / len(D), D.mean(axis=0), reg * np.diag(X.var(axis=0, ddof=1))
    weights = dict(zip(before.scorer.names, before.scorer.w, strict=True))
    w0 = np.array([weights.get(name, 0.0) for name in NAMES])
    c = w0 @ mu / (w0 @ Sigma @ w0)
    return np.linalg.solve(Sigma + penalty, mu + penalty @ (c * w0)), c


@pytest.fixture(scope="module")
def rows():
    return ArrowTable.of(table(1), 130)


@pytest.fixture(scope="module")
def before():
    names = ["c", "a", "d"]
    return MBAEstimator(featuresCol=names, regParam=0.01).fitted(ArrowTable.of(table(0, names)))


def test_weights_go_by_name_and_are_those_of_all_pairs(rows, before, tmp_path, caplog):
    PipelineModel(before).save(str(tmp_path / "before"))
    w, c = expected(before, 0.5)
    for prior in (before, str(tmp_path / "before")):
        model = MBAEstimator(featuresCol=NAMES, regParam=0.5, prior=prior).fitted(rows)
        np.testing.assert_allclose(model.scorer.w, w, rtol=1e-9)
        told = dict(model.summary.prior)
        assert told.pop("scale") == pytest.approx(c, rel=1e-9)
        assert told == {"shared": 2, "new": 1, "absent": 1, "largestAbsent": ["d"]}
        assert "1 of 3 features of the prior are not in the rows" in caplog.text


def test_folds_choose_between_both_centres(rows, before):
    grid = {"featuresCol": NAMES, "regParams": [0.1, 10.0], "numFolds": 3}
    model = MBASelectingEstimator(prior=before, **grid).fitted(rows)
    found = model.summary.selection["candidates"]
    assert [(c["regParam"], c["prior"]) for c in found] == [
        (0.1, False),
        (10.0, False),
        (0.1, True),
        (10.0, True),
    ]
    plain = MBASelectingEstimator(**grid).fitted(rows).summary.selection["candidates"]
    assert [c["folds"] for c in found[:2]] == [c["folds"] for c in plain]
    chosen = found[model.summary.selection["chosen"]]
    if chosen["prior"]:
        np.testing.assert_allclose(
            model.scorer.w, expected(before, chosen["regParam"])[0], rtol=1e-9
        )
    assert (model.summary.prior["scale"] is None) != chosen["prior"]


def test_pipelines_of_one_recipe_and_of_another(rows):
    raw = RecipeEstimator(leaveOut=["label"], numKnots=4)
    earlier = PipelineEstimator([raw, MBAEstimator(regParam=0.01)]).fitted(ArrowTable.of(table(0)))

    def fitted(recipe, reg):
        ranker = MBAEstimator(regParam=reg, prior=earlier)
        return PipelineEstimator([recipe, ranker]).fitted(rows).ranker

    same = fitted(earlier.fitted_recipe, 0.01)
    told = same.summary.prior
    assert (told["shared"], told["new"], told["absent"]) == (same.scorer.w.size, 0, 0)
    # A strong penalty leaves the ranking as it is.
    strong, w0 = fitted(earlier.fitted_recipe, 1e9), earlier.ranker.scorer.w
    np.testing.assert_allclose(
        strong.scorer.w, strong.summary.prior["scale"] * w0, rtol=1e-6, atol=1e-9
    )
    # Hats on other knots are other features; a missing value is the same one.
    told = fitted(raw, 0.01).summary.prior
    assert told["absent"] == same.scorer.w.size - told["shared"]
    assert all(name.endswith("(another map)") for name in told["largestAbsent"])
    with pytest.raises(ConfigError, match="prior with a recipe for features without one"):
        MBAEstimator(featuresCol=NAMES, regParam=0.01, prior=earlier).fitted(rows)


def test_what_is_refused(rows, before):
    paired = MBAEstimator(featuresCol=NAMES, regParam=0.1, prior=before, estimator="paired")
    with pytest.raises(ConfigError, match="found prior with estimator 'paired'"):
        paired.fitted(rows)
    with pytest.raises(TypeError, match="expected a string or a FittedRanker"):
        MBAEstimator(prior=1.0)
