"""Settings of the public stages: one declaration each, and none without effect."""

import inspect
import json
import re

import pytest
from pyspark.ml.param.shared import HasLabelCol, HasParallelism, HasSeed, HasWeightCol

import spark_auc
from spark_auc import (
    AdaDSGClassifier,
    AUCEvaluator,
    FeatureCrosses,
    MBAClassifier,
    MBASelector,
    NSAUCClassifier,
    NystroemEmbedding,
    OPAUCClassifier,
    ScoreCalibrator,
    SOLAMClassifier,
    SplineBasis,
    TanhNetwork,
)
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.serving.stored_stage import seal
from spark_auc.spark.params import Configured

STAGES = {
    name: thing
    for name in spark_auc.__all__
    if inspect.isclass(thing := getattr(spark_auc, name)) and issubclass(thing, Configured)
}
# What fit() returns documents its constructor, and a pipeline has no Params of its own.
MADE = {name: s for name, s in STAGES.items() if s.SETTINGS and not name.endswith("Model")}
ENTRY = re.compile(r"^(\w+) : .+?(?:, default (.+)|, optional)$", re.M)


def test_every_class_is_a_stage():
    classes = {n for n in spark_auc.__all__ if inspect.isclass(getattr(spark_auc, n))}
    assert classes == set(STAGES) | {"SQLRanker", "ServedRanker", "Trained"}
    assert len(MADE) == len(STAGES) - 6


@pytest.mark.parametrize("name", MADE)
def test_signature_default_and_documentation_agree(name):
    stage = MADE[name]
    signature = {
        name: None if parameter.default is None else repr(parameter.default)
        for name, parameter in inspect.signature(stage).parameters.items()
    }
    section = stage.__doc__.split("\nParameters\n----------\n")[1]
    section = re.split(r"\n\n", section)[0]
    documented = {name: default or None for name, default in ENTRY.findall(section)}
    made = stage()
    defaults = {
        param.name: repr(made.getOrDefault(param)) if made.hasDefault(param) else None
        for param in made.params
    }
    assert signature == documented == defaults
    for param in made.params:
        assert " ".join(param.doc.split()) in " ".join(section.split())


@pytest.mark.parametrize("name", STAGES)
def test_each_param_has_a_getter_and_a_setter(name):
    made = STAGES[name]()
    for param in made.params:
        capital = param.name[0].upper() + param.name[1:]
        get, put = (getattr(made, f"{verb}{capital}") for verb in ("get", "set"))
        if made.hasDefault(param):
            assert get() == made.getOrDefault(param)
            assert put(get()) is made
            assert made.isSet(param)


def test_mixins_of_spark():
    for stage in (MBAClassifier, SOLAMClassifier, ScoreCalibrator, AUCEvaluator):
        assert isinstance(stage(), HasLabelCol)
        assert isinstance(stage(), HasWeightCol)
    assert isinstance(NSAUCClassifier(), HasSeed)
    assert not isinstance(NSAUCClassifier(), HasWeightCol)
    # Its parallelism is a word; Spark's is a number.
    assert not isinstance(NSAUCClassifier(), HasParallelism)
    assert NSAUCClassifier().getSeed() == 0


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: MBAClassifier("features"), TypeError, "positional argument"),
        (lambda: MBAClassifier(regParams=[1.0]), TypeError, r"'regParams' .* did you mean"),
        (lambda: MBAClassifier(zzz=1), TypeError, "'zzz' of MBAClassifier, expected some of"),
        (lambda: MBAClassifier().setParams(zzz=1), TypeError, "'zzz'"),
        (lambda: MBAClassifier().setTol(0), ConfigError, "found tol 0, expected a finite number >"),
        (lambda: MBAClassifier(tol=float("nan")), ConfigError, "found tol nan, expected"),
        (lambda: MBAClassifier(tol="1"), TypeError, "found tol '1', expected"),
        (lambda: MBAClassifier(maxIter=1.5), TypeError, "found maxIter 1.5, expected a whole"),
        (lambda: MBAClassifier(keepMoments=1), TypeError, "expected True or False"),
        (lambda: MBASelector(regParams=[]), ConfigError, "a list of one or more finite numbers"),
        (lambda: MBAClassifier(selectionRule="x"), ConfigError, "expected 'best' or 'oneStand"),
        # Params that a class does not have.
        (lambda: AdaDSGClassifier(rounds=2), TypeError, "rounds .*set firstStage and stages"),
        (lambda: SplineBasis(seed=1), TypeError, "seed .*leave it out"),
        (lambda: SplineBasis(numFeatures=1), TypeError, "numFeatures .*leave it out"),
        (lambda: SplineBasis(relativeError=0.1), TypeError, "relativeError .*leave it out"),
        (lambda: NystroemEmbedding(standardization=True), TypeError, "standardiz.*set scaling"),
        (lambda: NSAUCClassifier(weightCol="u"), TypeError, "weightCol .*use MBAClassifier"),
    ],
)
def test_arguments_that_cannot_serve(make, error, message):
    with pytest.raises(error, match=message):
        make()


