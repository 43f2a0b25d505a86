"""The code in docstrings, in the pages of the documentation, and in examples/ runs."""

import ast
import doctest
import importlib
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import spark_auc
from spark_auc import MBAClassifier
from spark_auc.app.cli import main
from spark_auc.app.running import run

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    str(path.relative_to(ROOT)) for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
)
TOP = "spark_auc|benchmarks|conf|docker|docs|examples|experiments|jobs|tests"
PATH = re.compile(rf"(?<![\w/.-])(?:{TOP})/(?:[\w.-]+/)*[\w.-]*\w/?")
DOTTED = re.compile(r"(?<![\w/.-])(?:spark_auc|benchmarks|experiments)(?:\.[a-zA-Z_]\w*)+")
PLACEHOLDER = re.compile(r"\b[A-Z]{3,}\b")
EVERY_KEY = re.compile(r"^\| `(\w+)` \| (.+) \| (.+) \| (.*) \|$", re.M)


def python_of(page):
    """The Python blocks of a page, as one program."""
    return "\n".join(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S))


@pytest.fixture(scope="module")
def rows(spark):
    names = {"spark": spark}
    exec(python_of("docs/reference/api.md"), names)
    kept = names["rows"].coalesce(1).cache()
    yield kept
    kept.unpersist()


@pytest.mark.slow
@pytest.mark.parametrize("name", spark_auc.__all__)
def test_docstring_examples(name, spark, rows):
    finder = doctest.DocTestFinder(recurse=False)
    (found,) = finder.find(
        getattr(spark_auc, name), name, module=False, globs={"spark": spark, "rows": rows}
    )
    assert found.examples
    report = []
    failed, _ = doctest.DocTestRunner().run(found, out=report.append)
    assert not failed, "".join(report)


# What each prints, at the least.
PRINTED = {
    "choose_penalty": r"chosen",
    "probabilities": r"mean probability 0\.0(09|10|11)\d?, purchases 0\.009",
    "quickstart": r"converged\nAUC 0\.9\d+, 95% interval 0\.9",
    "raw_columns": r"difference 0\.\d+, 0\.",
    "stream_of_files": r'"batches": ',
}


