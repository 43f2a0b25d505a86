"""A path that exists is no pattern: rows, models, stores and exports beside what it would match."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import spark_auc
from spark_auc import FeatureRecipe, LinearRankerModel, MBAClassifier
from spark_auc.app.config.arguments import source
from spark_auc.app.config.sections import store_location
from spark_auc.app.config.sources import ClickLogsInput, Source, check_path
from spark_auc.errors import ConfigError
from spark_auc.export.to_file import KINDS, to_file
from spark_auc.lakes.delta import DeltaLake
from spark_auc.publication.publish import publication
from spark_auc.publication.versions import resolve
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.streaming.files import FileStream
from spark_auc.store.moment_store import MomentStore
from spark_auc.tables.layouts import layout_of
from tests.store.periods import FACTS, filled

pytestmark = pytest.mark.slow

ALL = "all[1]{a,b}*? %20#:"
# Names, and another that the name as a pattern would match.
NAMES = {
    "rows[1]": "rows1",
    "{a,b}": "a",
    "st*r": "star",
    "wh?t": "what",
    "back\\slash": "backslash",
    "a b": "ab",
    "a%20b": "a b",
    "h#h": "h",
    "2024-01-05T10:00": "2024",
    ALL: "all1axy %20#:",
}
CRITEO = "\t".join(["1", *"1" * 13, *"a" * 26])
AVAZU = ",".join(
    ["id,click,hour,C1,banner_pos,site_id,site_domain,site_category,app_id,app_domain"]
    + ["app_category,device_id,device_ip,device_model,device_type,device_conn_type"]
    + [f"C{k}" for k in range(14, 22)]
)
# The text of a file with one row, whose label is 1.
TEXTS = {
    "csv": "label,x\n1,7\n",
    "tsv": "label\tx\n1\t7\n",
    "json": '{"label": 1, "x": 7}\n',
    "libsvm": "1 1:7\n",
    "criteo": f"{CRITEO}\n",
    "avazu": f"{AVAZU}\n7,1,14102100{',a' * 21}\n",
}


def decoy(text: str) -> str:
    """The text with two rows."""
    last = text.splitlines()[-1]
    return f"{text}{last}\n"


def placed(root: Path, name: str, form: str) -> str:
    """A file of a name, beside the one that its name matches as a pattern."""
    file, other = root / f"{name}.{form}", root / f"{NAMES[name]}.{form}"
    if form == "parquet":
        pq.write_table(pa.table({"label": [1], "x": [7]}), other)
        pq.write_table(pa.table({"label": [1, 1], "x": [7, 7]}), other)
        pq.write_table(pa.table({"label": [1], "x": [7]}), file)
    else:
        other.write_text(decoy(TEXTS[form]))
        file.write_text(TEXTS[form])
    return str(file)


def count(made: Source | ClickLogsInput, spark: SparkSession) -> int:
    check_path(made.path)
    with made.read(spark) as rows:
        return len(rows.collect())


@pytest.mark.parametrize("name", NAMES)
def test_csv_of_the_command_line(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = placed(tmp_path, name, "csv")
    assert count(Source(**source(path)), spark) == 1


@pytest.mark.parametrize("form", ["tsv", "json", "parquet", "libsvm"])
@pytest.mark.parametrize("name", ["rows[1]", ALL])
def test_other_formats(spark: SparkSession, tmp_path: Path, form: str, name: str) -> None:
    path = placed(tmp_path, name, form)
    made = {"format": form, "path": path} if form == "libsvm" else source(path)
    assert count(Source(**made), spark) == 1
    # Files of a directory of this name.
    inside = tmp_path / "in" / name
    inside.mkdir(parents=True)
    (inside / f"part.{form}").write_bytes(Path(path).read_bytes())
    other = tmp_path / "in" / NAMES[name]
    other.mkdir()
    assert count(Source(format="csv" if form == "tsv" else form, path=str(inside)), spark) >= 1


@pytest.mark.parametrize("name", ["rows[1]", ALL])
def test_lines(spark: SparkSession, tmp_path: Path, name: str) -> None:
    options = {"separator": ",", "columns": "label integer, x integer", "header": True}
    path = placed(tmp_path, name, "csv")
    assert count(Source(format="delimited", path=path, options=options), spark) == 1
    layout = layout_of("delimited", {k: str(v).lower() for k, v in options.items()})
    assert layout is not None
    assert layout_rows(spark, Path(path), layout).count() == 1
    for form in ("criteo", "avazu"):
        path = placed(tmp_path, name, form)
        assert count(Source(format=form, path=path), spark) == 1
        assert count(ClickLogsInput(layout=form, path=path, dimension=16), spark) == 1


def test_patterns_match_as_before(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("rows1", "rows2", "other"):
        (tmp_path / f"{name}.csv").write_text(TEXTS["csv"])
    for pattern, found in (("rows[12].csv", 2), ("*.csv", 3), ("{other,rows1}.csv", 2)):
        assert count(Source(**source(f"{tmp_path}/{pattern}")), spark) == found
    # An escaped pattern is the name of another file.
    (tmp_path / "rows[1].csv").write_text(decoy(TEXTS["csv"]))
    assert count(Source(**source(f"{tmp_path}/rows\\[1\\].csv")), spark) == 2
    assert count(Source(**source(f"file://{tmp_path}/rows[1].csv")), spark) == 2


def test_a_path_with_a_colon_in_the_working_directory(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    placed(tmp_path, "2024-01-05T10:00", "csv")
    assert count(Source(**source("2024-01-05T10:00.csv")), spark) == 1


@pytest.fixture(scope="module")
def model(spark: SparkSession) -> LinearRankerModel:
    rows = spark.range(40).selectExpr("id % 7 AS a", "id % 5 AS b", "id % 2 AS label")
    return MBAClassifier(featuresCol=["a", "b"], regParam=0.1).fit(rows)


@pytest.mark.parametrize("name", NAMES)
def test_models(model: LinearRankerModel, tmp_path: Path, name: str) -> None:
    place, other = tmp_path / name / "model", tmp_path / NAMES[name] / "model"
    if name == "rows[1]":
        # What the name matches as a pattern is no model.
        other.mkdir(parents=True)
    model.save(place)
    np.testing.assert_array_equal(LinearRankerModel.load(place).scorer.w, model.scorer.w)
    ranker = spark_auc.load(place)
    np.testing.assert_array_equal(ranker.scorer.w, model.scorer.w)
    if name in ("rows[1]", ALL):
        for kind in KINDS:
            to_file(place, kind, tmp_path / name / kind)
            assert (tmp_path / name / kind).exists()
        FeatureRecipe(tokens=["a"]).save(tmp_path / name / "recipe")
        assert FeatureRecipe.load(tmp_path / name / "recipe").values()["tokens"] == ["a"]
        prior = MBAClassifier(featuresCol=["a", "b"], regParam=0.1, prior=place)
        assert prior.getPrior() == str(place)


@pytest.mark.parametrize("name", NAMES)
def test_publications(spark: SparkSession, tmp_path: Path, name: str) -> None:
    out = tmp_path / name
    with publication(out, False, "data") as version:
        spark.range(3).write.parquet((version / "train").uri)
    assert Path(resolve(out / "train").removeprefix("file://")).is_dir()
    assert count(Source(path=str(out / "train")), spark) == 3


# Names that the package deltalake reads as those of other directories.
MISREAD = {"rows[1]", "back\\slash", "a%20b", ALL}


@pytest.mark.parametrize("name", NAMES)
def test_stores_and_lakes(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pytest.importorskip("deltalake")
    place = tmp_path / name / "store"
    place.parent.mkdir()
    if name in MISREAD:
        for kind in (DeltaLake, lambda path: MomentStore(path, FACTS)):
            with pytest.raises(ConfigError, match="Delta table, expected none of"):
                kind(place)
        assert list(tmp_path.rglob("*")) == [place.parent]
        return
    days = ["2026-03-01", "2026-03-02"]
    filled(place, days)
    assert MomentStore(Path(store_location(str(place))), FACTS).periods() == tuple(days)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    assert all(Path(file).is_file() for file in DeltaLake(place).files())
    with Source(format="delta", path=str(place)).read(spark) as rows:
        assert {row.period for row in rows.select("period").collect()} >= set(days)


@pytest.mark.parametrize("name", ["rows[1]", "a%20b", ALL.replace(":", "")])
@pytest.mark.classic("streams of files")
def test_streams(spark: SparkSession, tmp_path: Path, name: str) -> None:
    for directory in (name, NAMES.get(name, "all1axy %20#")):
        (tmp_path / directory).mkdir()
        (tmp_path / directory / f"{directory}.json").write_text(json.dumps({"x": directory}))
    stream = FileStream.of(spark, str(tmp_path / name), "json", {})
    found = list[str]()

    def read(arrived: DataFrame, _: int) -> None:
        batch = stream.batch(arrived)
        found.extend(row.x for row in batch.rows(batch.files).collect())

    query = stream.arriving().writeStream.trigger(availableNow=True).foreachBatch(read)
    query.option("checkpointLocation", str(tmp_path / "state")).start().awaitTermination()
    assert found == [name]
