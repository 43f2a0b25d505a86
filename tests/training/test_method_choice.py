"""The comparison of candidate models, against a cross-validation of each one alone."""

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

from spark_auc.core.batch import Batch
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.curves import Curves
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.core.sampling.key_sample import KeySample
from spark_auc.errors import ResourceError
from spark_auc.solvers.candidates import Candidate, Selection
from spark_auc.training import cross_validation, method_choice
from spark_auc.training.blocks import Method, fitting, unions
from spark_auc.training.costs import CountedWork
from spark_auc.training.fold_rows import to_columns
from spark_auc.training.method_choice import compare_methods
from spark_auc.training.method_result import MethodComparison, MethodResult
from spark_auc.training.penalty import choose_penalty
from spark_auc.training.ranksvm import train_hinge
from spark_auc.training.settings import HingeSettings, MethodSettings, TrainingSettings
from spark_auc.training.survey import Sampling
from spark_auc.training.train import train

TAUGHT = KeySample(0.3, 5)
FOLDS = Folds(4, 2, never_held_out=TAUGHT)


@pytest.fixture(params=[512, 3], ids=["one tile", "many tiles"])
def _tile(request, monkeypatch):
    monkeypatch.setattr("spark_auc.core.moments.tiles.LARGEST_TILE", request.param)


@pytest.mark.usefixtures("_tile")
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_moments_of_some_columns_are_those_of_rows_without_the_others(form):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(70, 8)) * (rng.random((70, 8)) < 0.6) + (np.arange(8) == 3) * 1e6
    X[:, 5] = 7.0
    y, u = rng.random(70) < 0.4, rng.uniform(0.5, 2.0, 70)
    for columns in (np.array([0, 3, 4, 5, 7]), np.array([6, 1]), np.arange(8)):
        found = PairMoments.of(form(X), y, u).of_columns(columns)
        alone = PairMoments.of(form(X[:, columns]), y, u)
        assert found.dimension == columns.size
        a, b = found.quadratic(), alone.quadratic()
        units = np.sqrt(np.maximum(np.outer(b.diagonal, b.diagonal), 1e-300))
        assert (np.abs(a.Sigma.toarray() - b.Sigma.toarray()) <= 1e-9 * units).all()
        np.testing.assert_allclose(a.mu, b.mu, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.columns().scatter, alone.columns().scatter, rtol=1e-9)
        # The parts merge and are stored as those of any other rows.
        twice = found.merge(alone)
        assert twice.positive.rows == 2 * alone.positive.rows
        assert PairMoments.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    # A subtraction's rounding stays with its column.
    less = PairMoments.of(X, y, u).subtract(PairMoments.of(X[:20], y[:20], u[:20]))
    few = less.of_columns(np.array([3, 5]))
    for whole, part in ((less.positive, few.positive), (less.negative, few.negative)):
        np.testing.assert_array_equal(part.spread()[1], whole.spread()[1][[3, 5]])


def table(n=900, seed=0, signal="leaves"):
    """Rows whose label depends on one block, with their blocks."""
    rng = np.random.default_rng(seed)
    columns = {
        "additive": np.arange(0, 5),
        "pairs": np.arange(5, 9),
        "crosses": np.arange(11, 15),
        "leaves": np.array([9, 10, 15, 16, 17]),
    }
    X = rng.normal(size=(n, 18))
    X[rng.random((n, 18)) < 0.4] = 0.0
    score = X[:, :5] @ np.ones(5) * 0.3
    if signal != "additive":
        score = score + X[:, columns[signal]].sum(axis=1)
    y = score + rng.normal(size=n) > 0.3
    group = rng.integers(0, 2**63, n).astype(np.uint64)
    return Batch(sparse.csr_matrix(X), y, rng.uniform(0.5, 2.0, n), group=group), columns


