"""Training on drawn rows: the same draws wherever the rows lie, and no bias."""

import numpy as np
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.draws import FirstArrivals
from spark_auc.core.sampling.sample_size import sufficient_pairs
from spark_auc.errors import ConfigError, ConvergenceError
from spark_auc.pipeline.estimators import MBAEstimator
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.encoders import encode_vectors
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training import train
from spark_auc.training.problem import build_problem
from spark_auc.training.survey import Sampling

N, D = 400, 3
RNG = np.random.default_rng(8)
Y = RNG.random(N) < 0.15
# Rows drift along the file, so that pairs inside a part of it differ from pairs of all.
X = RNG.normal(size=(N, D)) + 0.7 * Y[:, None] + np.linspace(-2, 2, N)[:, None]
U = RNG.uniform(0.3, 2, N)


def vectors(X, y, **columns):
    features = {"features": encode_vectors(X), "label": np.asarray(y, float)}
    return pa.table({"id": np.arange(len(y)), **features, **columns})


@pytest.fixture(scope="module")
def rows():
    return vectors(X, Y, u=U)


def table(rows, part_rows=100):
    return ArrowTable.of(rows, part_rows)


def read(table, key=None, weight="u", features="features"):
    """Training rows of a table of any engine, with their places."""
    features = PreparedFeatures.resolve(table, features)
    columns = TrainingColumns.resolve(table, features, "label", None, weight, key, placed=True)
    return TableRows.of(table, columns)


def assert_same_quadratic(found, expected, message=""):
    np.testing.assert_allclose(found.mu, expected.mu, atol=1e-12, err_msg=message)
    np.testing.assert_allclose(
        found.Sigma.toarray(), expected.Sigma.toarray(), atol=1e-11, err_msg=message
    )


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_the_same_draws_however_the_rows_lie(rows, estimator):
    sampling, key = Sampling(estimator, 200, seed=3), "id" if estimator == "complete" else None
    first = build_problem(read(table(rows), key), sampling)
    assert first.moments.positive.weight == 200
    arrangements = {
        "one part": table(rows, N),
        "by label": table(rows.take(np.argsort(Y, kind="stable")), 60),
        "shuffled": table(rows.take(np.random.default_rng(1).permutation(N)), 57),
        "a part for each row": table(rows, 1),
    }
    for name, other in arrangements.items():
        found = build_problem(read(other, key), sampling).quadratic(None)
        assert_same_quadratic(found, first.quadratic(None), name)


def test_both_estimators_see_the_same_draws(rows):
    rows = table(rows)
    complete = build_problem(read(rows), Sampling("complete", 300, seed=5)).moments
    pairs = build_problem(read(rows), Sampling("paired", 300, seed=5)).moments
    np.testing.assert_allclose(complete.quadratic().mu, pairs.quadratic().mu, atol=1e-12)


def test_pairs_are_those_of_the_draws_in_order(rows):
    """Against the k-th positive and the k-th negative draw, of all rows in one place."""
    batch = Batch(X, Y, U)
    draws = FirstArrivals.zero(500).update(batch, 7).draws(7, 500)
    i, j = in_order(*draws.arrivals(batch))
    found = build_problem(
        read(table(rows.take(np.argsort(Y)))), Sampling("paired", 500, 7)
    ).quadratic(None)
    Sigma = (X[i] - X[j]).T @ (X[i] - X[j]) / 500
    np.testing.assert_allclose(found.Sigma.toarray(), Sigma, atol=1e-11)
    np.testing.assert_allclose(found.mu, (X[i] - X[j]).mean(axis=0), atol=1e-12)


def in_order(drawn, moments):
    drawn = drawn[np.argsort(moments)]
    return drawn[Y[drawn]], drawn[~Y[drawn]]


def test_neither_estimator_is_biased_and_complete_varies_less():
    exact = PairMoments.of(X, Y, U).quadratic().Sigma.toarray()
    batch, repeated = Batch(X, Y, U), {"complete": [], "paired": [], "inside parts": []}
    rng = np.random.default_rng(0)
    for seed in range(300):
        draws = FirstArrivals.zero(60).update(batch, seed).draws(seed, 60)
        some = draws.drawn(batch)
        complete = PairMoments.of(some.X, some.y, some.weight).quadratic().Sigma.toarray()
        repeated["complete"].append(complete)
        i, j = in_order(*draws.arrivals(batch))
        repeated["paired"].append((X[i] - X[j]).T @ (X[i] - X[j]) / 60)
        repeated["inside parts"].append(inside_parts(rng))
    off = {}
    for name, drawn in repeated.items():
        error = np.std(drawn, axis=0, ddof=1) / np.sqrt(len(drawn))
        off[name] = np.abs((np.mean(drawn, axis=0) - exact) / error).max()
    assert off["complete"] < 4
    assert off["paired"] < 4
    assert off["inside parts"] > 10
    assert np.var(repeated["complete"], axis=0).sum() < np.var(repeated["paired"], axis=0).sum()


def inside_parts(rng):
    """Pairs that the parts of a file could form alone, in a file that drifts."""
    total = np.zeros((D, D))
    for part in np.array_split(np.arange(N), 4):
        classes = (part[Y[part]], part[~Y[part]])
        i, j = (rng.choice(rows, 15, p=U[rows] / U[rows].sum()) for rows in classes)
        total += (X[i] - X[j]).T @ (X[i] - X[j]) / 60
    return total


