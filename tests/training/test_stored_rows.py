"""Choices of a penalty on rows whose features are in a file: those of the rows in memory."""

import logging

import numpy as np
import pytest

from spark_auc.core.batch import Batch
from spark_auc.core.sampling.folds import Folds
from spark_auc.tables import rows as rows_module
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.training import penalty
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train
from tests.tables.feature_rows import U, X, Y, vectors


def of_table(kind, monkeypatch):
    monkeypatch.setattr(rows_module, "_LEAST_SHARE", 0)
    table = ArrowTable.of(vectors(kind), 70)
    features = PreparedFeatures.resolve(table, "features", None)
    return TableRows.of(table, TrainingColumns.resolve(table, features, "label", None, "u"))


def in_file(batches):
    return sum(not isinstance(stored, Batch) for stored in batches.stored)


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_rows_are_received_in_the_order_of_their_parts(kind, monkeypatch):
    rows = of_table(kind, monkeypatch)
    for in_memory, spilled in ((0, True), (np.inf, False)):
        received = rows.gathered_within(1e6, in_memory)
        assert bool(in_file(received.batches)) == spilled
        found = received.joined()
        dense = found.X if isinstance(found.X, np.ndarray) else found.X.toarray()
        np.testing.assert_array_equal(dense, X)
        np.testing.assert_array_equal(found.y, Y)
        np.testing.assert_array_equal(found.weight, U)
        assert received.labels.rows == {0.0: (~Y).sum(), 1.0: Y.sum()}
    assert rows.gathered_within(1e3, 0) is None


@pytest.mark.parametrize("kind", ["dense", "sparse"])
@pytest.mark.parametrize("steps", [False, True])
def test_the_penalty_and_the_weights_are_those_of_rows_in_memory(kind, steps, monkeypatch, caplog):
    """A solver that steps on the rows, as of many features, has them in memory."""
    rows, made = of_table(kind, monkeypatch), []
    monkeypatch.setattr(penalty.PairMoments, "nbytes", staticmethod(lambda _: 1 << 20))
    if steps:
        monkeypatch.setattr("spark_auc.training.problem.steps_on_rows", lambda *_: 400)
    select = penalty.select_rows

    def selected(rows, *arguments):
        found = select(rows, *arguments)
        made.append((rows.batches, found.rows.batches))
        return found

    monkeypatch.setattr(penalty, "select_rows", selected)
    results = []
    for in_memory in (0, np.inf):
        monkeypatch.setattr(penalty, "IN_MEMORY", in_memory)
        with caplog.at_level(logging.INFO):
            results.append(train(rows, TrainingSettings(folds=Folds(3, seed=1))))
    (stored, trained), (kept, _) = made
    assert in_file(stored)
    assert isinstance(trained, tuple) == steps
    assert not in_file(kept)
    found, expected = results
    assert found.penalty == expected.penalty
    np.testing.assert_array_equal(found.selection.auc, expected.selection.auc)
    np.testing.assert_allclose(found.w, expected.w, rtol=1e-12)
