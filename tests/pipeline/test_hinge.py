"""RankSVM on tables: the optimum over every pair, wherever the rows lie and are kept."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.hinge.pair_hinge import PairHinge
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.errors import ConfigError, ConvergenceError, DataError
from spark_auc.pipeline.estimators import HingeEstimator, MBAEstimator
from spark_auc.solvers.truncated_newton import truncated_newton
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.training import ranksvm
from tests.tables import feature_rows
from tests.tables.feature_rows import D, N, X

REG, TOL = 0.01, 1e-9
RNG = np.random.default_rng(6)
# Ranked so well that most pairs do not violate, and some do.
Y = X @ [0.0, 1, -1, 0.5, 2, 0] + 0.5 * RNG.normal(size=N) > 1
U = RNG.uniform(0.5, 2, N)


def hinge(**settings):
    """An estimator of tight tolerance on weighted rows."""
    return HingeEstimator(**{"regParam": REG, "tol": TOL, "weightCol": "u"} | settings)


def columns(kind="mixed"):
    """The rows in a form of features."""
    made = (
        feature_rows.arrays().select(["i", "v"])
        if kind == "indexed"
        else feature_rows.vectors(kind)
    )
    for name, values in (("label", Y.astype(float)), ("u", U)):
        at = made.schema.get_field_index(name)
        made = made.append_column(name, [values]) if at < 0 else made.set_column(at, name, [values])
    return made


def table(rows, part_rows=150):
    return ArrowTable.of(rows, part_rows)


def changed(rows, **columns):
    for name, values in columns.items():
        rows = rows.set_column(rows.schema.get_field_index(name), name, [pa.array(values)])
    return rows


@pytest.fixture(scope="module")
def rows():
    return columns()


@pytest.fixture(scope="module")
def model(rows):
    return hinge().fitted(table(rows))


def deviations(u):
    mean, n = np.average(X, axis=0, weights=u), max(N, u.sum())
    return np.sqrt(np.average((X - mean) ** 2, axis=0, weights=u) * n / (n - 1))


def objective(w, u, scale):
    """From every pair, by weights of raw columns."""
    short = np.maximum(1 - np.subtract.outer(X[Y] @ w, X[~Y] @ w), 0)
    pairs = np.outer(u[Y], u[~Y])
    return REG / 2 * np.sum((w * scale) ** 2) + np.sum(pairs * short**2) / pairs.sum() / 2


def local(u, scale):
    """Weights of raw columns by the solver of one machine."""
    batch = Batch(X, Y, u)
    hinge = PairHinge(ArrayRows((batch,), D), ColumnMoments.of(batch), REG, scale)
    quadratic = PairMoments.of(X, Y, u).quadratic(scale)
    return truncated_newton(hinge, quadratic, tol=1e-9, max_iter=500).w / scale


@pytest.mark.parametrize(
    ("kind", "weighted", "standardized"),
    [("dense", True, False), ("mixed", False, False), ("indexed", True, True)],
)
def test_weights_are_those_of_one_solver(kind, weighted, standardized):
    u = U if weighted else np.ones(N)
    scale = deviations(u) if standardized else np.ones(D)
    estimator = hinge(
        featuresCol=["i", "v"] if kind == "indexed" else "features",
        numFeatures=D,
        standardization=standardized,
        weightCol="u" if weighted else None,
    )
    found = estimator.fitted(table(columns(kind))).scorer.w
    expected = local(u, scale)
    assert objective(found, u, scale) == pytest.approx(objective(expected, u, scale), rel=1e-8)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "folds",
    [
        {},
        {"standardization": False},
        {"keyCol": "key", "numFolds": 3, "seed": 7, "standardization": False},
        {"foldCol": "fold", "selectionRule": "oneStandardError", "standardization": False},
    ],
)
def test_folds_choose_the_penalty_of_mba(rows, folds):
    """In rows that are kept, too: those of a condition are."""
    place = np.floor(U * 1000).astype(int) % 41
    grouped = rows.append_column("key", [place]).append_column("fold", [(place % 4).astype(str)])
    settings = {"weightCol": "u", **folds}
    kept = table(grouped).where(["u"], lambda arrays: np.asarray(arrays[0]) > 0)
    model = HingeEstimator(**settings).fitted(kept)
    chosen = MBAEstimator(**settings).fitted(table(grouped)).summary
    assert model.summary.selection == chosen.selection
    assert model.summary.reg_param == model.values()["regParam"] == chosen.reg_param
    if "foldCol" in folds or "numFolds" in folds:
        assert len(chosen.selection["candidates"][0]["folds"]) == folds.get("numFolds", 4)


def test_where_rows_lie_does_not_matter(rows, model):
    by_label = rows.take(pc.sort_indices(rows, [("label", "ascending"), ("u", "ascending")]))
    for other in (table(by_label), table(rows, 7), table(rows, N)):
        w = hinge().fitted(other).scorer.w
        np.testing.assert_allclose(w, model.scorer.w, rtol=1e-7, atol=1e-10)


def test_without_a_matrix(rows, model, monkeypatch):
    monkeypatch.setattr(ranksvm, "_MATRIX", D - 1)
    other = hinge().fitted(table(rows))
    np.testing.assert_allclose(other.scorer.w, model.scorer.w, rtol=1e-3, atol=1e-4)
    assert other.getThreshold() == pytest.approx(model.getThreshold(), rel=1e-3)
    assert other.summary.estimated_auc == pytest.approx(model.summary.estimated_auc, rel=1e-4)


def test_a_weight_of_2_is_a_row_twice(rows):
    even = np.floor(U * 1000) % 2 == 0
    whole = changed(rows, u=np.where(even, 2.0, 1.0))
    twice = pa.concat_tables([whole, whole.filter(pa.array(even))])
    a = hinge(standardization=False).fitted(table(whole))
    b = hinge(standardization=False, weightCol=None).fitted(table(twice))
    np.testing.assert_allclose(a.scorer.w, b.scorer.w, rtol=1e-6, atol=1e-9)


def test_certificate(model):
    summary, scale = model.summary, deviations(U)
    margins = np.subtract.outer(X[Y] @ model.scorer.w, X[~Y] @ model.scorer.w)
    assert 0.2 < (margins > 1).mean() < 0.9
    assert summary.estimator == "RankSVM"
    assert summary.reg_param == REG
    assert set(summary.seconds) == {"survey", "solve"}
    assert summary.rows == {"0.0": int((~Y).sum()), "1.0": int(Y.sum())}
    certificate = summary.certificate
    assert certificate["reason"] == "converged"
    assert certificate["objective"] == pytest.approx(objective(model.scorer.w, U, scale), rel=1e-10)
    rng = np.random.default_rng(0)
    for _ in range(20):
        near = model.scorer.w + rng.normal(size=D) * 1e-3 / scale
        assert objective(near, U, scale) >= certificate["objective"] - certificate["gap"]


def test_convergence_is_never_silent(rows, caplog):
    hard = {"regParam": 1e-6, "tol": 1e-14, "maxIter": 1}
    with pytest.raises(ConvergenceError, match="KKT residual"):
        HingeEstimator(**hard).fitted(table(rows))
    fitted = HingeEstimator(**hard, whenNotConverged="warn").fitted(table(rows))
    assert "KKT residual" in caplog.text
    assert fitted.summary.certificate["reason"] != "converged"


def test_labels(rows, model):
    fitted = hinge().fitted(table(changed(rows, label=2.0 * Y - 1)))
    np.testing.assert_allclose(fitted.scorer.w, model.scorer.w, rtol=1e-9)
    assert (fitted.scorer.positive, fitted.scorer.negative) == (1.0, -1.0)
    text = changed(rows, label=np.where(Y, "no", "yes"))
    other = hinge(positiveLabel="yes").fitted(table(text))
    np.testing.assert_allclose(other.scorer.w, -model.scorer.w, rtol=1e-6, atol=1e-9)


def test_what_is_refused(rows):
    for label in (0, 1):
        with pytest.raises(DataError, match="one class only"):
            HingeEstimator().fitted(table(rows.filter(pc.field("label") == label)))
    with pytest.raises(DataError, match="found no rows"):
        HingeEstimator().fitted(table(rows[:0]))
    for wrong in (
        {"regParam": 0.0},
        {"regParam": -1.0},
        {"regParam": np.inf},
        {"tol": 0.0},
        {"maxIter": 0},
    ):
        with pytest.raises(ConfigError, match=r"found .*expected .*; set"):
            HingeEstimator(**wrong).fitted(table(rows))
    for unused in ({"keyCol": "u"}, {"seed": 1}, {"numFolds": 3}):
        with pytest.raises(ConfigError, match=r"with a single penalty, .* has no effect"):
            HingeEstimator(regParam=0.1, **unused).fitted(table(rows))
    with pytest.raises(ConfigError, match="found foldCol 'u' and numFolds 3"):
        HingeEstimator(foldCol="u", numFolds=3, standardization=False).fitted(table(rows))
    with pytest.raises(ConfigError, match="whenNotConverged"):
        HingeEstimator(whenNotConverged="ignore")


@pytest.mark.parametrize("matrix", [True, False])
def test_where_scores_do_not_fit_ranges_of_them_train(rows, model, monkeypatch, caplog, matrix):
    """By a matrix of features and without, to the weights of gathered scores."""
    if not matrix:
        monkeypatch.setattr(ranksvm, "_MATRIX", D - 1)
    monkeypatch.setattr(ranksvm, "_SCORE_BYTES", 1 << 40)
    monkeypatch.setattr(ranksvm, "_RANGES", 16)
    with caplog.at_level("INFO"):
        fitted = hinge(tol=1e-6).fitted(table(rows))
    assert "summarised in ranges: found scores of 300 rows" in caplog.text
    assert "more ranges" in caplog.text
    assert fitted.summary.certificate["reason"] == "converged"
    np.testing.assert_allclose(fitted.scorer.w, model.scorer.w, rtol=1e-3, atol=1e-4)
