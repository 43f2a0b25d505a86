"""A kind of columns is one file and one line of the registry: here a step at the mean."""

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest
from sklearn.metrics import roc_auc_score

import spark_auc
from spark_auc.app.report.shapes import shape_pictures
from spark_auc.export.onnx_model import to_onnx
from spark_auc.export.sql import to_sql
from spark_auc.features.contributions import contributions, parts
from spark_auc.features.drift import Drift
from spark_auc.features.kinds.numeric import Numeric
from spark_auc.features.kinds.registry import NUMERIC_KINDS
from spark_auc.features.raw_columns import Numbers
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.shapes import shapes
from spark_auc.features.watched import counted
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator
from spark_auc.pipeline.models import FittedRecipe
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.raw_columns import RawColumns


@dataclass(frozen=True)
class Step(Numeric):
    """1 for a number above a cut, else 0."""

    slots = 1

    cut: float

    @classmethod
    def fitted(cls, name, type, summary, knots):
        return cls(name, type, summary.scale()[0])

    def names(self):
        return [f"{self.name} > {self.cut:g}"]

    @property
    def bounds(self):
        return -np.inf, np.inf

    def filler(self, column, first, indicator):
        values, validity = self.doubles(column)

        def fill(begin, indices, out):
            rows = slice(begin, begin + indices.shape[1])
            x = values[rows]
            missing = np.isnan(x) | (~validity[rows] if validity.size else False)
            indices[0] = np.where(missing, first + 1 if indicator else -1, first)
            out[0] = np.where(missing, 1.0, x > self.cut)

        return fill

    def curve(self, w):
        return (self.cut, np.nextafter(self.cut, np.inf)), np.array([0.0, w[0]])

    def sql(self, x, w, sql):
        test = f"CASE WHEN {x} > {sql.number(self.cut)} THEN"
        return f"{test} {sql.number(w[0])} ELSE 0E0 END", f"{test} 1E0 ELSE 0E0 END"

    def onnx(self, x, graph):
        return graph.doubles(graph.add("Greater", x, graph.constant(self.cut)))


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setitem(NUMERIC_KINDS, "step", Step)
    planned = (Planned("x", "float", "step"), Planned("z", "float", "spline"))
    plan = RecipePlan((*planned, Planned("city", "text", "tokens")), knots=4, dimension=16)
    rows = table()
    columns = {name: Numbers(rows[name].to_numpy(zero_copy_only=False)) for name in ("x", "z")}
    recipe = plan.fitted(plan.fold([columns]))
    assert isinstance(recipe.numeric[0], Step)
    assert recipe.numeric[0].cut == pytest.approx(np.nanmean(columns["x"].values), abs=1e-4)
    fit = PipelineEstimator([FittedRecipe(recipe), MBAEstimator(labelCol="y", regParam=1e-3)])
    return fit.fitted(ArrowTable.of(rows))


def table(n=400, seed=0):
    rng = np.random.default_rng(seed)
    x, z, city = rng.normal(size=n), rng.normal(size=n), rng.integers(0, 3, n)
    y = (x > 0) + 0.3 * z + 0.5 * rng.normal(size=n) > 0.5
    x[:20] = np.nan
    return pa.table({"x": x, "z": z, "city": [f"c{k}" for k in city], "y": y * 1.0})


def test_training_scoring_and_loading(model, tmp_path):
    new = table(seed=1)
    scores = np.asarray(model.served().score(new))
    assert roc_auc_score(new["y"], scores) > 0.75
    assert from_json(to_json(model.recipe)) == model.recipe
    model.save(tmp_path / "model")
    served = spark_auc.load(tmp_path / "model")
    np.testing.assert_array_equal(served.score(new), scores)
    rows = new.to_pylist()[:40]
    np.testing.assert_array_equal([served.score(row) for row in rows], scores[:40])
    recipe = model.recipe
    assert recipe.names()[:2] == (f"x > {recipe.numeric[0].cut:g}", "x missing")
    assert served.score(rows[30] | {"x": 9.0}) > served.score(rows[30] | {"x": -9.0})


def test_names_contributions_drift_and_curves(model):
    recipe, w = model.recipe, model.ranker.scorer.w
    rows = table(seed=2)
    made = RawColumns.of(ArrowTable.of(rows), ["x", "z", "city"], recipe.zone)
    raw = made.decode([rows[name].combine_chunks() for name in made.found])
    found = contributions(recipe, w, raw)
    np.testing.assert_allclose(found.sum(axis=1), recipe.transform(raw) @ w, rtol=0, atol=1e-12)
    assert parts(recipe)[0] == "x"
    drift = counted(recipe, raw)
    assert isinstance(drift, Drift)
    assert drift.counts[0, :4].tolist() == [400, 20, 0, 0]
    curve = next(shape for shape in shapes(recipe, w) if shape.columns == ("x",))
    assert curve.values.tolist() == [0.0, w[0]]
    assert curve.missing == w[1]
    assert shape_pictures([curve])


def test_exports(model, tmp_path):
    rows = table(60, 3)
    numbers = RecipePlan((Planned("x", "float", "step"),))
    recipe = numbers.fitted(numbers.fold([{"x": Numbers(rows["x"].to_numpy())}]))
    fit = PipelineEstimator([FittedRecipe(recipe), MBAEstimator(labelCol="y", regParam=1e-3)])
    served = fit.fitted(ArrowTable.of(rows)).served()
    said = to_sql(served)
    assert re.search(r"CASE WHEN `x` > \S+ THEN", str(said))
    onnx = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    to_onnx(served, tmp_path / "model.onnx")
    session = onnx.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    (score,) = session.run(["score"], {"x": rows["x"].to_numpy()})
    np.testing.assert_allclose(score, served.score(rows), atol=1e-12)
