"""The entry for all formats, and files that appear whole or not at all."""

import json

import numpy as np
import pyarrow as pa
import pytest

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, load
from spark_auc.errors import ConfigError
from spark_auc.export import to_file as module
from spark_auc.export.to_file import to_file
from spark_auc.export.whole import write_new

N = 300


@pytest.fixture(scope="module")
def rows(spark):
    rng = np.random.default_rng(4)
    age = pa.array(rng.normal(size=N), mask=rng.random(N) < 0.1)
    clicks = rng.integers(0, 9, N)
    label = (rng.normal(size=N) + clicks > 4).astype(float)
    return spark.createDataFrame(pa.table({"age": age, "clicks": clicks, "label": label})).cache()


@pytest.fixture(scope="module")
def saved(rows, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("saved") / "ranker")
    recipe = FeatureRecipe(spline=["age", "clicks"], standard=["clicks"], auto=False)
    RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows).save(path)
    return path


def test_sql(spark, rows, saved, tmp_path):
    to_file(saved, "sql", str(tmp_path / "ranker.sql"))
    rows.createOrReplaceTempView("rows_to_score")
    found = spark.sql((tmp_path / "ranker.sql").read_text()).toArrow()
    assert found.column_names == ["age", "clicks", "label", "score", "prediction"]
    np.testing.assert_allclose(found["score"], load(saved).score(found), rtol=0, atol=1e-12)
    assert found["prediction"].to_pylist() == load(saved).predict(found).tolist()


def test_onnx(rows, saved, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    to_file(saved, "onnx", str(tmp_path / "ranker.onnx"))
    session = onnxruntime.InferenceSession(str(tmp_path / "ranker.onnx"))
    frame = rows.toPandas()
    inputs = {name: frame[name].to_numpy(float) for name in ("age", "clicks")}
    (scores,) = session.run(None, inputs)
    np.testing.assert_allclose(scores, load(saved).score(frame), rtol=0, atol=1e-12)


def test_logistic(rows, tmp_path):
    MBAClassifier(featuresCol=["clicks"], regParam=0.1).fit(rows).save(str(tmp_path / "ranker"))
    to_file(str(tmp_path / "ranker"), "logistic", str(tmp_path / "logistic"))
    assert sorted(path.name for path in (tmp_path / "logistic").iterdir()) == ["data", "metadata"]
    (text,) = (tmp_path / "logistic" / "metadata").glob("part-*")
    assert json.loads(text.read_text())["paramMap"]["featuresCol"] == "features"


def test_what_is_refused(saved, tmp_path):
    for kind in ("pmml", ""):
        with pytest.raises(ConfigError, match="found the format"):
            to_file(saved, kind, str(tmp_path / "x"))
    with pytest.raises(ConfigError, match="found no ranker"):
        to_file(str(tmp_path / "none"), "sql", str(tmp_path / "x"))
    with pytest.raises(ConfigError, match="recipe"):
        to_file(saved, "logistic", str(tmp_path / "x"))
    (tmp_path / "there").write_text("kept")
    for kind in module.KINDS:
        if kind != "logistic":
            with pytest.raises(ConfigError, match="already"):
                to_file(saved, kind, str(tmp_path / "there"))
    assert (tmp_path / "there").read_text() == "kept"
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


@pytest.mark.parametrize("content", [b"text", {"a/b": b"1", "c": b"2"}], ids=["file", "directory"])
def test_outputs_appear_whole_or_not_at_all(tmp_path, monkeypatch, content):
    write_new(str(tmp_path / "new" / "one"), content)
    found = {
        str(path.relative_to(tmp_path / "new")): path.read_bytes()
        for path in (tmp_path / "new").rglob("*")
        if path.is_file()
    }
    names = (
        {"one": content}
        if isinstance(content, bytes)
        else {f"one/{k}": v for k, v in content.items()}
    )
    assert found == names

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr("os.rename", fail)
    (tmp_path / "some").mkdir()
    with pytest.raises(ConfigError, match="disk full"):
        write_new(str(tmp_path / "some" / "two"), content)
    assert list((tmp_path / "some").iterdir()) == []
    for wrong in ("/", "nothing://a/b", "/proc/none/x"):
        with pytest.raises(ConfigError):
            write_new(wrong, content)
