"""Deletion of a person's rows: fresh builds as the oracle, and rows that were never added."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.moments import tiles
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import DataError, StoreConflict
from spark_auc.store.deletion import without
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.windows import Window
from tests.store.periods import DAYS, FACTS, D, K, assert_pairs, bits, filled, fold_rows, folds_of

DAY = DAYS[0]


@pytest.fixture(params=[512, 2], ids=["one tile", "many tiles"])
def tile_side(request, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", request.param)


def person(parts, fold=1, chosen=slice(1, 4)):
    """The moments of a person's rows by fold, and the rows of others."""
    X, y, u = parts[fold]
    mine = np.zeros(len(y), bool)
    mine[chosen] = True
    removed = [PairMoments.zero(D)] * K
    removed[fold] = PairMoments.of(X[mine], y[mine], u[mine])
    rest = list(parts)
    rest[fold] = (X[~mine], y[~mine], u[~mine])
    return removed, rest


@pytest.mark.usefixtures("tile_side")
def test_deletion_is_a_fresh_build_without_the_rows(tmp_path):
    store = filled(tmp_path, DAYS[:2])
    removed, rest = person(fold_rows(DAY + "clicks"))
    old = set(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))
    store.delete_rows(DAY, "clicks", removed, "a")
    for opened in (store, MomentStore(str(tmp_path), FACTS)):
        [merged] = opened.windows([Window(1)], newest=DAY)
        assert_pairs(merged.total(), rest)
        assert_pairs(opened.windows([Window()])[0].total(), rest + fold_rows(DAYS[1] + "clicks"))
    # Neither time travel nor the directory has the rows.
    files = set(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))
    assert len(files) == 1
    assert not files & old
    from deltalake import DeltaTable

    for version in range(store.version):
        named = {str(path) for path in DeltaTable(tmp_path, version=version).file_uris()}
        assert not named & {str(path) for path in old if path.exists()}


def test_files_of_earlier_replacements_are_deleted_too(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    for name in "abcdefghijkl":
        store.put(DAY, "clicks", folds_of(name))
    assert len(list(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))) == 13
    store = MomentStore(str(tmp_path), FACTS)
    removed, rest = person(fold_rows("l"))
    store.delete_rows(DAY, "clicks", removed, "a")
    assert len(list(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))) == 1
    assert_pairs(store.windows([Window()])[0].total(), rest)


def test_a_deletion_that_was_killed_before_the_vacuum_is_not_repeated(tmp_path, monkeypatch):
    from spark_auc.store.table import Table

    store = filled(tmp_path, DAYS[:1])
    removed, rest = person(fold_rows(DAY + "clicks"))

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Table, "vacuum", killed)
        with pytest.raises(KeyboardInterrupt):
            store.delete_rows(DAY, "clicks", removed, "a")
    assert len(list(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))) == 2
    again = MomentStore(str(tmp_path), FACTS)
    again.delete_rows(DAY, "clicks", removed, "a")
    assert_pairs(again.windows([Window()])[0].total(), rest)
    assert len(list(tmp_path.glob(f"*/period={DAY}/*/*.parquet"))) == 1
    # The rows may be stored again, and deleted again.
    again.put(DAY, "clicks", folds_of(DAY + "clicks"))
    again.delete_rows(DAY, "clicks", removed, "a")
    assert_pairs(again.windows([Window()])[0].total(), rest)


def test_equal_rows_of_two_requests_are_deleted_twice(tmp_path):
    X, y, u = fold_rows("x")[1]
    X[5:7], y[5:7], u[5:7] = X[3], y[3], u[3]
    equal = [(X, y, u)] * K
    store = MomentStore(str(tmp_path), FACTS)
    store.put(DAY, "clicks", [PairMoments.of(*part) for part in equal])
    removed = [PairMoments.of(X[3:4], y[3:4], u[3:4])] * K
    for request, gone in (("a", [6]), ("a", [6]), ("b", [5, 6]), ("b", [5, 6])):
        store.delete_rows(DAY, "clicks", removed, request)
        rest = np.delete(X, gone, 0), np.delete(y, gone), np.delete(u, gone)
        assert_pairs(store.windows([Window()])[0].total(), [rest] * K)
    # Without a name, the second request could not be told from a repetition of the first.
    with pytest.raises(TypeError, match="request"):
        store.delete_rows(DAY, "clicks", removed)