@pytest.mark.parametrize("entries", [3, 300])
def test_a_budget_leaves_out_what_it_has_no_room_for(entries):
    """The others are measured as without it, whatever the seconds of the machine."""
    batch, blocks = table()
    rows = rows_of(batch, np.arange(18))
    work = CountedWork(entries={"additive": 5, "pairs": 4, "crosses": entries, "leaves": 5})
    settings = MethodSettings(Folds(4, 2), hinge=True, work=work)
    whole = compare_methods(rows, blocks, settings)
    costs = {r.blocks: r.work for r in whole.results if r.loss == "squared"}
    assert min(costs.values()) > 0
    assert whole.work == sum(r.work for r in whole.results)
    assert (costs["additive", "crosses"] > costs["additive", "pairs"]) == (entries > 4)
    nothing = compare_methods(rows, blocks, replace(settings, work=replace(work, budget=0.0)))
    assert [r.blocks for r in nothing.results if not r.left_out] == [("additive",)]
    assert "more than the 0 s that are left of the budget" in nothing.results[-1].left_out
    alone = compare_methods(
        rows_of(batch, blocks["additive"]), {"additive": blocks["additive"]}, settings
    )
    assert nothing.choice.auc.tolist() == alone.results[0].auc.tolist()
    budget = costs["additive",] + costs["additive", "pairs"] * 1.0001
    some = compare_methods(rows, blocks, replace(settings, work=replace(work, budget=budget)))
    assert [r.blocks for r in some.results if not r.left_out] == [
        ("additive",),
        ("additive", "pairs"),
    ]
    assert some.results[1].auc.tolist() == whole.results[1].auc.tolist()
    assert some.work <= budget
    assert [r.name for r in some.results[:-1]] == [r.name for r in whole.results[:-1]]


def rows_of(batch, columns, keep=None):
    chosen = np.arange(batch.y.size) if keep is None else np.flatnonzero(keep)
    part = batch.take(chosen)
    part = part._replace(X=sparse.csr_matrix(part.X.toarray()[:, columns]))
    cut = part.y.size // 2
    both = np.arange(cut), np.arange(cut, part.y.size)
    return ArrayRows([part.take(half) for half in both], len(columns))


def test_each_candidate_has_the_auc_of_a_cross_validation_of_its_own():
    batch, blocks = table()
    taught = TAUGHT.of(batch.group)
    comparison = compare_methods(
        rows_of(batch, np.arange(18)),
        blocks,
        MethodSettings(FOLDS, frozenset({"leaves"}), hinge=False),
    )
    assert [r.blocks for r in comparison.results] == unions(tuple(blocks))
    for result in comparison.results:
        columns = Method(result.blocks).columns(blocks)
        knows = "leaves" in result.blocks
        alone = choose_penalty(
            rows_of(batch, columns, ~taught if knows else None),
            Sampling(),
            TrainingSettings(folds=FOLDS, standardize=False),
        ).selection
        assert result.dimension == columns.size
        np.testing.assert_allclose(
            [c.regParam for c in result.selection.candidates],
            [c.regParam for c in alone.candidates],
            rtol=1e-9,
        )
        np.testing.assert_allclose(result.selection.auc, alone.auc, atol=1e-4)
        best = result.selection.mean.max()
        assert result.selection.mean[result.selection.chosen] == pytest.approx(best, abs=1e-9)
    told = json.loads(json.dumps(comparison.as_dict(), allow_nan=False))
    chosen = told["candidates"][told["chosen"]]
    assert "leaves" in chosen["blocks"]
    # The choice among models that differ much corrects little.
    assert abs(chosen["auc"] - told["corrected"]["auc"]) < 0.02
    assert told["corrected"]["lower"] < told["corrected"]["auc"] < told["corrected"]["upper"]
    assert told["noInterval"] is None


