"""The contract of Spark ML, for every public stage: copy, uid, Params, save and load."""

import gc
import inspect

import numpy as np
import pandas as pd
import pytest
from pyspark.ml import Estimator, Model, Pipeline, PipelineModel
from pyspark.ml.param import Params
from pyspark.ml.tuning import (
    CrossValidator,
    CrossValidatorModel,
    ParamGridBuilder,
    TrainValidationSplit,
    TrainValidationSplitModel,
)
from pyspark.ml.util import MLReadable, MLWritable

import spark_auc
from spark_auc import (
    AdaDSGClassifier,
    AUCEvaluator,
    EmbeddingModel,
    FeatureCrosses,
    FeatureRecipe,
    FeatureRecipeModel,
    LinearRankerModel,
    MBAClassifier,
    MBASelector,
    NSAUCClassifier,
    NystroemEmbedding,
    OPAUCClassifier,
    RandomFourierFeatures,
    RandomThresholds,
    RankerPipeline,
    RankerPipelineModel,
    RankSVMClassifier,
    ScoreCalibrationModel,
    ScoreCalibrator,
    SOLAMClassifier,
    SplineBasis,
    TanhNetwork,
)
from spark_auc.errors import ConfigError, ModelFormatError
from tests.spark.toy_learner import MeanDifferenceClassifier

pytestmark = pytest.mark.slow

COLUMNS = ["a", "b"]
N = 300
rng = np.random.default_rng(2)
TABLE = pd.DataFrame(rng.normal(size=(N, 2)), columns=COLUMNS)
TABLE["label"] = (TABLE.a + rng.normal(size=N) > 0.5).astype(float)
TABLE["id"] = np.arange(N)
# Values other than the defaults, for every class that is made by its constructor.
PARAMS = {
    AdaDSGClassifier: {"featuresCol": COLUMNS, "seed": 3},
    AUCEvaluator: {"metricName": "areaUnderPR"},
    FeatureCrosses: {"inputCol": COLUMNS, "outputCol": "made"},
    FeatureRecipe: {"spline": ["a"], "auto": False, "leaveOut": ["id"], "outputCol": "made"},
    MBAClassifier: {"featuresCol": COLUMNS, "regParam": 0.5},
    MBASelector: {"featuresCol": COLUMNS, "regParams": [0.5, 1.0], "numFolds": 2},
    NSAUCClassifier: {"featuresCol": COLUMNS, "seed": 3},
    NystroemEmbedding: {"inputCol": COLUMNS, "numLandmarks": 5, "outputCol": "made"},
    OPAUCClassifier: {"featuresCol": COLUMNS, "seed": 3},
    RandomFourierFeatures: {"inputCol": COLUMNS, "numOutputs": 4, "outputCol": "made"},
    RandomThresholds: {"inputCol": COLUMNS, "numOutputs": 4, "outputCol": "made"},
    RankSVMClassifier: {"featuresCol": COLUMNS, "regParam": 0.5},
    ScoreCalibrator: {"rawPredictionCol": "a", "method": "isotonic"},
    SOLAMClassifier: {"featuresCol": COLUMNS, "seed": 3},
    SplineBasis: {"inputCol": COLUMNS, "numKnots": 4, "outputCol": "made"},
    TanhNetwork: {"inputCol": COLUMNS, "numOutputs": 2, "outputCol": "made"},
}
STAGES = {
    thing
    for name in spark_auc.__all__
    if inspect.isclass(thing := getattr(spark_auc, name)) and issubclass(thing, Params)
}
MODELS = {kind for kind in STAGES if issubclass(kind, Model)}


def made(kind):
    if kind is RankerPipeline:
        stages = (FeatureRecipe, NystroemEmbedding, MBAClassifier)
        return RankerPipeline([each(**PARAMS[each]) for each in stages])
    return kind(**PARAMS[kind])


@pytest.fixture(scope="module")
def rows(spark):
    return spark.createDataFrame(TABLE).cache()


@pytest.fixture(scope="module")
def models(rows):
    """A fitted model of every class."""
    pipeline = made(RankerPipeline).fit(rows)
    calibration = made(ScoreCalibrator).fit(rows)
    return {
        FeatureRecipeModel: made(FeatureRecipe).fit(rows),
        EmbeddingModel: made(SplineBasis).fit(rows),
        LinearRankerModel: made(MBAClassifier).fit(rows),
        ScoreCalibrationModel: calibration,
        RankerPipelineModel: pipeline.calibrated(calibration),
    }


@pytest.fixture
def stage(request):
    kind = request.param
    return request.getfixturevalue("models")[kind] if kind in MODELS else made(kind)


def every(kinds):
    ordered = sorted(kinds, key=lambda kind: kind.__name__)
    return pytest.mark.parametrize("stage", ordered, indirect=True, ids=lambda k: k.__name__)


def inside(stage):
    """The stages of a stage."""
    if isinstance(stage, Pipeline):
        return stage.getStages()
    return stage.stages if isinstance(stage, RankerPipelineModel) else []


def values(stage):
    """All values of a stage and of the stages in it, with the uid of each."""
    own = {param.name: value for param, value in stage.extractParamMap().items()}
    return stage.uid, own, [values(each) for each in inside(stage)]


def scored(model, rows):
    return model.transform(rows).orderBy("id").toPandas()


