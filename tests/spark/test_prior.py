"""An earlier model as the centre of the penalty, against all pairs of the rows."""

import numpy as np
import pyarrow as pa
import pytest

from spark_auc import (
    FeatureRecipe,
    LinearRankerModel,
    MBAClassifier,
    MBASelector,
    NystroemEmbedding,
    OPAUCClassifier,
    RankerPipeline,
    SOLAMClassifier,
)
from spark_auc.errors import ConfigError

ROWS, NAMES = 300, ["a", "b", "c"]


def table(seed, names=NAMES):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 4)) * [1, 10, 0.1, 2]
    y = X @ [1, 0.1, -5, 0.5] + rng.normal(size=ROWS) > 1
    columns = dict(zip("abcd", X.T, strict=True))
    return pa.table({name: columns[name] for name in names} | {"label": y.astype(float)})


@pytest.fixture(scope="module")
def before(spark):
    rows = spark.createDataFrame(table(0, ["c", "a", "d"]))
    return MBAClassifier(featuresCol=["c", "a", "d"], regParam=0.01).fit(rows)


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(table(1)).cache()


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


def test_weights_go_by_name_and_are_those_of_all_pairs(rows, before, tmp_path, caplog):
    before.save(str(tmp_path / "before"))
    w, c = expected(before, 0.5)
    for prior in (before, str(tmp_path / "before")):
        estimator = MBAClassifier(featuresCol=NAMES, regParam=0.5, prior=prior)
        model = estimator.fit(rows)
        np.testing.assert_allclose(model.scorer.w, w, rtol=1e-9)
        told = dict(model.summary.prior)
        assert told.pop("scale") == pytest.approx(c, rel=1e-9)
        assert told == {"shared": 2, "new": 1, "absent": 1, "largestAbsent": ["d"]}
        assert not model.hasParam("prior")
        assert "1 of 3 features of the prior are not in the rows" in caplog.text
    # The path is stored with the estimator; a model cannot be.
    estimator.save(str(tmp_path / "estimator"))
    assert MBAClassifier.load(str(tmp_path / "estimator")).getPrior() == prior
    with pytest.raises(ConfigError, match="found a model as the prior"):
        estimator.copy({estimator.prior: before}).save(str(tmp_path / "other"))
    model.save(str(tmp_path / "after"))
    assert LinearRankerModel.load(str(tmp_path / "after")).summary.prior == model.summary.prior


def test_folds_choose_between_both_centres(rows, before):
    selector = MBASelector(featuresCol=NAMES, regParams=[0.1, 10.0], numFolds=3, prior=before)
    model = selector.fit(rows)
    found = model.summary.selection["candidates"]
    assert [(c["regParam"], c["prior"]) for c in found] == [
        (0.1, False),
        (10.0, False),
        (0.1, True),
        (10.0, True),
    ]
    plain = MBASelector(featuresCol=NAMES, regParams=[0.1, 10.0], numFolds=3).fit(rows)
    assert [c["folds"] for c in found[:2]] == [
        c["folds"] for c in plain.summary.selection["candidates"]
    ]
    chosen = found[model.summary.selection["chosen"]]
    if chosen["prior"]:
        np.testing.assert_allclose(
            model.scorer.w, expected(before, chosen["regParam"])[0], rtol=1e-9
        )
    assert (model.summary.prior["scale"] is None) != chosen["prior"]


def test_pipelines_of_one_recipe_and_of_another(spark, rows):
    raw = FeatureRecipe(leaveOut=["label"], numKnots=4)
    older = spark.createDataFrame(table(0))
    earlier = RankerPipeline([raw, MBAClassifier(regParam=0.01)]).fit(older)
    recipe = earlier.stages[0]
    ranker = MBAClassifier(regParam=0.01, prior=earlier)
    same = RankerPipeline([recipe, ranker]).fit(rows)
    told = same.ranker.summary.prior
    assert (told["shared"], told["new"], told["absent"]) == (same.ranker.numFeatures, 0, 0)
    # A strong penalty leaves the ranking as it is.
    strong = RankerPipeline([recipe, ranker.copy({ranker.regParam: 1e9})]).fit(rows)
    w, w0 = strong.ranker.scorer.w, earlier.ranker.scorer.w
    np.testing.assert_allclose(w, strong.ranker.summary.prior["scale"] * w0, rtol=1e-6, atol=1e-9)
    # Hats on other knots are other features; a missing value is the same one.
    told = RankerPipeline([raw, ranker]).fit(rows).ranker.summary.prior
    assert told["absent"] == same.ranker.numFeatures - told["shared"]
    assert all(name.endswith("(another map)") for name in told["largestAbsent"])
    with pytest.raises(ConfigError, match="prior with a recipe for features without one"):
        ranker.setParams(featuresCol=NAMES).fit(rows)


def test_what_is_refused(rows, before):
    with pytest.raises(ConfigError, match="found prior with estimator 'paired'"):
        MBAClassifier(featuresCol=NAMES, regParam=0.1, prior=before, estimator="paired").fit(rows)
    embedded = RankerPipeline(
        [
            NystroemEmbedding(inputCol=NAMES, numLandmarks=5),
            MBAClassifier(regParam=0.1, prior=before),
        ]
    )
    with pytest.raises(ConfigError, match="prior with embeddings"):
        embedded.fit(rows)
    with pytest.raises(TypeError, match="expected a string or a FittedRanker"):
        MBAClassifier(prior=1.0)


@pytest.mark.parametrize(
    "learner",
    [
        OPAUCClassifier(parallelism="sequential", stepSize=1e-12),
        SOLAMClassifier(stepSize=1e-12, radius=1e6),
    ],
)
def test_gradient_steps_begin_with_the_weights_of_the_prior(rows, before, learner):
    """Steps of no length leave the weights as they began, in the units of the columns."""
    model = learner.setParams(featuresCol=NAMES, prior=before).fit(rows)
    weights = dict(zip(before.scorer.names, before.scorer.w, strict=True))
    np.testing.assert_allclose(
        model.scorer.w, [weights.get(name, 0.0) for name in NAMES], rtol=1e-6, atol=1e-9
    )