SEQUENCE = {"parallelism": "distributed"}
DRAWN = {"estimator": "paired", "regParam": 1.0}


@pytest.mark.parametrize(
    ("stage", "mode", "dead"),
    [
        (OPAUCClassifier, {}, {"rounds": 2, "stepSize": 0.1, "seed": 1, "orderCol": "id"}),
        (SOLAMClassifier, SEQUENCE, {"orderCol": "id"}),
        (NSAUCClassifier, SEQUENCE, {"orderCol": "id"}),
        (AdaDSGClassifier, SEQUENCE, {"orderCol": "id"}),
        (MBAClassifier, {}, {"numPairs": 9, "batchSize": 9, "pairTol": 0.1}),
        (
            MBAClassifier,
            {"regParam": 1.0},
            {"numFolds": 3, "foldCol": "a", "selectionRule": "oneStandardError"}
            | {"keyCol": "a", "seed": 1},
        ),
        (MBAClassifier, DRAWN, {"numFolds": 3, "foldCol": "a"}),
        (MBAClassifier, DRAWN | {"numPairs": 9}, {"pairTol": 0.1, "maxFPR": 0.1}),
        (MBAClassifier, {"segmentCol": "a"}, {"maxFPR": 0.1}),
        (MBASelector, {"regParams": [1.0]}, {"numFolds": 3, "foldCol": "a"}),
        (NystroemEmbedding, {"landmarks": "sample"}, {"sampleSize": 9, "maxIter": 3}),
        (NystroemEmbedding, {}, {"degree": 3, "offset": 0.5}),
        (
            TanhNetwork,
            {},
            {"labelCol": "y", "positiveLabel": 2.0, "sampleSize": 9, "maxIter": 3},
        ),
        (AUCEvaluator, {}, {"maxFPR": 0.5}),
    ],
)
def test_settings_without_effect_are_refused(stage, mode, dead):
    stage(**mode).check()
    for name, value in dead.items():
        with pytest.raises(ConfigError, match=f"found {name} .*no effect there; leave {name} out"):
            stage(**mode, **{name: value}).check()
        default = stage().values()[name]
        stage(**mode, **{name: default}).check()


@pytest.mark.parametrize(
    ("stage", "effective"),
    [
        (OPAUCClassifier, {"parallelism": "sequential", "rounds": 2, "orderCol": "id"}),
        (MBAClassifier, {"numFolds": 3, "keyCol": "a", "seed": 1}),
        (MBAClassifier, DRAWN | {"pairTol": 0.1, "batchSize": 9, "keyCol": "a", "seed": 1}),
        (MBASelector, {"regParams": [1.0, 2.0], "numFolds": 3}),
        (MBASelector, {"regParams": [1.0], "elasticNetParams": [0.0, 1.0], "foldCol": "a"}),
        (NystroemEmbedding, {"kernel": "polynomial", "degree": 3, "sampleSize": 1700}),
        (TanhNetwork, {"trained": True, "labelCol": "y", "maxIter": 3}),
        (AUCEvaluator, {"metricName": "partialAUC", "maxFPR": 0.5}),
        (FeatureCrosses, {"numBits": 3, "seed": 1}),
    ],
)
def test_settings_with_effect_are_kept(stage, effective):
    made = stage(**effective)
    made.check()
    assert effective.items() <= made.values().items()


def test_refused_before_the_rows_are_read():
    for stage in (OPAUCClassifier(rounds=2), MBAClassifier(pairTol=0.1), TanhNetwork(maxIter=3)):
        with pytest.raises(ConfigError, match="no effect"):
            stage.fit(None)
    with pytest.raises(ConfigError, match="no effect"):
        AUCEvaluator(maxFPR=0.5).evaluate(None)


def test_stored_params_of_before(tmp_path, spark):
    """The default of a Param that a class no longer has is left out; a value is refused."""
    AdaDSGClassifier(firstStage=64).save(str(tmp_path / "stage"))
    (file,) = (tmp_path / "stage/metadata").glob("part-*")
    metadata = json.loads(file.read_text())

    def stored():
        metadata["spark_auc"]["metadata"] = seal(metadata)
        file.write_text(json.dumps(metadata))
        for check in file.parent.glob(".*.crc"):
            check.unlink()
        return AdaDSGClassifier.load(str(tmp_path / "stage"))

    metadata["defaultParamMap"]["rounds"] = 1
    assert stored().getFirstStage() == 64
    metadata["paramMap"]["rounds"] = 5
    with pytest.raises(ModelFormatError, match=r"no Param 'rounds': .* set firstStage and stages"):
        stored()
