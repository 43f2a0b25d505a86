"""Micro-batches of a stream in the store: repetitions, compaction, and batch jobs beside them."""

from pathlib import Path

import numpy as np
import pytest

from spark_auc.core.moments.pair_moments import PairMoments

pytest.importorskip("deltalake")

from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.sources import MicroBatches, superseded
from spark_auc.store.streams import StoredStream, streams
from spark_auc.store.windows import Window

DAY = "2026-03-01"
D, K = 3, 2


def rows(seed, n=20):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, D)) + 5.0, rng.random(n) < 0.4, rng.integers(0, K, n)


def folds(*parts):
    """Moments by fold of all rows of the parts at once."""
    X, y, fold = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return [PairMoments.of(X[fold == k], y[fold == k]) for k in range(K)]


@pytest.fixture
def store(tmp_path):
    return MomentStore(str(tmp_path / "moments"), Facts(D, K))


def assert_same(store, expected, segment=None):
    (merged,) = store.windows([Window()], segments=[segment])
    for k, of_fold in enumerate(expected):
        found = merged.fold(k)
        for a, b in ((found.positive, of_fold.positive), (found.negative, of_fold.negative)):
            assert (a.rows, a.weight) == (b.rows, b.weight)
            np.testing.assert_allclose(a.mean, b.mean, rtol=1e-12)
            chosen = np.arange(D)
            np.testing.assert_allclose(
                a.covariance(chosen), b.covariance(chosen), rtol=1e-12, atol=1e-13
            )
    merged.close()


def test_names_of_batches_are_read_back_and_ascend():
    sources = [MicroBatches("a-b_1", k, m) for k, m in [(0, 0), (0, 15), (7, 7), (10**9, 10**9)]]
    assert [MicroBatches.of(s.name) for s in sources] == sources
    assert [s.name for s in sources] == sorted(s.name for s in sources)
    for other in ("rows", "stream.a", "stream.a.7", "stream.a.00000007-00000007", "late"):
        assert MicroBatches.of(other) is None


def test_the_rows_of_a_batch_job_stand_for_all_streams():
    a, b, merged = (MicroBatches("a", k, m).name for k, m in [(0, 0), (9, 9), (0, 7)])
    other = MicroBatches("b", 3, 3).name
    assert superseded([a, b, merged, other, "late"]) == {a}
    assert superseded([a, b, merged, other, "late", "rows"]) == {a, b, merged, other}
    assert streams([a, b, other]) == ["a", "b"]
    assert streams([a, other, "rows"]) == []


def test_a_repeated_batch_changes_nothing(store):
    stream = StoredStream(store, "clicks")
    parts = [rows(k) for k in range(3)]
    for number, part in enumerate(parts):
        assert stream.append(number, {DAY: folds(part)}) == []
    version = store.version
    for number, part in enumerate(parts):
        assert stream.append(number, {DAY: folds(part)}) == []
    assert (store.version, stream.last()) == (version, 2)
    assert_same(store, folds(*parts))


def test_compaction_keeps_few_sources_and_all_rows(store, monkeypatch):
    monkeypatch.setattr("spark_auc.store.streams._MOST", 4)
    stream = StoredStream(store, "clicks")
    parts = [rows(k, 4) for k in range(4 * 5)]
    most = 0
    for number, part in enumerate(parts):
        stream.append(number, {DAY: folds(part)})
        stream.compact(DAY, number - 1)
        most = max(most, len(store.sources(DAY)))
    assert most <= 2 * 4 + 1
    assert_same(store, folds(*parts))
    # A batch that was merged is repeated, by a checkpoint that was restored.
    before = store.version
    assert stream.append(3, {DAY: folds(parts[3])}) == [DAY]
    assert store.version == before
    # All later batches were merged too: the next batch is told by the names.
    assert stream.last() == len(parts) - 1


