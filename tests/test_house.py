"""The rooms: what may import what, and what importing costs."""

import ast
import re
import subprocess
import sys
import zipfile
from graphlib import TopologicalSorter
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "spark_auc"
# What stands in a room, from top to bottom; those of one line do not know each other. A file or
# room may import what stands below it. Rooms that are not named here hold files alone.
ORDER = {
    "spark_auc": [
        ["__main__", "mlflow"],
        ["app"],
        ["spark", "local", "store"],
        ["pipeline"],
        ["export"],
        ["serving"],
        ["tables"],
        ["lakes"],
        ["publication"],
        ["storage"],
        ["retraining"],
        ["training"],
        ["learners", "solvers", "features"],
        ["trees"],
        ["core"],
        ["errors"],
    ],
    "spark_auc.app": [
        ["cli"],
        ["running"],
        ["commands", "told", "versions", "one_call"],
        ["jobs"],
        ["report", "config"],
        ["known", "raw_clicks"],
    ],
    "spark_auc.serving": [
        ["load"],
        ["ranker"],
        ["segments", "score_curves", "stored_stage"],
        ["tables"],
        ["linear_scorer", "nested"],
    ],
    "spark_auc.pipeline": [
        ["retraining"],
        ["copies", "estimators"],
        ["models", "method_fit"],
        ["calibration_fit", "comparison", "scored_rows"],
        ["contributions", "evaluation"],
        ["score_tables", "score_groups"],
        ["score_columns", "pipeline_fit", "part_words", "one_pass"],
        ["recipe_ranker", "same_rows", "compared_blocks"],
        ["pair_moments_fit", "hinge_fit", "recipe_estimator"],
        ["segment_rankers", "recipe_interactions", "recipe_trees"],
        ["ranker_fit", "recipe_fit", "recipe_schema", "tree_growth", "token_sample"],
        ["label_sample", "drift", "has_settings", "online_settings"],
        ["recipe_settings", "tree_settings", "ranker_settings"],
        ["prior_settings"],
        ["settings"],
    ],
    "spark_auc.tables": [
        ["files", "remembered", "rows"],
        ["parquet_files"],
        ["delimited", "json_lines"],
        ["text_ranges"],
        ["quotes", "layouts", "partitions"],
        ["arrow_table", "drawn_pairs", "columns", "split"],
        ["stratified"],
        ["part_files"],
        ["raw_features"],
        ["features", "labels", "raw_columns", "segments", "text_types"],
        ["decoders", "encoders", "tally", "hashes", "gathered", "text_formats"],
        ["missing", "nested"],
        ["table", "arrow_columns"],
        ["types", "names"],
    ],
    "spark_auc.features": [
        ["recipe_auto", "shared_names", "tree_growth"],
        ["auto_rules", "pair_choice", "row_groups", "shapes", "token_names", "watched"],
        [
            "contributions",
            "drift",
            "recipe_blocks",
            "recipe_fit",
            "recipe_json",
            "seen",
            "single_row",
            "token_hits",
        ],
        ["recipe"],
        ["calendar_days", "cross_gains", "differences", "recipe_rows"],
        ["derived"],
        ["kinds", "pair_gains"],
        ["auto_state", "codes", "composition", "logarithms", "pair_histograms", "robust_scale"],
        [
            "absent_text",
            "column_auc",
            "column_summary",
            "crosses",
            "fourier",
            "network",
            "nystroem",
            "restore",
            "single_values",
            "splines",
            "text_keys",
            "thresholds",
            "tokens",
        ],
        [
            "category_numbers",
            "embedding",
            "kernels",
            "knots",
            "murmur",
            "raw_columns",
            "readings",
            "time_zones",
            "times",
            "value_counts",
        ],
    ],
    "spark_auc.features.kinds": [
        ["registry", "pair"],
        ["tokens", "words", "presence", "log", "spline", "standard", "leaves", "parts_of_times"],
        ["hashed", "numeric"],
        ["named"],
    ],
    "spark_auc.mlflow": [["log"], ["facts", "flavour"], ["signature"]],
    "spark_auc.export": [
        ["to_file"],
        ["logistic", "onnx_model", "sql"],
        ["onnx_embeddings"],
        ["onnx_features", "sql_terms"],
        ["onnx_trees"],
        ["onnx_graph", "sql_dialect", "tree_words"],
        ["refusals", "whole"],
        ["token_places"],
    ],
    "spark_auc.publication": [["publish", "versions"], ["manifest"], ["directory"], ["redaction"]],
    "spark_auc.spark": [
        ["importances"],
        ["contributions"],
        ["pipeline"],
        ["pipeline_model"],
        ["streaming"],
        ["estimators", "features"],
        ["evaluation"],
        ["persistence"],
        ["params"],
        ["data"],
    ],
    "spark_auc.store": [
        ["streams"],
        ["moment_store"],
        ["windows", "stored_facts", "stored_labels"],
        ["files"],
        ["rows"],
        ["facts", "table", "deletion", "sources"],
        ["durability"],
    ],
    "spark_auc.core": [
        ["evaluation", "hinge"],
        ["moments"],
        ["row_source"],
        ["sampling", "noise", "stored_batches"],
        ["batch", "labels", "segments"],
        ["lockstep"],
        [
            "double_bins",
            "state",
            "products",
            "strict_exp",
            "validation",
            "memory",
            "spill",
            "parallel",
            "html",
            "progress",
        ],
        ["kernels"],
        ["types"],
    ],
}
WITH_SPARK = ("spark_auc.app", "spark_auc.spark", "spark_auc.mlflow")
FILES = sorted(p for p in PACKAGE.rglob("*/*.py") if p.name != "__init__.py")


