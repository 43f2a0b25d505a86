"""Jobs on raw rows: a recipe, embeddings and a holdout, from a table of text and numbers."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc import NystroemEmbedding, evaluate
from spark_auc.app.jobs import opauc
from spark_auc.app.jobs.published_model import read_model, read_recipe
from spark_auc.app.running import run
from spark_auc.features.contributions import contributions
from spark_auc.features.recipe_json import from_json
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator
from spark_auc.publication.versions import current
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.arrow_columns import raw_column
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.split import by_key
from tests.app.transformed import transformed
from tests.features.test_contributions import named

pytestmark = pytest.mark.usefixtures("spark")

FEATURES = {
    "spline": ["price"],
    "log": ["position"],
    "tokens": ["site", "flag"],
    "auto": False,
    "numKnots": 6,
    "dimension": 64,
}
FEATURE_COLUMNS = ("price", "position", "site", "flag")
TRAINING = {"regParam": 0.01}
# A copy of a row in its partition has a key by the partition: the order of drawn rows, and so
# k-means, depends on partitions where rows are equal.
LANDMARKS = {"numLandmarks": 30, "landmarks": "sample"}
COLUMNS = {"label": "y"}


def table(count=300, seed=1):
    rng = np.random.default_rng(seed)
    site = rng.integers(0, 6, count)
    price = rng.lognormal(size=count)
    y = site + np.log(price) + rng.normal(size=count) > 3
    return pa.table(
        {
            "site": [None if k == 0 else "" if k == 1 else f"site {k}" for k in site],
            "price": pa.array(price, mask=rng.random(count) < 0.1),
            "position": rng.integers(0, 50, count),
            "flag": rng.random(count) < 0.5,
            "row": np.arange(count),
            "y": y.astype(float),
        }
    )


@pytest.fixture
def at(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows").mkdir()
    whole = table()
    for k in range(3):
        pq.write_table(whole.slice(100 * k, 100), tmp_path / f"rows/{k}.parquet")
    return tmp_path


@pytest.fixture
def job(at, capsys):
    def started(name, parts=(), **section):
        (at / "conf.yaml").write_text(yaml.safe_dump({name: section}))
        code = run(name, "conf.yaml", parts=parts)
        *_, last = capsys.readouterr().out.splitlines()
        return code, json.loads(last)

    return started


def train(output="model", **changes):
    return {
        "data": {"path": "rows"},
        "columns": COLUMNS,
        "features": FEATURES,
        "training": TRAINING,
        "output": {"path": output, "replace": True},
    } | changes


def fitted(rows, *embeddings):
    """The model of the estimators' own, in this process."""
    ranker = MBAEstimator(labelCol="y", **TRAINING)
    return PipelineEstimator([RecipeEstimator(**FEATURES), *embeddings, ranker]).fitted(rows)


@pytest.mark.usefixtures("all_pictures")
def test_from_raw_rows_to_a_report_and_scores(job, at):
    code, trained = job(
        "train",
        **train(
            embeddings=[{"NystroemEmbedding": LANDMARKS}],
            holdout={"by": "key", "train": 0.6, "seed": 2, "column": "row"},
            calibration={"data": {"path": "rows"}},
            refit=False,
        ),
    )
    assert code == 0, trained
    rows = ArrowTable.of(table(), 100)
    train_part, held_out = by_key(rows, 0.6, 2, "row")
    expected = fitted(train_part, NystroemEmbedding(**LANDMARKS))
    assert trained["auc"] == pytest.approx(expected.evaluate(held_out).auc, abs=1e-12)
    version = current("model", "model")
    assert {"evaluation.json", "report.html", "roc.png", "recipe.json"} <= set(version.names())
    stored = json.loads(version.read("evaluation.json"))
    assert stored["interval"] == trained["interval"]
    assert Path(trained["report"].removeprefix("file://")).read_bytes().startswith(b"<!")
    assert from_json(version.read("recipe.json")) == expected.recipe
    stages = RankerPipelineModel.load(f"{version.uri}/model").stages
    assert [type(stage).__name__ for stage in stages] == [
        "FeatureRecipeModel",
        "EmbeddingModel",
        "LinearRankerModel",
        "ScoreCalibrationModel",
    ]
    # Neither the label nor the order of columns matters to scores, nor columns that are unknown.
    bare = table().drop_columns(["y"]).append_column("other", pa.array(["x"] * 300))
    pq.write_table(bare.select(bare.column_names[::-1]), at / "bare.parquet")
    scoring = {"model": "model", "data": {"path": "bare.parquet"}, "keep": ["row"]}
    code, scored = job("score", **scoring, output={"path": "scores"})
    assert code == 0, scored
    found = pq.read_table(scored["scores"].removeprefix("file://")).sort_by("row")
    assert found.column_names == ["row", "rawPrediction", "prediction", "probability"]
    scores = expected.scored(rows).gathered()["rawPrediction"].to_numpy()
    np.testing.assert_allclose(found["rawPrediction"].to_numpy(), scores, rtol=1e-9)
    data = {"path": "rows", "where": "row >= 150"}
    code, evaluated = job("evaluate", model="model", data=data, output={"path": "evaluation"})
    assert code == 0, evaluated
    late = ArrowTable.of(table()[150:])
    assert evaluated["auc"] == pytest.approx(expected.evaluate(late).auc, abs=1e-12)
    assert evaluated["logLoss"] is not None
    pq.write_table(bare.drop_columns(["price"]), at / "bare.parquet")
    code, refused = job("score", **scoring, output={"path": "other"})
    assert (code, "no column 'price'" in refused["message"]) == (2, True)