def test_the_hinge_has_the_auc_of_ranksvms_trained_on_the_other_folds():
    batch, blocks = table(600, 3, "pairs")
    rows = rows_of(batch, np.arange(18))
    comparison = compare_methods(rows, blocks, MethodSettings(FOLDS, frozenset({"leaves"})))
    folds, taught = comparison.folds, TAUGHT.of(batch.group)
    tried = []
    for result in comparison.results:
        if result.loss == "squared" or result.left_out:
            continue
        tried.append(result.name)
        columns = Method(result.blocks).columns(blocks)
        number = np.where(taught, -1, folds.of(batch))
        for i, candidate in enumerate(result.selection.candidates):
            for k in range(folds.count):
                trains = (number != k) & ~(taught & ("leaves" in result.blocks))
                w = train_hinge(
                    rows_of(batch, columns, trains),
                    HingeSettings(candidate.regParam, False, 1e-6),
                ).w
                held = number == k
                scores, y = batch.X.toarray()[:, columns] @ w, batch.y & held
                u = batch.weights
                wins = (scores[y][:, None] > scores[held & ~y][None]) * np.outer(u[y], u[held & ~y])
                by_hand = wins.sum() / (u[y].sum() * u[held & ~y].sum())
                assert abs(by_hand - result.selection.auc[i, k]) < 2e-3
    assert len(tried) == 1


@pytest.mark.parametrize("signal", ["additive", "pairs", "crosses", "leaves"])
def test_each_block_is_chosen_where_it_has_the_signal(signal):
    batch, blocks = table(900, 7, signal)
    comparison = compare_methods(rows_of(batch, np.arange(18)), blocks, MethodSettings(FOLDS))
    assert {"additive", signal} <= set(comparison.choice.blocks)
    if signal == "additive":
        assert comparison.choice.blocks == ("additive",)


def measured(name, auc, loss="squared"):
    auc = np.array([auc])
    selection = Selection((Candidate(1.0, 0.0),), auc, 0.0, np.ones(1), (None,), 0)
    return MethodResult(name, (name,), loss, 1, selection)


def test_the_simplest_candidate_within_one_paired_standard_error_is_chosen():
    # The folds differ by 0.1, the candidates by 0.01 on each of them.
    difficulty = np.array([0.6, 0.7, 0.8, 0.9])
    simple, best = (
        measured("a", difficulty),
        measured("b", difficulty + np.array([0.010, 0.011, 0.009, 0.01])),
    )
    assert MethodComparison((simple, best), FOLDS).chosen == 1
    noisy = measured("b", difficulty + np.array([0.04, -0.03, 0.04, -0.03]))
    comparison = MethodComparison((simple, noisy), FOLDS)
    assert comparison.chosen == 0
    mean, error = comparison.behind(0, 1)
    assert mean == pytest.approx(0.005)
    # Nadeau & Bengio: held-out rows are a third of the training rows.
    spread = np.std([0.04, -0.03, 0.04, -0.03], ddof=1)
    assert error == pytest.approx(spread * np.sqrt(1 / 4 + 1 / 3))
    left_out = measured("0", difficulty + 0.2).without("too large")
    comparison = MethodComparison((left_out, simple, best), FOLDS)
    assert comparison.chosen == 2
    told = comparison.as_dict()
    assert (told["corrected"], told["noInterval"]) == (None, "a: it was not measured")
    told = told["candidates"]
    assert told[0]["lower"] is None
    assert told[0]["leftOut"] == "too large"
    assert told[0]["auc"] is None
    # One that is measured elsewhere is the most complex.
    elsewhere = measured("leaves, same rows", difficulty + 0.01)
    more = comparison.with_results([elsewhere])
    assert [r.name for r in more.results] == ["0", "a", "b", "leaves, same rows"]
    assert more.chosen == comparison.chosen


