"""Batches whose features are in a temporary file: the same rows, also on a full disk."""

import os
import tempfile

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.parallel import mapped
from spark_auc.core.row_source import ArrayRows, batchwise
from spark_auc.core.spill import Spill
from spark_auc.core.stored_batches import BatchStore

D = 7


def made(kind, count=6, rows=500):
    rng = np.random.default_rng(0)
    for _ in range(count):
        X = rng.normal(size=(rows, D)) * (rng.random((rows, D)) < 0.5)
        y, key = rng.random(rows) < 0.3, rng.integers(0, 2**63, rows).astype(np.uint64)
        yield Batch(X if kind == "dense" else sparse.csr_matrix(X), y, rng.random(rows), key)


def stored(kind, in_memory):
    store = BatchStore(in_memory)
    return store.batches(map(store.put, made(kind)))


def same(found, expected):
    assert type(found.X) is type(expected.X)
    assert found.X.dtype == expected.X.dtype
    X = [
        batch.X if isinstance(batch.X, np.ndarray) else batch.X.toarray()
        for batch in (found, expected)
    ]
    np.testing.assert_array_equal(*X)
    for a, b in zip(found[1:], expected[1:], strict=True):
        np.testing.assert_array_equal(a, b)


class Full:
    """A disk with room for some bytes."""

    def __init__(self, file, room):
        self.file, self.room = file, room

    def __getattr__(self, name):
        return getattr(self.file, name)

    def fileno(self):
        if os.fstat(self.file.fileno()).st_size >= self.room:
            raise OSError(28, "No space left on device")
        return self.file.fileno()


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("in_memory", [0, 40_000, np.inf])
def test_batches_are_those_that_were_put(kind, in_memory):
    batches, expected = stored(kind, in_memory), [*made(kind)]
    assert len(batches) == len(expected)
    assert batches.entries == sum(batch.X.size for batch in expected)
    for _ in range(2):
        for found, batch in zip(batches, expected, strict=True):
            same(found, batch)
    for found, batch in zip(batches[2:4], expected[2:4], strict=True):
        same(found, batch)
    for found, batch in zip(mapped(lambda k: batches[k], range(6), 4), expected, strict=True):
        same(found, batch)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_features_beyond_the_bytes_are_not_in_memory(kind):
    batches = stored(kind, 40_000)
    kept = [s for s in batches.stored if isinstance(s, Batch)]
    assert 0 < len(kept) < 6
    assert sum(batch.nbytes for batch in kept) <= 40_000
    assert all(s.others.X.nbytes == 0 for s in batches.stored if not isinstance(s, Batch))


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_what_a_full_disk_does_not_take_stays_in_memory(kind, monkeypatch):
    with tempfile.TemporaryFile(buffering=0) as file:
        full = Full(file, 60_000)
        monkeypatch.setattr(tempfile, "TemporaryFile", lambda buffering: full)
        batches = stored(kind, 0)
        in_memory = [isinstance(s, Batch) for s in batches.stored]
        assert any(in_memory)
        assert not all(in_memory)
        full.room = np.inf
        for found, expected in zip(batches, made(kind), strict=True):
            same(found, expected)


def test_a_file_that_lost_bytes_is_an_error():
    kept = Spill()
    place = kept.put(np.arange(10))
    assert place is not None
    kept._file.truncate(40)
    with pytest.raises(OSError, match="found 40 of 80 bytes"):
        kept.get(place)


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_rows_in_a_file_fold_to_the_moments_of_all_rows(kind):
    rows = ArrayRows(stored(kind, 0), D)
    changed = rows.changed(batchwise(lambda batch: batch.take(np.flatnonzero(batch.y | True))))
    assert not any(isinstance(s, Batch) for s in changed.batches.stored)
    X = np.vstack([b.X if kind == "dense" else b.X.toarray() for b in made(kind)])
    y, u = (np.concatenate([getattr(b, n) for b in made(kind)]) for n in ("y", "weight"))
    for found in (rows, changed, rows.gathered()):
        moments = found.fold(
            lambda batches: PairMoments.fold_parts(batches, D), (), state_bytes=8, what="moments"
        )
        both = PairMoments.of_parts(dict(moments.states), D)
        for state, own in ((both.positive, y), (both.negative, ~y)):
            np.testing.assert_allclose(state.mean, np.average(X[own], axis=0, weights=u[own]))
            assert state.rows == own.sum()
    assert isinstance(rows.gathered().batches, tuple)
