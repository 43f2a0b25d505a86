"""Configuration files, before Spark starts."""

from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.load import configured, load
from spark_auc.app.jobs.train import estimator_of
from spark_auc.app.known import JOBS
from spark_auc.errors import ConfigError
from spark_auc.publication.redaction import Redaction, redacted

CONF = Path(__file__).parents[2] / "conf"


@pytest.fixture
def write(tmp_path):
    def write_file(content):
        path = tmp_path / "conf.yaml"
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return write_file


@pytest.mark.parametrize("path", sorted(CONF.glob("*.yaml")), ids=lambda p: p.name)
def test_shipped_files_are_valid(path):
    file = load(str(path))
    assert any(getattr(file, job) for job in JOBS)


TRAIN = {"data": {"path": "rows"}, "output": {"path": "model"}}


def changed(location, value):
    content = yaml.safe_load(yaml.safe_dump({"train": TRAIN}))
    section = content
    for key in location[:-1]:
        section = section.setdefault(key, {})
    section[location[-1]] = value
    return content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (changed(("train", "training", "regparam"), 1), "did you mean 'regParam'"),
        (changed(("train", "outptu"), 1), "'train.outptu'; did you mean 'output'"),
        (changed(("train", "regparm"), 1), "did you mean 'train.training.regParam'"),
        (changed(("trian",), {}), "did you mean 'train'"),
        (changed(("train", "output", "pth"), "x"), "'train.output.pth'; did you mean 'path'"),
        (changed(("train", "training", "zzz"), 1), "expected one of batchSize, covariance"),
        (changed(("train", "training", "regParam"), -1), "found -1 at 'train.training.regParam'"),
        (changed(("train", "training", "tol"), "small"), "found 'small' at 'train.training.tol'"),
        (changed(("train", "data"), {}), "give either table, or path"),
        ({"train": {"data": {"path": "rows"}}}, "found no 'train.output'"),
        (
            {"prepare": {"input": {"layout": "criteo", "path": "x", "dimensoin": 1}}},
            "dimensoin'; did you mean 'dimension'",
        ),
        ({"prepare": {"input": {"layout": "criteoo"}}}, "criteoo|expected"),
        (
            {"train": TRAIN | {"columns": {"fold": "day"}, "select": {"numFolds": 3}}},
            "either columns.fold or select.numFolds",
        ),
        (
            {
                "adadsg": TRAIN
                | {"validation": {"path": "x"}, "checkpoint": "c", "columns": {"fold": "day"}}
            },
            "leave out columns.fold",
        ),
        (
            changed(("train", "method"), "SOLAMClassifier"),
            "the key learner in place of method; rename it, or use method: linear or auto",
        ),
        (
            {"train": TRAIN | {"method": "auto", "learner": "MBAClassifier", "features": {}}},
            "method: auto without learner; leave out one of both",
        ),
        (
            {
                "train": TRAIN
                | {"method": "auto", "select": {}, "columns": {"fold": "f"}, "features": {}}
            },
            "method: auto without select, columns.fold; leave out one of both",
        ),
        (changed(("train", "method"), "auto"), "add features"),
        (
            {"train": TRAIN | {"method": "auto", "features": {"unit": True}}},
            "unit: false, as blocks are compared; leave out unit",
        ),
        (
            {"train": TRAIN | {"features": {}, "columns": {"features": "x", "numFeatures": 3}}},
            "columns.features, columns.numFeatures; leave out one",
        ),
        (changed(("train", "features"), {"spine": ["a"]}), "did you mean 'spline'"),
        (changed(("train", "features"), {"recipe": "a", "unit": True}), "leave out unit"),
        (changed(("train", "features"), {"numKnots": 1}), "found 1 at .*numKnots"),
        (
            changed(("train", "features"), {"numKnots": [2, 9]}),
            "found a list at 'train.features.numKnots'; expected: Input should be a valid integer "
            "or 'auto'$",
        ),
        (
            changed(("train", "features"), {"pairs": "atuo"}),
            "found 'atuo' at 'train.features.pairs'; expected: Input should be a valid integer or "
            "a valid list or 'auto'$",
        ),
        (changed(("train", "features"), {"numKnots": "many"}), "numKnots"),
        (changed(("train", "features"), {"pairs": 0}), "pairs"),
        (changed(("train", "features"), {"pairs": ["ab"]}), "pairs"),
        (
            changed(("train", "features"), {"pairs": [["a", "b"], ["b", "a"]]}),
            "different pairs of two columns in pairs",
        ),
        (changed(("train", "features"), {"pairs": [["a", "a", "b"]]}), "different pairs of two"),
        (
            {"opauc": TRAIN | {"training": {"regParam": 1}, "features": {"trees": {"grow": {}}}}},
            r"features.trees.grow in the job train alone",
        ),
        (changed(("train", "features"), {"trees": {"grow": {"numTree": 1}}}), "numTree"),
        (changed(("train", "features"), {"trees": {"grow": {"growShare": 1.5}}}), "growShare"),
        (
            {
                "train": TRAIN
                | {"method": "auto", "features": {"trees": {"grow": {"growShare": 1}}}}
            },
            "method: auto with growShare below 1",
        ),
        (
            {"opauc": TRAIN | {"training": {"regParam": 1, "segmentCol": "site"}}},
            r"leave out \['segmentCol'\]",
        ),
        (
            {"opauc": TRAIN | {"training": {"regParam": 1, "maxFPR": 0.1}}},
            r"leave out \['maxFPR'\]",
        ),
        (changed(("train", "embeddings"), ["NystroemEmbeding"]), "did you mean 'NystroemEmbedding"),
        (changed(("train", "embeddings"), ["MBAClassifier"]), "NystroemEmbedding.*of your own"),
        (changed(("train", "embeddings"), [3]), "the name of an embedding"),
        (
            changed(("train", "embeddings"), [{"NystroemEmbedding": {"numLandmark": 3}}]),
            "did you mean 'numLandmarks'",
        ),
        (
            changed(("train", "embeddings"), [{"NystroemEmbedding": {"numLandmarks": 0}}]),
            "found 0 at 'train.embeddings.0.numLandmarks'",
        ),
        (changed(("train", "holdout"), {"by": "time"}), "needs column and before"),
        (changed(("train", "training", "prior"), "old"), "'train.training.prior'"),
        (
            {"train": TRAIN | {"learner": "NSAUCClassifier", "prior": "old"}},
            "no prior with NSAUCClassifier",
        ),
        ("train: [", "not YAML"),
        ("train: 2024-13-45", "not YAML"),
        ("train: " + "[" * 5000, "not YAML"),
        ('train: "\\ud800"', "train"),
        ("[1, 2]", "found a list"),
    ],
)
def test_mistakes_are_named(write, content, message):
    with pytest.raises(ConfigError, match=message):
        load(write(content))