def test_a_segment_alone_changes(tmp_path):
    store = MomentStore(str(tmp_path), FACTS)
    store.put(DAY, "clicks", {name: folds_of(name) for name in "ab"})
    removed, rest = person(fold_rows("b"))
    store.delete_rows(DAY, "clicks", {"b": removed}, "a")
    assert list(map(bits, store.folds(DAY, "clicks", "a"))) == list(map(bits, folds_of("a")))
    assert_pairs(store.windows([Window()], segments=["b"])[0].total(), rest)

    # Of several segments, all change or none does.
    more, left = person(rest)
    others, left_others = person(fold_rows("a"))
    version = store.version
    with pytest.raises(DataError, match="segment 'b'"):
        store.delete_rows(DAY, "clicks", {"a": others, "b": removed}, "a")
    assert MomentStore(str(tmp_path), FACTS).version == version
    store.delete_rows(DAY, "clicks", {"a": others, "b": more}, "a")
    for name, expected in (("a", left_others), ("b", left)):
        assert_pairs(store.windows([Window()], segments=[name])[0].total(), expected)


def test_all_rows_of_a_fold(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    removed, rest = person(fold_rows(DAY + "clicks"), chosen=slice(None))
    store.delete_rows(DAY, "clicks", removed, "a")
    fold = store.folds(DAY, "clicks")[1]
    assert (fold.positive.rows, fold.negative.rows, fold.positive.weight) == (0, 0, 0.0)
    assert_pairs(store.windows([Window()])[0].total(), [rest[0], rest[2]])


def never_added(case, parts):
    X, y, u = (a.copy() for a in parts[1])
    chosen = np.flatnonzero(~y)[:2]
    if case == "a larger value":
        X[chosen[0], 0] = 50.0
    elif case == "another value of a constant column":
        X[chosen[0], 2] += 1e-6
    elif case == "more rows than stored":
        chosen = np.resize(chosen, 50)
    elif case == "a larger weight":
        u[chosen[0]] = 500.0
    elif case == "the other class":
        y[chosen[0]] = True
        X[chosen[0]] *= -3
    moments = PairMoments.of(X[chosen], y[chosen], u[chosen])
    removed = [PairMoments.zero(D)] * K
    removed[2 if case == "another fold" else 1] = moments
    return removed


CASES = [
    "a larger value",
    "another value of a constant column",
    "more rows than stored",
    "a larger weight",
    "the other class",
]


@pytest.mark.parametrize("case", CASES)
@pytest.mark.usefixtures("tile_side")
def test_rows_that_were_never_added_are_refused(tmp_path, case):
    parts = fold_rows(DAY + "clicks")
    store = MomentStore(str(tmp_path), FACTS)
    store.put(DAY, "clicks", [PairMoments.of(*part) for part in parts])
    version, files = store.version, set(tmp_path.rglob("*.parquet"))
    with pytest.raises(DataError, match=r"fold 2 of 3: found .*(merged|stored) before"):
        store.delete_rows(DAY, "clicks", never_added(case, parts), "a")
    assert MomentStore(str(tmp_path), FACTS).version == version
    assert set(tmp_path.rglob("*.parquet")) == files


@pytest.mark.usefixtures("tile_side")
def test_an_impossible_product_of_two_columns_is_refused(tmp_path):
    """Each column alone allows these rows: only the two columns together contradict them."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, D)), rng.random(200) < 0.5
    X[:, 3] = X[:, 0] + 0.01 * X[:, 3]
    store = MomentStore(str(tmp_path), FACTS)
    store.put(DAY, "clicks", [PairMoments.of(X, y)] * K)
    mine = X[np.flatnonzero(y)[:2]]
    mine[:, 0], mine[:, 3] = (0.5, -0.5), (-0.5, 0.5)
    removed = [PairMoments.of(mine, np.ones(2, bool)), *[PairMoments.zero(D)] * 2]
    with pytest.raises(DataError, match=r"fold 1 of 3: found 2 rows .* impossible"):
        store.delete_rows(DAY, "clicks", removed, "a")


def test_weights_other_than_one_are_refused_for_rows_without_weights(tmp_path):
    store = MomentStore(str(tmp_path), FACTS)
    parts = [(X, y, np.ones(len(y))) for X, y, _ in fold_rows("x")]
    store.put(DAY, "clicks", [PairMoments.of(*part) for part in parts])
    removed, _ = person([(X, y, 0.5 * u) for X, y, u in parts])
    with pytest.raises(DataError, match="where each stored row has weight 1"):
        store.delete_rows(DAY, "clicks", removed, "a")


def test_places_without_rows_and_conflicts(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    removed, _ = person(fold_rows(DAY + "clicks"))
    for place in ((DAYS[1], "clicks"), (DAY, "late"), (DAY, "clicks", {"de": removed})):
        with pytest.raises(DataError, match=r"found no (period|source|segment)"):
            store.delete_rows(*(place if len(place) > 2 else (*place, removed)), "a")
    with pytest.raises(DataError, match="found 1 folds"):
        store.delete_rows(DAY, "clicks", removed[:1], "a")
    MomentStore(str(tmp_path), FACTS).put(DAY, "clicks", folds_of("other"))
    with pytest.raises(StoreConflict):
        store.delete_rows(DAY, "clicks", removed, "a")


def test_vacuum_keeps_the_uncommitted_files_of_a_running_writer(tmp_path, caplog):
    store = filled(tmp_path, DAYS[:1])
    [file] = tmp_path.glob(f"*/period={DAY}/*/*.parquet")
    uncommitted = file.with_name("part-00000-of-another-writer.parquet")
    uncommitted.write_bytes(b"x")
    store.put(DAY, "clicks", folds_of("other"))
    for _ in range(2):
        caplog.clear()
        store.vacuum()
        assert uncommitted.exists()
        assert not file.exists()
        assert f"a running or killed job: {uncommitted.name};" in caplog.text
    uncommitted.unlink()
    caplog.clear()
    store.vacuum()
    assert not caplog.text
    assert_pairs(store.windows([Window()])[0].total(), fold_rows("other"))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sparse_rows", [False, True])
def test_stored_rows_are_never_refused(weighted, sparse_rows):
    """Person after person, to the last: offsets, duplicates, tokens and collinear columns."""
    refused, trials = [], 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        n, d = int(rng.integers(2, 60)), 6
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-4, 5, d)
        X[:, 0] += rng.choice([0.0, 1e6])
        X[:, 1] = rng.random(n) < 0.3
        X[:, 2] = 2 * X[:, 3]
        X[:, 4] = 1 / 3
        X *= rng.random((n, d)) < (0.6 if sparse_rows else 1.1)
        X[n // 2 :] = X[: n - n // 2]
        y, u = rng.random(n) < 0.5, rng.uniform(0.1, 9.0, n) if weighted else np.ones(n)
        form = sparse.csr_matrix if sparse_rows else np.asarray
        stored, order = [PairMoments.of(form(X), y, u)], rng.permutation(n)
        while order.size:
            mine, order = np.split(order, [min(order.size, int(rng.integers(1, 6)))])
            trials += 1
            try:
                stored = without(stored, [PairMoments.of(form(X[mine]), y[mine], u[mine])])
            except DataError as error:
                refused.append((seed, n, order.size, str(error)))
                break
        else:
            assert (stored[0].positive.rows, stored[0].negative.rows) == (0, 0)
    assert not refused, (len(refused), trials, refused[:3])