@pytest.mark.slow
def test_the_corrected_auc_is_that_of_nested_folds():
    """Tables with little signal: each fold is measured by what the others choose and train."""
    found = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 20))
        y = rng.random(400) < 1 / (1 + np.exp(0.5 - 0.3 * X[:, 0]))
        group = rng.integers(0, 2**63, 400).astype(np.uint64)
        batch = Batch(sparse.csr_matrix(X), y, None, group=group)
        blocks = {"additive": np.arange(5), "pairs": np.arange(5, 20)}
        every, settings = np.arange(20), MethodSettings(Folds(5, seed), hinge=False)
        comparison = compare_methods(rows_of(batch, every), blocks, settings)
        told, number = comparison.as_dict(), comparison.folds.of(batch)
        nested = []
        for k in range(5):
            others = rows_of(batch, every, number != k)
            inner = compare_methods(others, blocks, settings)
            chosen = inner.results[inner.chosen]
            columns = Method(chosen.blocks).columns(blocks)
            penalty = (chosen.selection.candidate.regParam,)
            one = TrainingSettings(reg_params=penalty, standardize=False)
            w = train(rows_of(batch, columns, number != k), one).w
            nested.append(roc_auc_score(y[number == k], X[number == k][:, columns] @ w))
        own = told["candidates"][told["chosen"]]["auc"]
        found.append((own, told["corrected"]["auc"], np.mean(nested)))
    own, corrected, nested = np.mean(found, axis=0)
    error = np.std(np.subtract(*np.transpose(found)[1:]), ddof=1) / np.sqrt(24)
    assert abs(corrected - nested) < 2 * error
    assert own > nested


def test_the_largest_block_is_left_out_with_its_reason():
    batch, blocks = table()
    rows = rows_of(batch, np.arange(18))
    settings = MethodSettings(FOLDS, largest=14, hinge=False, wide_rows=899)
    comparison = compare_methods(rows, blocks, settings)
    by_blocks = {result.blocks: result for result in comparison.results}
    # "additive" has 5 features too, and remains: other blocks need it.
    for names, result in by_blocks.items():
        assert (result.left_out is not None) == ("leaves" in names)
    assert "its 5 features are the largest block" in by_blocks["leaves",].left_out
    assert by_blocks["additive", "pairs", "crosses"].selection
    assert "found 900 rows, expected at most 899" in by_blocks["leaves",].left_out
    none = MethodSettings(FOLDS, largest=2, hinge=False, wide_rows=899)
    with pytest.raises(ResourceError, match=r"additive: found 5 features.*at most 2.*900 rows"):
        compare_methods(rows, blocks, none)
    leaves = {"additive": blocks["additive"], "leaves": blocks["leaves"][:2]}
    comparison = compare_methods(rows, leaves, none)
    assert comparison.results[comparison.chosen].blocks == ("leaves",)


@pytest.fixture(scope="module")
def compared():
    """A comparison of methods, or another of the same rows with other settings; no trials."""
    batch, blocks = table(600)
    settings = MethodSettings(FOLDS, frozenset({"leaves"}))

    def comparison(**others):
        rows = rows_of(batch, np.arange(18))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(cross_validation, "TRIED", 9)
            return compare_methods(rows, blocks, replace(settings, **others))

    return comparison(), comparison


@pytest.mark.parametrize("largest", [14, 5, 2])
def test_blocks_too_large_for_a_matrix_are_measured_from_rows(compared, largest):
    expected, comparison = compared
    found = comparison(largest=largest)
    assert found.folds.count == expected.folds.count
    by_name = {result.name: result for result in expected.results}
    assert set(by_name) <= {result.name for result in found.results}
    for result in found.results:
        other = by_name.get(result.name)
        if other is None or not (result.selection and other.selection):
            assert other is None or result.loss == "hinge"
            continue
        assert result.dimension == other.dimension
        if result.loss == "hinge":
            np.testing.assert_allclose(result.auc, other.auc, atol=5e-3)
            continue
        penalties = [[c.regParam for c in r.selection.candidates] for r in (result, other)]
        np.testing.assert_allclose(*penalties, rtol=1e-9)
        np.testing.assert_allclose(result.selection.auc, other.selection.auc, atol=1e-3)
    assert found.results[found.chosen].blocks == expected.results[expected.chosen].blocks


