"""The job score: thresholds that an evaluation chose, and rows that cannot be scored."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.config.scoring import Score
from spark_auc.app.jobs.score import check
from spark_auc.app.running import run
from spark_auc.errors import ConfigError

pytestmark = pytest.mark.usefixtures("spark")

ROWS = 400
MODEL = {"regParam": 0.1}


@pytest.fixture(scope="module")
def at(tmp_path_factory, spark):
    """A published model with a holdout, and an evaluation of other rows."""
    path = tmp_path_factory.mktemp("score")
    draw = np.random.default_rng(4)
    a, b = draw.normal(size=(2, ROWS)).round(1)
    y = (draw.random(ROWS) < 1 / (1 + np.exp(1 - a))).astype(float)
    pq.write_table(pa.table({"a": a, "b": b, "y": y, "id": range(ROWS)}), path / "rows.parquet")
    wrong = np.where(np.arange(ROWS) < 7, np.inf, a)
    pq.write_table(pa.table({"a": wrong, "b": b, "y": y}), path / "wrong.parquet")
    for name, section in {
        "train": {
            "data": {"path": "rows.parquet"},
            "columns": {"features": ["a", "b"], "label": "y"},
            "training": MODEL,
            "holdout": {"by": "key", "column": "id", "train": 0.7},
            "output": {"path": "model"},
        },
        "evaluate": {
            "model": "model",
            "data": {"path": "rows.parquet"},
            "output": {"path": "evaluation"},
        },
    }.items():
        (path / f"{name}.yaml").write_text(yaml.safe_dump({name: section}))
    return path


@pytest.fixture
def job(at, monkeypatch, capsys):
    monkeypatch.chdir(at)
    for name, output in (("train", "model"), ("evaluate", "evaluation")):
        if not (at / output).exists():
            assert run(name, f"{name}.yaml") == 0
    capsys.readouterr()

    def scored(output, data="rows.parquet", named=None, **keys):
        section = {"model": "model", "data": {"path": data}, "keep": ["y"]}
        section |= {"output": {"path": output, **(named or {})}} | keys
        (at / "score.yaml").write_text(yaml.safe_dump({"score": section}))
        code = run("score", "score.yaml")
        result = json.loads(capsys.readouterr().out.splitlines()[-1])
        table = None
        if code == 0:
            table = pq.read_table(result["scores"].removeprefix("file://")).to_pandas()
        return code, result, table

    return scored


def evaluation(at, name):
    (file,) = (at / name / "versions").glob("*/evaluation.json")
    return json.loads(file.read_text())["thresholds"]


@pytest.mark.parametrize("criterion", ["f1", "classRatio", "fprBudget"])
def test_the_threshold_that_evaluate_chose_gives_its_rates(job, at, criterion):
    point = evaluation(at, "evaluation")[criterion]
    code, result, scores = job(criterion, threshold=criterion, evaluation="evaluation")
    assert (code, result["rows"], result["skipped"]) == (0, ROWS, 0)
    positive = scores.y == 1
    assert scores.prediction[positive].mean() == pytest.approx(point["tpr"], rel=1e-12)
    assert scores.prediction[~positive].mean() == pytest.approx(point["fpr"], rel=1e-12)


def test_thresholds_of_the_holdout_and_of_the_user(job, at):
    held_out = evaluation(at, "model")["f1"]["threshold"]
    code, _, scores = job("held-out", threshold="f1")
    assert code == 0
    assert (scores.prediction == (scores.rawPrediction >= held_out)).all()
    _, _, scores = job("own", threshold=0.125)
    assert (scores.prediction == (scores.rawPrediction >= 0.125)).all()


def test_rows_that_cannot_be_scored(job):
    code, result, _ = job("error", "wrong.parquet")
    assert code == 3
    assert "7 features that are NaN or infinite" in result["message"]
    code, result, skipped = job("skip", "wrong.parquet", handleInvalid="skip")
    assert (code, result["rows"], result["skipped"]) == (0, ROWS - 7, 7)
    code, result, kept = job("keep", "wrong.parquet", handleInvalid="keep")
    assert (code, result["rows"], result["skipped"]) == (0, ROWS, 0)
    assert kept.rawPrediction.isna().sum() == kept.prediction.isna().sum() == 7
    some = kept.dropna().rawPrediction.sort_values(ignore_index=True)
    np.testing.assert_array_equal(skipped.rawPrediction.sort_values(ignore_index=True), some)


def test_columns_of_the_user_are_neither_dropped_nor_replaced(job, at):
    """Names that the model adds are refused by the file alone, and a key renames each."""
    rows = pq.read_table(at / "rows.parquet")
    mine = {"Prediction": ["mine"] * ROWS, "probability": [0.5] * ROWS, "RunId": range(ROWS)}
    for name, values in mine.items():
        rows = rows.append_column(name, pa.array(values))
    pq.write_table(rows, at / "taken.parquet")
    keys = {"model": "model", "data": {"path": "taken.parquet"}, "output": {"path": "scores"}}
    with pytest.raises(ConfigError, match=r"'Prediction' .* score\.output\.predictionCol"):
        check(Score.model_validate(keys))
    named = {"predictionCol": "label", "rawPredictionCol": "score"}
    keep = ["y", "PREDICTION", "probability", "RunId"]
    code, result, scores = job("named", "taken.parquet", named, keep=keep)
    assert code == 0, result
    assert scores.columns.tolist() == ["y", *mine, "score", "label"]
    assert scores.Prediction.tolist() == mine["Prediction"]
    _, _, plain = job("plain", "rows.parquet")
    np.testing.assert_array_equal(scores[["score", "label"]], plain[plain.columns[1:]])
    named |= {"runIdCol": "runid"}
    code, result, _ = job("twice", "taken.parquet", named, keep=keep)
    assert code == 2
    assert "found column 'RunId' in the data already" in result["message"]
    assert "set score.output.runIdCol" in result["message"]
    # An evaluation adds no columns that anybody reads.
    (at / "again.yaml").write_text(
        yaml.safe_dump({"evaluate": keys | {"output": {"path": "again"}}})
    )
    assert run("evaluate", "again.yaml") == 0
    assert evaluation(at, "again") == evaluation(at, "evaluation")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"threshold": "F1"}, "score.threshold"),
        ({"threshold": float("nan")}, "score.threshold"),
        ({"threshold": 0.5, "evaluation": "evaluation"}, "evaluation with a criterion"),
        ({"threshold": "f1", "evaluation": "nowhere"}, "nowhere"),
        ({"threshold": "f1", "evaluation": "model"}, "expected"),
        ({"handleInvalid": "drop"}, "handleInvalid"),
    ],
)
def test_mistakes(job, keys, message):
    code, result, _ = job("refused", **keys)
    assert code == 2, result
    assert message in result["message"]