@pytest.mark.parametrize("explicit", [None, True])
def test_rows_of_unit_length_are_trained_as_they_are(job, explicit):
    training = TRAINING | ({} if explicit is None else {"standardization": explicit})
    assert job("train", **train(training=training))[0] == 0
    assert read_model("model").ranker.values()["standardization"] is bool(explicit)
    code, again = job("train", **train("again", features={"recipe": "model"}, training=training))
    assert code == 0, again
    models = [read_model(name) for name in ("model", "again")]
    assert models[0].recipe == models[1].recipe == read_recipe("again")
    np.testing.assert_array_equal(*(model.ranker.scorer.w for model in models))


def test_auto_leaves_out_label_and_key(job):
    split = {"by": "key", "train": 0.5, "column": "row"}
    features = {"dimension": 64, "leaveOut": ["flag"]}
    code, result = job("train", **train(features=features, holdout=split))
    assert code == 0, result
    used = {column.name for column in read_model("model").recipe.columns}
    assert used == {"site", "price", "position"}


@pytest.mark.slow
def test_contributions_of_scored_rows(job, spark, at, monkeypatch):
    assert job("train", **train())[0] == 0
    scoring = {"model": "model", "data": {"path": "rows"}, "keep": ["row"]}
    code, scored = job("score", **scoring, contributions=3, output={"path": "scores"})
    assert code == 0, scored
    assert scored["columns"] == ["row", "rawPrediction", "prediction", "contributions"]
    found = pq.read_table(scored["scores"].removeprefix("file://")).sort_by("row")
    model = read_model("model")
    columns = {name: raw_column(name, table()[name].combine_chunks()) for name in FEATURE_COLUMNS}
    values = contributions(model.recipe, model.ranker.scorer.w, columns)
    np.testing.assert_allclose(values.sum(axis=1), found["rawPrediction"].to_numpy(), atol=1e-14)
    for i, row in enumerate(found["contributions"].to_pylist()):
        pairs = [(pair["feature"], pair["value"]) for pair in row]
        assert pairs == named(model.recipe, columns, i, values[i], 3)
    # Refusals do not wait for Spark.
    embeddings = [{"NystroemEmbedding": {"numLandmarks": 5}}]
    assert job("train", **train("embedded", embeddings=embeddings))[0] == 0
    monkeypatch.setattr("spark_auc.spark.data.session.session", None)
    section = scoring | {"model": "embedded", "contributions": 3}
    code, refused = job("score", **section, output={"path": "more"})
    assert (code, refused["error"]) == (2, "ConfigError")
    assert "published model with 1 embeddings at 'embedded'" in refused["message"]


def test_contributions_of_columns_without_a_recipe(job, at):
    prepared = {k: v for k, v in train("prepared").items() if k != "features"}
    prepared["columns"] = COLUMNS | {"features": ["position", "row"]}
    assert job("train", **prepared)[0] == 0
    null = {"select": ["nullif(position, 3) as position", "row"]}
    section = {"model": "prepared", "data": {"path": "rows"} | null, "keep": ["position"]}
    section |= {"contributions": 2, "handleInvalid": "keep", "output": {"path": "scores"}}
    code, scored = job("score", **section)
    assert code == 0, scored
    found = pq.read_table(scored["scores"].removeprefix("file://")).to_pylist()
    assert {row["position"] is None for row in found} == {False, True}
    for row in found:
        if row["position"] is None:
            assert row["rawPrediction"] is row["contributions"] is None
        else:
            summed = sum(part["value"] for part in row["contributions"])
            assert summed == pytest.approx(row["rawPrediction"], abs=1e-12)
            assert {part["feature"] for part in row["contributions"]} <= {"position", "row"}