def test_steps_on_rows_measure_as_moments_do(monkeypatch, caplog):
    rng = np.random.default_rng(4)
    x, word = rng.uniform(size=600), rng.integers(0, 30, 600)
    hats = np.maximum(0, 1 - np.abs(19 * x[:, None] - np.arange(20)))
    X = sparse.csr_matrix(np.hstack([hats, np.eye(30)[word]]))
    y = rng.random(600) < 1 / (1 + np.exp(-2 * np.sin(9 * x) - (word % 3 - 1)))
    batch = Batch(X, y, None, group=rng.integers(0, 2**63, 600).astype(np.uint64))
    rows, blocks = rows_of(batch, np.arange(50)), {"additive": np.arange(50)}
    factors = (0.1, 1.0, 100.0)
    settings = MethodSettings(FOLDS, curves=Curves(((0, 20),)), smoothness=factors, hinge=False)
    found = []
    monkeypatch.setattr(cross_validation, "TRIED", 9)
    for steps in (None, 400):
        monkeypatch.setattr(method_choice, "steps_on_rows", lambda *_, steps=steps: steps)
        found.append(compare_methods(rows, blocks, settings).choice.selection)
    assert [c.smoothness for c in found[0].candidates] == [
        c.smoothness for c in found[1].candidates
    ]
    assert {c.smoothness for c in found[1].candidates} == {*factors}
    solved = [i for i, reason in enumerate(found[1].left_out) if reason is None]
    assert len(solved) >= 60
    np.testing.assert_allclose(found[1].auc[solved], found[0].auc[solved], atol=2e-3)
    monkeypatch.setattr("spark_auc.solvers.ridge_path._LONGEST", 4)
    caplog.set_level("INFO")
    again = compare_methods(rows, blocks, settings).choice.selection
    assert "making the matrix" in caplog.text
    np.testing.assert_array_equal(again.auc, found[0].auc)


def noise_in_pairs():
    """Rows with a curve, and with pairs that rank at random."""
    rng = np.random.default_rng(7)
    x = rng.uniform(size=800)
    hats = np.maximum(0, 1 - np.abs(19 * x[:, None] - np.arange(20)))
    X = sparse.csr_matrix(np.hstack([hats, rng.normal(size=(800, 60))]))
    y = rng.random(800) < 1 / (1 + np.exp(-3 * np.sin(6 * x)))
    batch = Batch(X, y, None, group=rng.integers(0, 2**63, 800).astype(np.uint64))
    blocks = {"additive": np.arange(20), "pairs": np.arange(20, 80)}
    return rows_of(batch, np.arange(80)), blocks


def test_a_candidate_that_is_behind_on_two_folds_is_left_out(monkeypatch):
    rows, blocks = noise_in_pairs()
    settings = MethodSettings(FOLDS, hinge=False)
    found = compare_methods(rows, blocks, settings)
    assert found.choice.blocks == ("additive",)
    pairs = found.results[1]
    assert pairs.selection is None
    assert pairs.outdone
    assert "on 2 folds, that of additive 0." in pairs.left_out
    assert found.as_dict()["candidates"][1]["leftOut"] == pairs.left_out
    # It is behind on all of them.
    monkeypatch.setattr(cross_validation, "TRIED", 9)
    whole = compare_methods(rows, blocks, settings)
    np.testing.assert_array_equal(whole.results[0].auc, found.results[0].auc)
    own, other = whole.results[1].auc, whole.results[0].auc
    assert (own < other)[:2].all()
    assert pairs.left_out == (
        f"its AUC is {own[:2].mean():.4f} on 2 folds, that of additive {other[:2].mean():.4f}"
    )
    # Steps on the rows leave it out as well, and make no matrix.
    monkeypatch.undo()
    monkeypatch.setattr(method_choice, "steps_on_rows", lambda *_: 400)
    steps = compare_methods(rows, blocks, settings)
    assert steps.results[1].outdone
    assert "on 2 folds, that of additive 0." in steps.results[1].left_out
    # A trial of few rows says little.
    few = rows_of(rows.joined(), np.arange(80), np.arange(800) < 380)
    assert compare_methods(few, blocks, settings).results[1].selection