def test_all_examples_are_known():
    # tests/serving tests the server, which does not end.
    known = {*PRINTED, "http_server"}
    assert known == {path.stem for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_examples(name, spark, capsys):
    runpy.run_path(str(ROOT / f"examples/{name}.py"), run_name="__main__")
    assert re.search(PRINTED[name], capsys.readouterr().out)


@pytest.mark.slow
def test_tutorial(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs/tutorial.md").read_text()
    names: dict = {}
    ran = []
    for language, title, code in re.findall(
        r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', text, re.S | re.M
    ):
        if language == "python":
            # Spark was started in another directory.
            there = code.replace('read.csv("', f'read.csv("{tmp_path}/')
            exec(compile(there, "tutorial.md", "exec"), names)
        elif language == "yaml":
            (tmp_path / title).write_text(code)
        elif language == "bash":
            for line in code.splitlines():
                job, config = re.fullmatch(r"spark-auc (\w+) --config (\S+)", line).groups()
                assert run(job, config) == 0, line
                ran.append(job)
    assert ran == ["prepare", "train", "score", "evaluate"]
    assert 0.6 < names["report"].auc < 1.0
    assert list(Path("evaluation").glob("versions/*/report.html"))


@pytest.mark.slow
def test_methods(tmp_path, monkeypatch, capsys):
    pytest.importorskip("lightgbm", reason="lightgbm is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(python_of("docs/guides/methods.md"), names)
    _, column, *aucs, _ = capsys.readouterr().out.splitlines()
    assert column == "rating"
    assert all(float(auc) > 0.68 for auc in aucs), aucs
    assert len(aucs) == 2
    assert (
        names["roc_auc_score"](names["y_test"], names["ranker"].decision_function(names["X_test"]))
        > 0.98
    )


@pytest.mark.slow
def test_a_file_to_begin_with(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    draw = np.random.default_rng(1)
    age = draw.normal(size=400)
    bought = (age + draw.normal(size=400) > 0).astype(int)
    csv.write_csv(pa.table({"age": age, "bought": bought}), "rows.csv")
    section = (ROOT / "docs/guides/jobs.md").read_text().split("## A file to begin with")[1]
    text = re.search(r"```\n(.*?)```", section, re.S)[1]
    for word, value in (("DIR", "here"), ("FILE_OR_TABLE", "rows.csv"), ("COLUMN", "bought")):
        text = text.replace(word, value)
    commands = text.splitlines()
    assert [command.split()[1] for command in commands] == ["init", "train"]
    for command in commands:
        with pytest.raises(SystemExit) as stopped:
            main(command.split()[1:])
        assert stopped.value.code == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["auc"] > 0.6


@pytest.mark.slow
def test_scores_in_a_table(spark, tmp_path, monkeypatch):
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    pytest.importorskip("pyiceberg", reason="pyiceberg is not installed")
    import yaml
    from deltalake import DeltaTable
    from pyiceberg.catalog import load_catalog

    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    draw = np.random.default_rng(1)
    age = draw.normal(size=300)
    table = pa.table(
        {
            "day": ["monday", "sunday"] * 150,
            "user": range(300),
            "age": age,
            "label": (age + draw.normal(size=300) > 0).astype(float),
        }
    )
    pq.write_table(table, tmp_path / "data/new.parquet")
    train = {"data": {"path": "data/new.parquet"}, "columns": {"features": ["age"]}}
    train |= {"training": {"regParam": 0.1}, "output": {"path": "output/model"}}
    text = (ROOT / "docs/guides/jobs.md").read_text().split("## Scores in a table")[1]
    delta, iceberg = re.findall(r"```yaml\n(.*?)```", text, re.S)[:2]
    score = yaml.safe_load(delta.replace("data/new", "data/new.parquet"))["score"]
    other = yaml.safe_load(iceberg.replace("file:///data/lake", f"file://{tmp_path}/lake"))
    catalog = load_catalog(None, **other["output"]["options"])
    catalog.create_namespace("sales")
    jobs = {"train": train, "score": score}
    for job, section in [*jobs.items(), ("score", score), ("score", score | other)]:
        (tmp_path / "job.yaml").write_text(yaml.safe_dump({job: section}))
        assert run(job, "job.yaml") == 0
    scores = DeltaTable("output/scores").to_pyarrow_table()
    assert scores.num_rows == 600
    assert len(set(scores["run"].to_pylist())) == 2
    assert len(set(scores["model"].to_pylist())) == 1
    found = catalog.load_table("sales.scores").scan().to_arrow()
    assert found.column_names[:2] == ["day", "user"]
    assert found.num_rows == 300


@pytest.mark.slow
def test_spark_ml(rows, capsys, monkeypatch):
    # The page sets the level of the log.
    monkeypatch.setattr("logging.basicConfig", lambda **_: None)
    exec(python_of("docs/guides/spark_ml.md"), {"rows": rows})
    auc, *tables = capsys.readouterr().out.splitlines()
    assert 0.5 < float(auc.removeprefix("AUC ")) < 1.0
    assert sum("position" in line for line in tables) >= 3


@pytest.mark.slow
def test_values_of_cells_of_a_notebook(rows):
    page = (ROOT / "docs/guides/spark_ml.md").read_text()
    names = {"rows": rows}
    values = []
    for cell in re.findall(r"```python\n(.*?)```", page.split("Long fits")[0], re.S):
        *statements, last = ast.parse(cell).body
        exec(compile(ast.Module(statements, []), "cell", "exec"), names)
        values.append(eval(compile(ast.Expression(last.value), "cell", "eval"), names))
    model, report, comparison = (value._repr_html_() for value in values[1:])
    assert re.search("candidate [12] is chosen", model)
    assert "<polyline" in report
    assert "rawPrediction - age" in comparison


@pytest.mark.slow
def test_serving(rows, capsys):
    names = {"rows": rows}
    exec(python_of("docs/guides/serving.md"), names)
    columns, numbers = capsys.readouterr().out.splitlines()
    assert columns == "('position', 'age')"
    score, probability, label = map(float, numbers.split())
    assert 0 < probability < 1
    assert label == (score > names["ranker"].threshold)


@pytest.mark.slow
def test_mlflow(rows, tmp_path, monkeypatch, capsys):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    # The functions of the page write these.
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_ID"):
        monkeypatch.setenv(name, "")
    monkeypatch.chdir(tmp_path)
    names = {"rows": rows}
    try:
        exec(python_of("docs/guides/mlflow.md"), names)
    finally:
        names["mlflow"].set_tracking_uri(None)
    auc, probability, columns = (
        line for line in capsys.readouterr().out.splitlines() if line[0] in "0123456789["
    )
    assert 0.5 < float(auc) < 1
    assert 0 < float(probability) < 1
    assert columns == "['score', 'probability']"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_exports(rows, capsys):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    names = {"rows": rows}
    exec(python_of("docs/guides/exports.md"), names)
    columns, equal, entries = capsys.readouterr().out.splitlines()
    assert columns.endswith("'score', 'prediction', 'probability']")
    assert equal == "True"
    assert entries == "[('position', 'spline'), ('age', 'spline')]"


@pytest.mark.slow
def test_retraining(spark):
    names: dict = {}
    exec(python_of("docs/guides/retraining.md"), names)
    assert names["solution"].certificate.reason == "converged"
    weighted = names["clicks"].selectExpr("*", "if(week = 0, 0.5D, 1D) as weight")
    refitted = MBAClassifier(featuresCol=["position", "age"], weightCol="weight", regParam=0.1).fit(
        weighted
    )
    np.testing.assert_allclose(names["weights"], refitted.coefficients.toArray(), rtol=1e-6)


def resolves(dotted):
    """Whether a name is that of a module, or of an attribute of one."""
    module, _, name = dotted.rpartition(".")
    try:
        importlib.import_module(dotted)
    except ModuleNotFoundError:
        return bool(module) and hasattr(importlib.import_module(module), name)
    return True


@pytest.mark.parametrize("page", PAGES)
def test_paths_and_names_of_the_pages_exist(page):
    text = (ROOT / page).read_text()
    paths = {path for path in PATH.findall(text) if not PLACEHOLDER.search(Path(path).stem)}
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    names = {name for name in DOTTED.findall(text) if not PLACEHOLDER.search(name)}
    names = {name for name in names if not name.endswith((".md", ".zip"))}
    assert [name for name in sorted(names) if not resolves(name)] == []


def test_every_key_of_the_configuration_is_described():
    page = runpy.run_path(str(ROOT / "docs/hooks.py"))["on_page_markdown"](
        "", SimpleNamespace(file=SimpleNamespace(src_uri="reference/configuration.md"))
    )
    keys = EVERY_KEY.findall(page)
    assert len(keys) == len(re.findall(r"^\| `", page, re.M)) > 100
    assert {key for key, *_, description in keys if not description} == set()
    assert ("conf", "mapping of text to text or integer or number or boolean", "empty") in {
        key[:3] for key in keys
    }