def test_files_of_merged_batches_are_deleted_after_a_day(store, monkeypatch):
    stream = StoredStream(store, "clicks")

    def files():
        return len([*Path(store.location).rglob("part-*.parquet")])

    for number in range(40):
        stream.append(number, {DAY: folds(rows(number, 4))})
        stream.compact(DAY, number - 1)
    # Facts, two merged sources, eight batches, and 32 superseded files: none is a day old.
    assert (len(store.sources(DAY)), files()) == (10, 43)
    monkeypatch.setattr("spark_auc.store.streams._HOURS", 0)
    for number in range(40, 49):
        stream.append(number, {DAY: folds(rows(number, 4))})
        stream.compact(DAY, number - 1)
    assert (len(store.sources(DAY)), files()) == (4, 5)
    assert_same(store, folds(*(rows(number, 4) for number in range(49))))


def test_a_kill_between_merging_and_removing_counts_no_row_twice(store, monkeypatch):
    stream = StoredStream(store, "clicks")
    parts = [rows(k) for k in range(17)]
    for number, part in enumerate(parts):
        stream.append(number, {DAY: folds(part)})

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as dying:
        dying.setattr(MomentStore, "remove", die)
        with pytest.raises(KeyboardInterrupt):
            stream.compact(DAY, 15)
    again = MomentStore(store.location, store.facts)
    assert len(again.sources(DAY)) == 18
    assert_same(again, folds(*parts))
    assert sum(c.positive + c.negative for c in again.contents()) == 17 * 20
    late = rows(99)
    StoredStream(again, "clicks").append(17, {DAY: folds(late)})
    assert len(again.sources(DAY)) == 3
    assert_same(again, folds(*parts, late))


def test_a_batch_job_replaces_the_streams_of_its_period_in_any_order(store):
    stream, other = StoredStream(store, "clicks"), MomentStore(store.location, store.facts)
    first, second = rows(1), rows(2)
    stream.append(0, {DAY: folds(first)})
    store.put(DAY, "late", folds(rows(3)))
    other.refresh()
    # The batch job's snapshot has the first batch only; the second is stored meanwhile.
    stream.append(1, {DAY: folds(second)})
    other.put(DAY, "rows", folds(first, second))
    store.refresh()
    assert_same(store, folds(first, second, rows(3)))
    # A late batch is not added to rows that are complete.
    both = {DAY: folds(rows(4)), "2026-03-02": folds(rows(5))}
    assert stream.append(2, both) == [DAY]
    assert store.periods("rows") == (DAY,)
    assert store.periods() == (DAY, "2026-03-02")


def test_merging_all_batches_leaves_one_source(store):
    stream = StoredStream(store, "clicks")
    assert stream.merge(DAY) is None
    stream.append(4, {DAY: folds(rows(1))})
    assert stream.merge(DAY) == MicroBatches("clicks", 4, 4).name
    stream.append(6, {DAY: folds(rows(2))})
    name = stream.merge(DAY)
    assert store.sources(DAY) == (name,) == (MicroBatches("clicks", 4, 6).name,)
    assert_same(store, folds(rows(1), rows(2)))


def test_a_repeated_batch_of_other_rows_replaces_the_first_time(store):
    stream = StoredStream(store, "clicks")
    stream.append(0, {DAY: folds(rows(0))})
    stream.append(1, {DAY: folds(rows(1)), "2026-02-28": folds(rows(2))})
    stream.append(1, {DAY: folds(rows(3))})
    assert_same(store, folds(rows(0), rows(3)))
    assert store.periods() == (DAY,)


def test_batches_by_segment_are_merged_by_segment(tmp_path):
    """A batch may lack a segment; compaction and merging keep the rows of each."""
    store = MomentStore(
        str(tmp_path / "moments"), Facts(D, K, segment_column="s", segments=("a", "b"))
    )
    stream, of = StoredStream(store, "a"), {"a": [], "b": [], "": []}
    for k in range(18):
        batch = {name: rows([k, n]) for n, name in enumerate(of) if (k + n) % 3}
        for name, part in batch.items():
            of[name].append(part)
        assert stream.append(k, {DAY: {name: folds(part) for name, part in batch.items()}}) == []
    stream.compact(DAY, 16)
    assert store.sources(DAY) == ("stream.a.00000000-00000016", "stream.a.00000017")
    stream.merge(DAY)
    (source,) = store.sources(DAY)
    assert store.segments(DAY, source).keys() == of.keys()
    for name, parts in of.items():
        assert_same(store, folds(*parts), name)
    assert_same(store, folds(*(part for parts in of.values() for part in parts)))