def test_conditions_and_expressions_of_a_source(job):
    select = ["y", "site", "row % 7 as position", "price", "flag"]
    data = {"path": "rows", "where": "row < 200 and price is not null", "select": select}
    code, result = job("train", **train(data=data))
    assert code == 0, result
    rows = table()[:200].filter(pc.field("price").is_valid())
    position = pa.array(rows["row"].to_numpy() % 7)
    rows = rows.set_column(rows.schema.get_field_index("position"), "position", position)
    expected = fitted(ArrowTable.of(rows))
    np.testing.assert_allclose(
        read_model("model").ranker.scorer.w, expected.ranker.scorer.w, rtol=1e-9, atol=1e-12
    )
    for change, said in (
        ({"where": "rwo < 3"}, "rwo"),
        ({"where": "row <"}, "row <"),
        ({"select": ["y", "log(prise)"]}, "prise"),
        ({"where": "token = 'a-secret-of-mine' and rwo"}, "rwo"),
    ):
        code, result = job("train", **train(data=data | change))
        assert (code, result["error"]) == (2, "ConfigError")
        assert said in result["message"]
        assert "a-secret" not in result["message"]


def weights(path):
    return read_model(path).ranker.scorer


def test_one_pass_over_raw_rows_at_once_and_as_they_arrive(job, at, monkeypatch):
    trained = train(training=TRAINING | {"tol": 1e-12})
    assert job("train", **trained)[0] == 0
    code, batch = job("opauc", **trained | {"output": {"path": "batch"}})
    assert code == 0, batch
    np.testing.assert_allclose(weights("batch").w, weights("model").w, rtol=1e-7, atol=1e-10)
    stream = {"checkpoint": "checkpoint", "maxFilesPerTrigger": 1}
    streamed = trained | {"stream": stream, "output": {"path": "streamed"}}
    code, refused = job("opauc", ["stream"], **streamed)
    assert (code, "opauc.features.recipe" in refused["message"]) == (2, True)
    streamed |= {"features": {"recipe": "model"}}
    for key, value in (("where", "row > 3"), ("dropMissing", ["y"])):
        some = {"data": {"path": "rows", key: value}}
        code, refused = job("opauc", ["stream"], **streamed | some)
        assert (code, f"opauc.data.{key}" in refused["message"]) == (2, True)
    code, result = job("opauc", ["stream"], **streamed)
    assert code == 0, result
    assert (result["batches"], result["rejected"]) == (3, 0)
    assert read_recipe("streamed") == read_recipe("model")
    np.testing.assert_allclose(weights("streamed").w, weights("model").w, rtol=1e-7, atol=1e-10)
    # Another recipe at the same path is another stream.
    assert job("train", **train(features=FEATURES | {"numKnots": 3}))[0] == 0
    code, refused = job("opauc", ["stream"], **streamed)
    assert (code, "checkpoint of features" in refused["message"]) == (2, True)
    # So is one that is published after the check.
    monkeypatch.setattr(opauc, "read_recipe", lambda location: read_recipe("streamed"))
    code, refused = job("opauc", ["stream"], **streamed)
    assert (code, "checkpoint of features" in refused["message"]) == (2, True)


@pytest.mark.parametrize("name", ["opauc", pytest.param("adadsg", marks=pytest.mark.slow)])
def test_every_job_names_tokens_of_the_largest_weights(job, name):
    """As train does, by the same sample of the rows."""
    section = {"data": {"path": "rows"}, "columns": COLUMNS, "features": FEATURES}
    section |= {"training": TRAINING}
    if name == "adadsg":
        section |= {"validation": {"path": "rows"}, "training": {"firstStage": 50}}
        section |= {"checkpoint": "checkpoint"}
    code, result = job(name, **section, output={"path": "model"})
    assert code == 0, result
    summary = json.loads(current("model", "model").read("summary.json"))
    names = [weight["feature"] for weight in summary["largest_weights"]]
    of_sites = [n for n in names if ": mostly site=site" in n]
    counts = Counter(table()["site"].to_pylist())
    assert len(of_sites) == 4, names
    for n in of_sites:
        token, count = n.partition(": mostly site=")[2].rstrip(")").split(" (")
        assert counts[token] == int(count), n
    hidden = section | {"features": FEATURES | {"tokenNames": False}}
    assert job(name, **hidden, output={"path": "hidden"})[0] == 0
    assert "mostly" not in current("hidden", "model").read("summary.json").decode()


