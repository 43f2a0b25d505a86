"""A learner of a stream: parts in order are one pass, through bytes, from any weights on."""

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.errors import ModelFormatError
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM
from spark_auc.training.learned_rows import LearnedRows

D, N = 4, 300
RNG = np.random.default_rng(5)
X = RNG.normal(size=(N, D)) * [1.0, 5.0, 0.2, 1.0] + [3.0, 0.0, 0.0, 1.0]
X[RNG.random(X.shape) < 0.3] = 0.0
Y = RNG.random(N) < 1.0 / (1.0 + np.exp(-X[:, 0] + 2.0))
SHIFT, SCALE = np.array([3.0, 0.0, 0.0, 0.0]), np.array([1.0, 5.0, 0.2, 1.0])
SCALED = (X - SHIFT) / SCALE
LEARNERS = {
    "OPAUC": lambda: OPAUC(D, 0.01, 0.1),
    "OPAUCr": lambda: OPAUCr(D, 0.01, 0.1, 2, 7),
    "SOLAM": lambda: SOLAM(D, 0.1, 10.0, 1.0),
}


def begun(learner):
    return LearnedRows(
        learner.to_bytes(), SHIFT, SCALE, ColumnMoments.zero(D), ColumnMoments.zero(1)
    )


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix], ids=["dense", "CSR"])
@pytest.mark.parametrize("name", LEARNERS)
def test_parts_in_order_are_one_pass(name, form):
    state = begun(LEARNERS[name]())
    for part in np.split(np.arange(N), [50, 51, 200]):
        later = state.after([Batch(form(X[part]), Y[part])])
        state = LearnedRows.from_bytes(state.merge(later).to_bytes())
    whole = LEARNERS[name]()
    if name == "SOLAM":
        # The bound that the rows have shown so far.
        for part in np.split(np.arange(N), [50, 51, 200]):
            longest = np.linalg.norm(SCALED[part], axis=1).max()
            whole.kappa = max(whole.kappa, longest)
            whole.learn(SCALED[part], Y[part])
    else:
        whole.learn(SCALED, Y)
    np.testing.assert_allclose(state.w, whole.w / SCALE, rtol=1e-9)
    np.testing.assert_allclose(state.columns.mean[0], X[Y].mean(axis=0), rtol=1e-12)
    assert state.columns.rows.sum() == N


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_begins_with_weights(name):
    w = RNG.normal(size=D)
    learner = LEARNERS[name]()
    learner.start(w)
    restored = begun(learner).restored()
    # A row of zeros moves no score: what follows depends on the weights alone.
    restored.learn(np.zeros((1, D)), np.array([True]))
    np.testing.assert_allclose(restored.w, w, rtol=1e-12)


def test_weights_longer_than_the_radius_are_shortened():
    learner = SOLAM(D, 0.1, 2.0, 1.0)
    learner.start(np.array([3.0, 4.0, 0.0, 0.0]))
    np.testing.assert_allclose(learner.iterate, [1.2, 1.6, 0.0, 0.0])
    assert learner.squared == pytest.approx(4.0)


def test_the_scores_of_the_last_rows_of_both_classes_stay():
    both = ColumnMoments.of(Batch(X[:, :1], Y))
    one = ColumnMoments.of(Batch(X[Y][:, :1], Y[Y]))
    state = begun(LEARNERS["SOLAM"]())
    state = LearnedRows(**{**vars(state), "scores": both})
    assert state.merge(LearnedRows(**{**vars(state), "scores": one})).scores is both


def test_other_learners_are_refused():
    state = LearnedRows(**{**vars(begun(SOLAM(D))), "learner": Batch(X, Y).to_bytes()})
    with pytest.raises(ModelFormatError, match="expected one of OPAUC, OPAUCr, SOLAM"):
        state.restored()