def test_missing_file():
    with pytest.raises(ConfigError, match="no readable file 'nowhere'"):
        load("nowhere")


def test_overrides(write):
    path = write({"train": TRAIN})
    file = load(
        path,
        [
            "train.training.regParam=1e-4",
            "train.data.options.numFeatures=12",
            "spark.conf.spark.driver.memory=3g",
            "train.columns.features=[a, b]",
        ],
    )
    assert file.train.training.regParam == 1e-4
    assert file.train.data.options == {"numFeatures": 12}
    assert file.spark.settings() == {"spark.driver.memory": "3g"}
    assert file.train.columns.features == ["a", "b"]
    for wrong in ("train.training.regParam", "=3", "train.data.path.deep=1", "a..b=1", "a.=1"):
        with pytest.raises(ConfigError, match=r"dotted\.key=value|a value at"):
            load(path, [wrong])
    with pytest.raises(ConfigError, match="did you mean 'regParam'"):
        load(path, ["train.training.regParm=1"])


def test_the_fold_column_reaches_the_estimator(write):
    from spark_auc.app.jobs.train import estimator_of

    content = {"train": TRAIN | {"columns": {"fold": "day"}}}
    for more in ({}, {"select": {"regParams": [0.1, 1.0]}}):
        config = load(write({"train": content["train"] | more})).train
        estimator = estimator_of(config)
        assert estimator.values()["foldCol"] == "day"
        assert estimator.values()["numFolds"] >= 2
    other = estimator_of(load(write({"train": TRAIN | {"select": {"numFolds": 3}}})).train)
    assert other.values()["numFolds"] == 3


def test_a_name_is_an_embedding_without_params(write):
    embeddings = [
        "FeatureCrosses",
        {"NystroemEmbedding": {"numLandmarks": 7}},
        {"TanhNetwork": None},
    ]
    features = {"tokens": ["site"], "crosses": "all"}
    train = load(write({"train": TRAIN | {"embeddings": embeddings, "features": features}})).train
    stored = train.model_dump(mode="json")
    assert [next(iter(e)) for e in stored["embeddings"]] == [
        "FeatureCrosses",
        "NystroemEmbedding",
        "TanhNetwork",
    ]
    assert stored["embeddings"][1]["NystroemEmbedding"]["numLandmarks"] == 7
    assert train.features.params() == features
    assert redacted(stored)["features"]["tokens"] == ["site"]
    assert Redaction(stored)('{"tokens": ["site"]} token=site') == (
        '{"tokens": ["site"]} token=***redacted***'
    )


def test_settings_as_text_for_spark(write):
    file = load(write({"spark": {"conf": {"a": True, "b": 3, "c": "x"}}}))
    assert file.spark.settings() == {"a": "true", "b": "3", "c": "x"}


SECRET = "hunter2-of-mine"