def test_a_raw_column_of_another_type_is_refused(job, at):
    rows = table()
    assert job("train", **train())[0] == 0
    scoring = {"model": "model", "data": {"path": "retyped.parquet"}}
    as_text = rows.set_column(1, "price", pa.array(["dear"] * len(rows)))
    pq.write_table(as_text, at / "retyped.parquet")
    code, refused = job("score", **scoring, output={"path": "scores"})
    assert (code, refused["error"]) == (3, "DataError")
    assert "found 'dear' in column 'price', where" in refused["message"]


@pytest.mark.slow
def test_stages_on_raw_rows(job, spark, at):
    code, result = job(
        "adadsg",
        data={"path": "rows", "where": "row < 200"},
        validation={"path": "rows", "where": "row >= 200"},
        columns=COLUMNS,
        features=FEATURES,
        training={"firstStage": 50},
        checkpoint="checkpoint",
        output={"path": "model"},
    )
    assert code == 0, result
    model = read_model("model")
    assert model.recipe is not None
    assert model.ranker.values()["standardization"] is False
    late = spark.read.parquet(str(at / "rows")).filter("row >= 200")
    auc = evaluate(transformed(model, late), labelCol="y").auc
    assert result["auc"] == pytest.approx(auc, abs=1e-12)


@pytest.mark.slow
def test_the_smoothness_is_chosen_and_told(job, spark, at):
    data = {"path": "rows", "select": ["* except (position)", "row % 3 as position"]}
    several = train(
        data=data,
        columns={"label": "y", "fold": "position"},
        features={k: v for k, v in FEATURES.items() if k != "log"} | {"numKnots": 7},
        training={"smoothness": "auto"},
        holdout={"by": "key", "train": 0.7, "column": "row"},
        refit=False,
    )
    code, result = job("train", **several)
    assert code == 0, result
    version = current("model", "model")
    table = json.loads(version.read("selection.json"))
    chosen = table["candidates"][table["chosen"]]
    assert result["smoothness"] == chosen["smoothness"]
    assert f"<dd>{chosen['smoothness']:g}</dd>" in version.read("report.html").decode()
    training = {"smoothness": chosen["smoothness"], "regParam": chosen["regParam"]}
    one = {"training": training, "output": {"path": "one"}, "columns": COLUMNS}
    code, alone = job("train", **(several | one))
    assert code == 0, alone
    np.testing.assert_allclose(weights("model").w, weights("one").w, rtol=1e-6, atol=1e-9)


LINES = {
    "path": "lines",
    "format": "delimited",
    "options": {"separator": "tab", "columns": "y integer, price float, site, position integer"},
}


def test_lines_of_text(job, at):
    rows = table().select(["y", "price", "site", "position"]).to_pylist()
    texts = ["\t".join("" if v is None else str(v) for v in row.values()) for row in rows]
    texts = [text.replace(".0\t", "\t", 1) for text in texts]
    (at / "lines").write_text("\n".join(texts) + "\n")
    features = {"log": ["position"], "numKnots": 6, "dimension": 64}
    section = train(data=LINES, features=features, holdout={"by": "key", "train": 0.7})
    code, result = job("train", **section)
    assert code == 0, result
    assert 0.6 < result["auc"] < 1.0
    code, scored = job("score", model="model", data=LINES, output={"path": "scores"})
    assert (code, scored["rows"]) == (0, 300)
    (at / "lines").write_text("\n".join([*texts, "1\t2"]) + "\n")
    code, result = job("score", model="model", data=LINES, output={"path": "more"})
    assert (code, result["error"]) == (3, "DataError")
    assert f"in line 301 of file://{at}/lines with 2 fields, expected 4" in result["message"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({}, "without ['columns', 'separator']"),
        ({"separator": ",", "columns": "y whole"}, "found column 'y whole'"),
        ({"separator": ",", "columns": "y", "sep": "x"}, "found options ['sep']"),
        ({"separator": ",", "columns": "y", "header": "yes"}, "found options.header 'yes'"),
    ],
)
def test_options_of_lines(job, options, match):
    code, result = job("train", **train(data={**LINES, "path": "rows", "options": options}))
    assert code == 2
    assert match in result["message"]