@pytest.mark.parametrize("estimator", ["complete", "paired"])
def test_one_positive_among_many(estimator):
    n = 20_000
    k = np.arange(n)
    many = vectors(np.column_stack([np.sin(k), np.cos(3 * k), k / n]), k == 12_345)
    model = MBAEstimator(regParam=0.1, estimator=estimator, numPairs=2048).fitted(table(many, 3000))
    assert model.summary.rows["1.0"] == 1
    assert model.summary.pairs == 2048
    assert np.isfinite(model.scorer.w).all()


def test_pairs_of_sparse_rows():
    rng = np.random.default_rng(1)
    dense = rng.normal(size=(200, 5)) * (rng.random((200, 5)) < 0.5)
    y = rng.random(200) < 0.4
    a, b = (
        build_problem(read(table(vectors(form(dense), y)), weight=None), Sampling("paired", 150, 2))
        for form in (csr_array, np.asarray)
    )
    np.testing.assert_allclose(
        a.quadratic(None).Sigma.toarray(), b.quadratic(None).Sigma.toarray(), atol=1e-12
    )


@pytest.mark.parametrize("estimator", ["exact", "complete", "paired"])
def test_the_model_tells_how_it_was_made(rows, estimator):
    drawn = {"numPairs": 3000, "batchSize": 500, "seed": 4, "keyCol": "id"}
    given = {} if estimator == "exact" else drawn
    model = MBAEstimator(regParam=0.05, weightCol="u", estimator=estimator, **given).fitted(
        table(rows)
    )
    s = model.summary
    assert (s.estimator, s.pairs) == (estimator, given.get("numPairs"))
    assert (s.reg_param, s.form, s.selection) == (0.05, "tiles", None)
    assert s.positive_weight == pytest.approx(U[Y].sum())
    z = X @ model.scorer.w
    shares = [np.average(z[mine] >= model.getThreshold(), weights=U[mine]) for mine in (Y, ~Y)]
    weights = np.array([U[Y].sum(), U[~Y].sum()])
    assert weights @ shares / weights.sum() == pytest.approx(weights[0] / weights.sum(), abs=0.05)
    exact = MBAEstimator(regParam=0.05, weightCol="u").fitted(table(rows)).summary
    assert s.estimated_auc == pytest.approx(exact.estimated_auc, abs=0.02)


def test_pairs_are_added_until_sampling_costs_little(rows, monkeypatch):
    estimator = MBAEstimator(regParam=0.05, estimator="complete", pairTol=5e-4, keyCol="id")
    model = estimator.fitted(table(rows))
    s = model.summary
    assert s.sampling_suboptimality <= 5e-4
    scaled = X / X.std(axis=0, ddof=1)
    pairs = scaled[Y][:, None] - scaled[~Y]
    largest = (scaled**2).sum(axis=1).max()
    norm = np.linalg.norm(pairs.reshape(-1, D), 2) ** 2 / pairs[..., 0].size
    theorem = dict(s.theorem2)
    assert theorem["spectralNorm"] == pytest.approx(norm, rel=0.2)
    assert theorem["squaredRowNorm"] == pytest.approx(largest, rel=1e-9)
    given = 5e-4, 0.05, D, theorem["spectralNorm"], theorem["squaredRowNorm"]
    assert theorem["corrected"] == sufficient_pairs(*given, 1 / (4 * 0.05))
    assert theorem["printed"] == sufficient_pairs(*given, 1 / (4 * 0.05), printed=True)
    assert theorem["estimated"] == sufficient_pairs(*given, theorem["squaredWeightNorm"])
    w = model.scorer.w * X.std(axis=0, ddof=1)
    assert theorem["squaredWeightNorm"] == pytest.approx(w @ w, rel=1e-9)
    assert s.pairs % 1024 == 0
    monkeypatch.setattr(train, "_MOST_PAIRS", 8192)
    with pytest.raises(ConvergenceError, match="raise pairTol"):
        estimator.with_values(pairTol=1e-9).fitted(table(rows))


def test_settings_out_of_range(rows):
    for wrong in (
        {"batchSize": 0},
        {"pairTol": 0.0},
        {"numFolds": 1},
        {"numPairs": 0},
        {"numPairs": "many"},
        {"estimator": "half"},
    ):
        with pytest.raises(ConfigError, match=f"found {next(iter(wrong))} .*expected"):
            MBAEstimator(**wrong)
    with pytest.raises(TypeError, match=r"found numPairs \[1\], expected"):
        MBAEstimator(numPairs=[1])
    with pytest.raises(ConfigError, match="no column 'key'"):
        MBAEstimator(keyCol="key").fitted(table(rows))


def test_parts_are_paired_by_themselves(rows):
    """As many differences as draws, whichever way the moments are parted."""
    sampling = Sampling("paired", 90, 1)
    found = build_problem(read(table(rows)), sampling)
    draws = found.survey.arrivals.draws(1, 90)
    for parts in (1, 2, 9):
        local = read(table(rows)).paired(draws, found.survey.arrivals.cuts(90, parts)).gathered()
        assert sum(b.y.sum() for b in local.batches) == 90
        assert len({int(k) for b in local.batches for k in b.keys()[b.y]}) == parts