@pytest.mark.parametrize(
    ("content", "arguments", "message"),
    [
        ("train: {data: {options: {password: *" + SECRET, [], "undefined alias '...' in line 1"),
        ("train: {x: !" + SECRET + " y}", [], "not YAML: .* in line 1, column 12"),
        ("train:\n  password: [" + SECRET, [], "in line 2"),
        ("train: 2024-13-45", [], r"cannot be read \(ValueError\) in line 1"),
        ("train: {}", [f"train.data.options.password=*{SECRET}"], "'train.data.options.password'"),
        ("train: {}", ["train.data.options.password=", SECRET], "argument 2, expected dotted"),
        ("train: 3", [f"train.data.password={SECRET}"], "'train' in 'train.data.password'"),
        ({"train": TRAIN | {"data": {"options": {"password": [SECRET]}}}}, [], "data.options.pass"),
        ({"train": TRAIN | {"data": {"options": f"a password={SECRET}"}}}, [], "train.data.option"),
        ({"train": TRAIN | {"output": {"path": f"s3://a:{SECRET}@b/c"}}}, [], "without a password"),
        ({"train": TRAIN | {"model": {"token": SECRET}}}, [], "unknown key 'train.model'"),
        (
            {"train": TRAIN | {"columns": [f"token={SECRET}"]}},
            [],
            "found a list at 'train.columns'",
        ),
        ({"spark": {"remote": [f"sc://h/;token={SECRET}"]}}, [], "found a list at 'spark.remote'"),
    ],
)
def test_no_secret_in_a_message(write, content, arguments, message):
    with pytest.raises(ConfigError, match=message) as error:
        load(write(content), arguments)
    assert SECRET not in str(error.value)


@pytest.mark.parametrize(
    "value", [".nan", ".inf", "1e999", "18446744073709551616", "0x" + "f" * 80]
)
def test_numbers_that_no_setting_accepts(write, value):
    with pytest.raises(ConfigError, match=r"train\.data\.options\.n"):
        load(write({"train": TRAIN}), [f"train.data.options.n={value}"])
    with pytest.raises(ConfigError, match=r"train\.training\.tol"):
        load(write({"train": TRAIN}), ["train.training.tol=.inf"])


def test_quoted_values_are_text(write):
    path = write({"train": TRAIN})
    options = {"a": "'1e4'", "b": "1e4", "c": "nan", "d": "'007'", "e": "infinity"}
    file = load(path, [f"train.data.options.{key}={value}" for key, value in options.items()])
    assert file.train.data.options == {
        "a": "1e4",
        "b": 10000.0,
        "c": "nan",
        "d": "007",
        "e": "infinity",
    }


def test_numbers_with_an_exponent_need_no_sign(write):
    values = "{a: 1e4, b: -.5E3, c: '1e4', d: 1e-4, e: e4}"
    expected = {"a": 1e4, "b": -500.0, "c": "1e4", "d": 1e-4, "e": "e4"}
    path = write(f"train: {{data: {{path: x, options: {values}}}, output: {{path: y}}}}")
    assert load(path).train.data.options == expected
    overridden = load(write({"train": TRAIN}), [f"train.data.options={values}"])
    assert overridden.train.data.options == expected


def test_a_file_that_is_not_text(tmp_path):
    (tmp_path / "x.yaml").write_bytes(b"train: \xff")
    with pytest.raises(ConfigError, match="no readable file"):
        load(str(tmp_path / "x.yaml"))
    with pytest.raises(ConfigError, match="no readable file"):
        load("a\0b")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"features": {}, "columns": {"label": "y", "features": "x"}},
            "found an invalid section 'train'; expected: either features (a recipe of raw columns) "
            "or columns.features; leave out one of them",
        ),
        (
            {"holdout": {"by": "time"}},
            "found an invalid section 'train.holdout'; expected: a split by time needs column and "
            "before",
        ),
        ({"data": {"path": {"a": 1}}}, "found a section at 'train.data.path'; expected: "),
        ({"data": {"path": [1]}}, "found a list at 'train.data.path'; expected: "),
    ],
)
def test_errors_of_sections_name_the_section(changes, message):
    train = {"data": {"path": "x"}, "columns": {"label": "y"}, "output": {"path": "o"}}
    with pytest.raises(ConfigError) as refused:
        configured({"train": train | changes}, "a file")
    assert str(refused.value).startswith(message)


def test_a_choice_of_methods_takes_names_of_new_columns():
    keys = TRAIN | {"method": "auto", "features": {}, "training": {"predictionCol": "p"}}
    section = Configuration.model_validate({"train": keys}).train
    assert estimator_of(section).values()["predictionCol"] == "p"
    keys["training"] = {"numFolds": 3, "smoothness": 1.0}
    assert estimator_of(Configuration.model_validate({"train": keys}).train).factors == (1.0,)
    with pytest.raises(ValidationError, match=r"method: auto without training\.regParam"):
        Configuration.model_validate({"train": keys | {"training": {"regParam": 0.1}}})
