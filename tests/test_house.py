"""The rooms: what may import what, and what importing costs."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_auc"
# A room may import itself and those after it.
ROOMS = ["app", "spark", "local", "training", ("online", "solvers", "embeddings"), "core", "errors"]
LOWEST_WITH_SPARK = 1


def level(room):
    return next(k for k, r in enumerate(ROOMS) if room == r or room in r)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*/*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_imports_point_downward(path):
    mine = level(path.relative_to(PACKAGE).parts[0])
    for name in imports(path):
        top, *rest = name.split(".")
        if top == "spark_auc" and rest:
            assert level(rest[0]) >= mine, f"{path} imports {name}"
        if mine > LOWEST_WITH_SPARK:
            assert top not in {"pyspark", "pyarrow", "pandas", "pydantic", "yaml"}, name


@pytest.mark.parametrize("path", sorted((ROOT / "jobs").glob("*.py")), ids=lambda p: p.name)
def test_jobs_hold_no_logic(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    assert len(tree.body) == 3
    assert set(imports(path)) == {"spark_auc.app.cli"}


def test_core_needs_no_spark():
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pyarrow', 'pandas', 'pydantic', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "import pkgutil, importlib, spark_auc\n"
        "for room in ('core', 'solvers', 'online', 'embeddings', 'training', 'local'):\n"
        "    package = importlib.import_module('spark_auc.' + room)\n"
        "    for m in pkgutil.iter_modules(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(m.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        (["pyspark", "pyarrow", "pandas", "pydantic", "yaml"], "spark_auc:MBAClassifier"),
        (["pyspark"], "spark_auc:evaluate"),
        (["pyarrow"], "spark_auc.spark.mba:MBAClassifier"),
        (["pydantic"], "spark_auc.app.cli:main"),
    ],
)
def test_a_missing_package_is_one_sentence(missing, wanted):
    """The packages of an extra: what is missing, and how to install it."""
    module, name = wanted.split(":")
    code = (
        "import sys\n"
        f"for name in {missing}:\n"
        "    sys.modules[name] = None\n"
        f"from {module} import {name}\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode
    *_, said = ended.stderr.splitlines()
    assert said.startswith("spark_auc.errors.MissingPackageError: found no package ")
    assert missing[0] in said
    assert "run pip install 'spark-auc[spark]'" in said
    assert "During handling" not in ended.stderr


def test_public_names_resolve():
    import spark_auc

    assert sorted(spark_auc.__all__) == sorted(spark_auc._HOMES)
    for name in spark_auc.__all__:
        assert getattr(spark_auc, name).__doc__
    with pytest.raises(AttributeError, match="nothing"):
        _ = spark_auc.nothing


def test_spark_is_reached_through_dataframes_only():
    forbidden = re.compile(r"\.rdd\b|sparkContext|_jdf\b|_jvm\b|\baccumulator\(")
    for path in PACKAGE.rglob("*.py"):
        assert not forbidden.search(path.read_text()), path


def test_readme_example(spark):
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict = {}
    exec(compile("\n".join(examples), "README.md", "exec"), names)
    assert names["model"].summary.certificate["reason"] == "converged"
    assert 0 <= names["report"].auc <= 1