@pytest.mark.parametrize("processors", [1, 2])
def test_a_candidate_whose_weak_penalties_are_unsolved_is_not_left_out(monkeypatch, processors):
    """Its signal is along directions of little variance, which need weak penalties."""
    monkeypatch.setattr(method_choice, "steps_on_rows", lambda *_: 400)
    monkeypatch.setattr(cross_validation, "cpus", lambda: processors)
    rng, n, d = np.random.default_rng(2), 1200, 200
    Z, variances = rng.normal(size=(n, d)), np.logspace(0, -2.5, d)
    turned = np.linalg.qr(rng.normal(size=(d, d)))[0]
    signal, alone = Z[:, -40:].sum(axis=1) / np.sqrt(40), rng.normal(size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-3 * signal - 1.6 * alone))
    X = np.hstack([alone[:, None], Z * variances @ turned])
    X[:, 1:] /= X[:, 1:].std(axis=0)
    batch = Batch(X, y, None, group=rng.integers(0, 2**63, n).astype(np.uint64))
    blocks = {"additive": np.arange(1), "pairs": np.arange(1, d + 1)}
    settings = MethodSettings(Folds(5, 2), hinge=False)
    found = compare_methods(ArrayRows((batch,), d + 1), blocks, settings)
    assert found.choice.name == "additive + pairs"
    assert found.choice.auc.mean() > 0.86


@pytest.mark.parametrize("processors", [1, 2])
def test_two_degrees_of_smoothness_remain_after_two_folds(monkeypatch, processors):
    rows, blocks = noise_in_pairs()
    alone = {"additive": blocks["additive"]}
    rows = rows.changed(*to_columns(blocks["additive"]))
    factors = (0.1, 1.0, 10.0, 100.0)
    settings = MethodSettings(FOLDS, curves=Curves(((0, 20),)), smoothness=factors, hinge=False)
    monkeypatch.setattr(cross_validation, "cpus", lambda: processors)
    found = compare_methods(rows, alone, settings).choice.selection
    monkeypatch.setattr(cross_validation, "TRIED", 9)
    whole = compare_methods(rows, alone, settings).choice.selection
    best = {
        s: max(
            auc[:2].mean()
            for c, auc in zip(whole.candidates, whole.auc, strict=True)
            if c.smoothness == s
        )
        for s in factors
    }
    kept = {*sorted(factors, key=best.get)[2:]}
    inside = [c.smoothness in kept for c in found.candidates]
    assert [reason is None for reason in found.left_out] == inside
    np.testing.assert_array_equal(found.auc[inside], whole.auc[inside])
    least = found.left_out[inside.index(False)]
    assert least == (
        f"the best AUC with its smoothness is {best[0.1]:.4f} on 2 folds, with others up to "
        f"{max(best.values()):.4f}"
    )


def test_columns_that_occur_in_no_row_do_not_count():
    batch, blocks = table(600)
    wide = sparse.csr_matrix((batch.X.data, 3 * batch.X.indices, batch.X.indptr), (600, 54))
    spread = {
        name: np.unique(np.concatenate([3 * columns, 3 * columns + 1]))
        for name, columns in blocks.items()
    }
    settings = MethodSettings(FOLDS, largest=20, hinge=False)
    one = compare_methods(ArrayRows([batch], 18), blocks, settings)
    other = compare_methods(ArrayRows([batch._replace(X=wide)], 54), spread, settings)
    for a, b in zip(one.results, other.results, strict=True):
        np.testing.assert_array_equal(a.selection.auc, b.selection.auc)


def test_a_memory_budget_leaves_out_blocks(monkeypatch):
    monkeypatch.setattr("spark_auc.core.memory.available_memory", lambda: 7 * 16 * 14**2)
    kept, left_out = fitting(table()[1], ProcessMemory(), 5, 100)
    assert left_out
    assert "MiB" in next(iter(left_out.values()))
    assert sum(c.size for c in kept.values()) < 18
