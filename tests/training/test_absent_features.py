"""Features that do not occur in the rows do not change a choice or its solution."""

import logging
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.training.fold_rows import restricted
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

N, D, WIDE = 300, 12, 900
PLACES = np.array([3, 5, 8, 21, 22, 23, 40, 77, 78, 90, 96, 99])
LABELS = LabelCounts({"no": 200, "yes": 100})


def both(dense):
    """The same rows with 12 features, and with 888 features of zeros between them."""
    random = np.random.default_rng(3)
    y = np.arange(N) % 3 == 0
    X = np.where(random.random((N, D)) < 0.4, random.normal(size=(N, D)) + y[:, None] / 2, 0.0)
    wide = np.zeros((N, WIDE))
    wide[:, PLACES] = X
    groups = random.integers(0, 2**63, N, np.uint64)
    for x in (X, wide):
        rows = x if dense else sparse.csr_matrix(x)
        yield ArrayRows((Batch(rows, y, group=groups),), x.shape[1], labels=LABELS)


def narrowed(caplog):
    """Whether the rows lost the features that do not occur."""
    texts = [r.message for r in caplog.records if r.name == "spark_auc.training.penalty"]
    return f"{D} of {WIDE} features occur" in texts


@pytest.mark.parametrize("dense", [False, True])
@pytest.mark.parametrize("more", [{}, {"standardize": False}, {"max_fpr": 0.1}])
def test_a_result_has_all_features_and_the_choice_of_those_that_occur(dense, more, caplog):
    settings = TrainingSettings(folds=Folds(3, seed=1), **more)
    with caplog.at_level(logging.INFO):
        expected, found = (train(rows, settings) for rows in both(dense))
    assert narrowed(caplog)
    assert found.penalty == expected.penalty
    np.testing.assert_array_equal(found.selection.auc, expected.selection.auc)
    assert found.w.shape == (WIDE,)
    np.testing.assert_allclose(found.w[PLACES], expected.w, rtol=1e-12)
    assert not np.delete(found.w, PLACES).any()
    assert found.columns.mean.shape == (2, WIDE)
    np.testing.assert_allclose(found.columns.variance[:, PLACES], expected.columns.variance)
    assert not np.delete(found.columns.variance, PLACES, axis=1).any()
    assert found.labels == expected.labels == LABELS
    assert found.certificate.kkt == pytest.approx(expected.certificate.kkt, abs=1e-12)


def test_rows_with_some_of_their_columns_share_the_values_if_all_of_them_are_kept():
    """The values are most of the memory of the rows."""
    _, wide = both(dense=False)
    (batch,) = wide.batches
    assert np.shares_memory(restricted(PLACES, batch).X.data, batch.X.data)
    for columns in (PLACES, PLACES[2:9]):
        found = restricted(columns, batch).X
        np.testing.assert_array_equal(found.toarray(), batch.X.toarray()[:, columns])


def test_moments_that_are_kept_have_all_features():
    _, rows = both(dense=False)
    settings = TrainingSettings(folds=Folds(3, seed=1), keep_moments=True)
    assert train(rows, settings).moments.dimension == WIDE


def test_rows_of_zeros_train():
    _, rows = both(dense=False)
    batch = rows.batches[0]
    zeros = replace(rows, batches=(batch._replace(X=sparse.csr_matrix((N, WIDE))),))
    assert not train(zeros, TrainingSettings(folds=Folds(3, seed=1))).w.any()


def test_rows_are_copied_only_where_this_saves_memory(caplog):
    *_, rows = both(dense=True)
    batch = rows.batches[0]
    many = replace(rows, batches=(batch,) * 40, labels=None)
    with caplog.at_level(logging.INFO):
        train(many, TrainingSettings(folds=Folds(3, seed=1)))
    assert not narrowed(caplog)