def test_the_suite_has_every_class():
    assert {*PARAMS, *MODELS, RankerPipeline} == STAGES
    assert all(issubclass(kind, (MLReadable, MLWritable)) for kind in STAGES)


@every(STAGES)
def test_copy(stage):
    copied = stage.copy()
    assert copied is not stage
    assert type(copied) is type(stage)
    assert values(copied) == values(stage)
    before = values(stage)
    for each in inside(stage) or [stage]:
        for name, setting in each.SETTINGS.items():
            if setting.kind is str and not setting.setting.choices:
                param = each.getParam(name)
                other = stage.copy({param: "another"})
                assert "'another'" in str(values(other))
                assert other.uid == stage.uid
    assert values(stage) == before


@every(STAGES)
def test_save_and_load(stage, rows, tmp_path):
    path = str(tmp_path / "saved")
    stage.save(path)
    loaded = type(stage).load(path)
    assert type(loaded) is type(stage)
    assert values(loaded) == values(stage)
    assert loaded.explainParams() == stage.explainParams()
    stage.write().overwrite().save(path)
    assert values(type(stage).read().load(path)) == values(stage)
    if isinstance(stage, Model):
        pd.testing.assert_frame_equal(scored(loaded, rows), scored(stage, rows))
    elif isinstance(stage, Estimator):
        assert values(Pipeline(stages=[stage]).copy().getStages()[0]) == values(stage)
        Pipeline(stages=[stage]).save(path + " in a pipeline")
        assert values(Pipeline.load(path + " in a pipeline").getStages()[0]) == values(stage)


@every(MODELS)
def test_models_in_pipelines_of_spark(stage, rows, tmp_path):
    path = str(tmp_path / "saved")
    PipelineModel([stage]).save(path)
    pd.testing.assert_frame_equal(scored(PipelineModel.load(path), rows), scored(stage, rows))


def test_extra_params(rows):
    """Of ``fit``, of a list of maps, and of ``transform``; the stage keeps its own."""
    for estimator, param in (
        (ranker := made(MBAClassifier), ranker.regParam),
        (pipeline := made(RankerPipeline), pipeline.ranker.regParam),
    ):
        before = values(estimator)
        one = estimator.fit(rows, {param: 5.0})
        several = estimator.fit(rows, [{param: 5.0}, {}])
        rankers = [getattr(each, "ranker", each) for each in (one, *several, estimator.fit(rows))]
        assert [each.summary.reg_param for each in rankers] == [5.0, 5.0, 0.5, 0.5]
        assert values(estimator) == before
        assert rankers[0].coefficients == rankers[1].coefficients
    moved = estimator.copy().setStages([made(MBAClassifier)])
    assert [type(each) for each in moved.getStages()] == [MBAClassifier]
    renamed = one.transform(rows, {one.ranker.predictionCol: "p"})
    assert renamed.columns == [*rows.columns, "rawPrediction", "p"]


@pytest.mark.parametrize("tuning", [CrossValidator, TrainValidationSplit])
def test_tuning_over_pipelines(tuning, rows, tmp_path):
    pipeline = made(RankerPipeline)
    ranker, recipe = pipeline.ranker, pipeline.recipe
    grid = ParamGridBuilder().addGrid(ranker.regParam, [0.1, 1.0]).addGrid(recipe.numKnots, [4])
    settings = {"numFolds": 2} if tuning is CrossValidator else {"trainRatio": 0.5}
    tuned = tuning(
        estimator=pipeline,
        estimatorParamMaps=grid.build(),
        evaluator=AUCEvaluator(),
        seed=1,
        **settings,
    )
    tuned.save(str(tmp_path / "tuning"))
    again = tuning.load(str(tmp_path / "tuning"))
    assert values(again.getEstimator()) == values(pipeline)
    assert again.getEstimatorParamMaps() == tuned.getEstimatorParamMaps()
    model = again.fit(rows)
    model.save(str(tmp_path / "model"))
    kind = CrossValidatorModel if tuning is CrossValidator else TrainValidationSplitModel
    loaded = kind.load(str(tmp_path / "model"))
    assert type(loaded.bestModel) is RankerPipelineModel
    pd.testing.assert_frame_equal(scored(loaded, rows), scored(model, rows))
    assert values(loaded.getEstimator()) == values(pipeline)


@pytest.mark.usefixtures("spark")
def test_classes_of_others_in_a_pipeline(tmp_path):
    """A class is found if its module is imported; none is imported because a file names it."""
    pipeline = RankerPipeline([MeanDifferenceClassifier(featuresCol=COLUMNS)])
    path = tmp_path / "saved"
    pipeline.save(str(path))
    assert values(RankerPipeline.load(str(path))) == values(pipeline)
    Unknown = type("Unknown", (MeanDifferenceClassifier,), {"__module__": "gone"})
    RankerPipeline([Unknown(featuresCol=COLUMNS)]).write().overwrite().save(str(path))
    del Unknown
    gc.collect()
    with pytest.raises(ConfigError, match=r"found a saved stage of the class 'gone\.Unknown'"):
        RankerPipeline.load(str(path))
    made(MBAClassifier).write().overwrite().save(str(path))
    with pytest.raises(ModelFormatError, match="expected a saved RankerPipeline"):
        RankerPipeline.load(str(path))