def module(path):
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def level(room, name):
    """The line on which a file or room stands in its room, from the top."""
    return next(k for k, line in enumerate(ORDER[room]) if name in line)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_downward(path):
    mine = module(path).split(".")
    for name in imports(path):
        theirs = name.split(".")
        if theirs[0] == "spark_auc" and len(theirs) > 1:
            shared = sum(
                1
                for _ in takewhile(lambda pair: pair[0] == pair[1], zip(mine, theirs, strict=False))
            )
            room = ".".join(mine[:shared])
            if room in ORDER and shared < len(theirs):
                below = level(room, mine[shared]) < level(room, theirs[shared])
                assert below, f"{module(path)} imports {name}"
        elif not module(path).startswith(WITH_SPARK):
            forbidden = {"pyspark", "pyarrow", "pandas", "pydantic", "yaml"}
            if mine[1] in {"store", "serving", "export", "lakes", "storage", "tables", "pipeline"}:
                forbidden.remove("pyarrow")
            if module(path).startswith("spark_auc.publication"):
                forbidden -= {"pyarrow", "pydantic"}
            assert theirs[0] not in forbidden, name


def test_no_file_imports_itself_by_way_of_others():
    arrows = {module(path): set(imports(path)) for path in FILES}
    TopologicalSorter(arrows).prepare()


@pytest.mark.parametrize("room", ORDER)
def test_every_part_of_a_room_has_its_place(room):
    there = {
        p.stem
        for p in ROOT.joinpath(*room.split(".")).iterdir()
        if p.name not in {"__init__.py", "__init__.pyi", "__pycache__", "py.typed"}
    }
    assert there == {name for line in ORDER[room] for name in line}


@pytest.mark.parametrize(
    "room", sorted({p.parent for p in FILES}), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_rooms_say_what_is_in_them_and_where_to_begin(room):
    said = ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or ""
    begin = re.findall(r"Begin with `(spark_auc[a-z_.]*)`[.:]", said.replace("\n", " "))
    assert begin, said
    for name in begin:
        assert name.startswith(module(room))
        assert ROOT.joinpath(*name.split(".")).with_suffix(".py").is_file(), name


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
        "rooms = 'core trees solvers learners features training retraining local'.split()\n"
        "for room in rooms:\n"
        "    package = importlib.import_module('spark_auc.' + room)\n"
        "    for m in pkgutil.walk_packages(package.__path__, package.__name__ + '.'):\n"
        "        importlib.import_module(m.name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_serving_needs_neither_spark_nor_pandas():
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pandas', 'yaml', 'sklearn'):\n"
        "    sys.modules[name] = None\n"
        "from spark_auc import ServedRanker, load, to_logistic_regression, to_onnx, to_sql\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    # Executors have no pydantic.
    code = "import sys; sys.modules['pydantic'] = None; import spark_auc.spark.estimators.mba"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("missing", "wanted"),
    [
        (["pyspark", "pyarrow", "pandas", "pydantic", "yaml"], "spark_auc:MBAClassifier"),
        (["pyspark"], "spark_auc:evaluate"),
        (["pyarrow"], "spark_auc.spark.estimators.mba:MBAClassifier"),
        (["pydantic"], "spark_auc.app.running:run"),
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

    assert {"MBAClassifier", "LinearRankerModel", "evaluate"} < set(spark_auc.__all__)
    for name in spark_auc.__all__:
        assert getattr(spark_auc, name).__doc__
    assert set(spark_auc.__all__) < set(dir(spark_auc))
    with pytest.raises(AttributeError, match="nothing"):
        _ = spark_auc.nothing


def test_public_names_resolve_from_a_zip(tmp_path):
    with zipfile.ZipFile(tmp_path / "package.zip", "w") as archive:
        for path in (*PACKAGE.rglob("*.py"), PACKAGE / "__init__.pyi"):
            archive.write(path, path.relative_to(ROOT))
    code = (
        "import sys\n"
        f"sys.path.insert(0, {str(tmp_path / 'package.zip')!r})\n"
        "import spark_auc\n"
        "assert '.zip' in spark_auc.__file__\n"
        "from spark_auc import *\n"
        "assert '.zip' in sys.modules[SplineBasis.__module__].__file__\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)


def test_spark_is_reached_through_dataframes_only():
    forbidden = re.compile(r"\.rdd\b|sparkContext|_jdf\b|_jvm\b|\baccumulator\(")
    for path in PACKAGE.rglob("*.py"):
        assert not forbidden.search(path.read_text()), path


def test_threads_hold_no_lock_of_the_process():
    """See `spark_auc.core.parallel.mapped`."""
    for path in PACKAGE.rglob("*.py"):
        assert "concurrent.futures" not in path.read_text(), path


def test_readme_example(spark, capsys):
    text = (ROOT / "README.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.S)
    names: dict = {}
    exec(compile("\n".join(examples), "README.md", "exec"), names)
    assert names["model"].summary.certificate["reason"] == "converged"
    assert f"The output is `{capsys.readouterr().out.strip()}`." in text
