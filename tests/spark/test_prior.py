"""An earlier model as the centre of the penalty: stages, stored paths, and gradient steps."""

import numpy as np
import pytest

from spark_auc import (
    LinearRankerModel,
    MBAClassifier,
    NystroemEmbedding,
    OPAUCClassifier,
    RankerPipeline,
    SOLAMClassifier,
)
from spark_auc.errors import ConfigError
from spark_auc.pipeline.estimators import MBAEstimator
from spark_auc.tables.arrow_table import ArrowTable
from tests.pipeline.test_prior import NAMES, table


@pytest.fixture(scope="module")
def before():
    names = ["c", "a", "d"]
    return MBAClassifier(featuresCol=names, regParam=0.01).fitted(ArrowTable.of(table(0, names)))


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(table(1))


def test_stages_take_models_and_stored_paths(rows, before, tmp_path):
    path = str(tmp_path / "before")
    before.save(path)
    local = ArrowTable.of(table(1))
    expected = MBAEstimator(featuresCol=NAMES, regParam=0.5, prior=before).fitted(local)
    by_path = MBAClassifier(featuresCol=NAMES, regParam=0.5, prior=path)
    by_model = by_path.copy({by_path.prior: before})
    for model in (by_model.fit(rows), by_path.fit(rows)):
        np.testing.assert_allclose(model.scorer.w, expected.scorer.w, rtol=1e-9)
        assert not model.hasParam("prior")
    # The path is stored with the estimator; a model cannot be.
    by_path.save(str(tmp_path / "estimator"))
    assert MBAClassifier.load(str(tmp_path / "estimator")).getPrior() == path
    with pytest.raises(ConfigError, match="found a model as the prior"):
        by_model.save(str(tmp_path / "other"))
    model.save(str(tmp_path / "after"))
    assert LinearRankerModel.load(str(tmp_path / "after")).summary.prior == model.summary.prior


def test_embeddings_are_refused(rows, before):
    nystroem = NystroemEmbedding(inputCol=NAMES, numLandmarks=5)
    with pytest.raises(ConfigError, match="prior with embeddings"):
        RankerPipeline([nystroem, MBAClassifier(regParam=0.1, prior=before)]).fit(rows)


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
