"""Functions that take a path take it as text and of pathlib, by one rule."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from os import PathLike
from pathlib import Path
from typing import Any, get_args, get_type_hints

import numpy as np
import pytest

import spark_auc
from spark_auc.export.to_file import KINDS, to_file
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.recipe import Recipe
from spark_auc.publication.directory import Directory
from spark_auc.publication.publish import check_free, publication
from spark_auc.publication.versions import current, files_of, kept, resolve
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.storage.file_systems import is_local, opened, scheme_of
from tests.fixtures.make import ROOT

# The modules of functions that users call with a path, beside the public names.
MODULES = [
    "spark_auc.app.cli",
    "spark_auc.app.config.load",
    "spark_auc.export.to_file",
    "spark_auc.export.whole",
    "spark_auc.lakes.delta",
    "spark_auc.mlflow.flavour",
    "spark_auc.publication.directory",
    "spark_auc.publication.publish",
    "spark_auc.publication.versions",
    "spark_auc.serving.load",
    "spark_auc.spark.data.libsvm",
    "spark_auc.spark.data.arrow_files",
    "spark_auc.spark.data.raw",
    "spark_auc.pipeline.recipe_trees",
    "spark_auc.spark.features.tree_models",
    "spark_auc.spark.persistence",
    "spark_auc.storage.file_systems",
    "spark_auc.store.moment_store",
    "spark_auc.store.table",
]
NAMES = {"path", "location", "output", "config", "directory", "model_uri"}
# Arguments of these names that are no paths of users.
OTHERS = {
    "StageReader._metadata",
    "StageReader._table",
    "StageWriter._write",
    "StageWriter._handleOverwrite",
    "Directory.__init__",
    "File.__init__",
    "File.__new__",
    "content_of",
    "embedded",
    "read_parquet",
}


def functions(module: Any) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The functions and methods that a module defines, and their names."""
    for name, value in vars(module).items():
        if getattr(value, "__module__", None) != module.__name__:
            continue
        if inspect.isclass(value):
            for inner, raw in vars(value).items():
                method = getattr(raw, "__func__", raw)
                if inspect.isfunction(method):
                    yield f"{name}.{inner}", method
        elif inspect.isfunction(value):
            yield name, inspect.unwrap(value)


@pytest.mark.parametrize("name", MODULES + sorted(set(spark_auc._modules().values())))
def test_arguments_take_both(name: str) -> None:
    pytest.importorskip("mlflow") if "mlflow" in name else None
    module = importlib.import_module(name)
    for function, made in functions(module):
        private = function.rpartition(".")[2].startswith("_") and not function.endswith("__init__")
        if function in OTHERS or private:
            continue
        for argument in NAMES & set(inspect.signature(made).parameters):
            hint = get_type_hints(made).get(argument)
            kinds = {getattr(part, "__origin__", part) for part in get_args(hint) or (hint,)}
            if str in kinds:
                assert PathLike in kinds, f"{name}.{function}({argument})"


@pytest.fixture(scope="module")
def ranker() -> ServedRanker:
    recipe = Recipe((Spline("a", "float", (0.0, 1.0)),), missing="ignore", unit=False)
    return ServedRanker(LinearScorer(np.array([0.5, 2.0]), 0.0, 1, 0), recipe)


def test_exports_and_saved_rankers(tmp_path: Path, ranker: ServedRanker) -> None:
    saved = ROOT / "0.1.0/model"
    assert spark_auc.load(saved).scorer.w.tolist() == spark_auc.load(str(saved)).scorer.w.tolist()
    for kind in KINDS:
        to_file(saved, kind, tmp_path / kind)
        to_file(str(saved), kind, str(tmp_path / f"{kind} as text"))
        assert (tmp_path / kind).is_dir() == (tmp_path / f"{kind} as text").is_dir()
    spark_auc.to_onnx(ranker, tmp_path / "m.onnx")
    assert (tmp_path / "m.onnx").is_file()


def test_publications(tmp_path: Path) -> None:
    place = tmp_path / "out"
    check_free(place, False)
    with publication(place, False, "data", keep=1) as version:
        version.write("a.txt", b"one")
    for path in (place, str(place)):
        assert current(path, "data").read("a.txt") == b"one"
        assert files_of(path)[0].endswith("/a.txt")
        assert not kept(path, "data", hashes=True)
        assert resolve(path).startswith(f"file://{place}/versions/")
        assert Directory.of(path).uri == f"file://{place}"
        assert opened(path)[2] == str(place)
        assert scheme_of(path) == "file"
        assert is_local(path)


def test_settings_keep_text() -> None:
    """Params are saved as JSON."""
    recipe = spark_auc.FeatureRecipe(trees={"path": Path("a/b.txt")})
    assert recipe.values()["trees"] == {"path": "a/b.txt"}
    assert spark_auc.MBAClassifier(prior=Path("a/b")).values()["prior"] == "a/b"


def test_configurations(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from spark_auc.app.running import run

    assert run("train", tmp_path / "none.yaml") == 2
    assert f"no readable file '{tmp_path}/none.yaml'" in capsys.readouterr().err
