"""A score is a function of its row and of the weights alone, in every bit."""

import os
import platform
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from spark_auc.core.evaluation.roc import auc
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.hinge.row_scores import RowScores
from spark_auc.core.products import settled_product, settled_scores

# Rows, features, models: none, one, odd numbers, whole blocks, more than a block of rows.
SHAPES = [(1, 3, 5), (9, 0, 3), (9, 3, 0), (0, 4, 2), (8, 16, 16), (203, 33, 17), (97, 700, 31)]


def rows(n, d, k, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-8, 9, (n, d)) * (rng.random((n, d)) < 0.7)
    return X, rng.normal(size=(d, k))


def one_after_another(X, w):
    """By definition, on all rows at once."""
    total = np.zeros(X.shape[0])
    for x, value in zip(X.T, w, strict=True):
        total = total + x * value
    return total


@pytest.mark.parametrize("shape", SHAPES)
def test_terms_are_added_in_the_order_of_columns(shape):
    X, W = rows(*shape)
    expected = np.array([one_after_another(X, w) for w in W.T]).reshape(shape[2], shape[0]).T
    for form in (X, sparse.csr_matrix(X), sparse.csr_array(X), np.asfortranarray(X)):
        np.testing.assert_array_equal(settled_product(form, W), expected)
        np.testing.assert_array_equal(settled_product(form, np.asfortranarray(W)), expected)
        for k in range(shape[2]):
            np.testing.assert_array_equal(settled_scores(form, W[:, k]), expected[:, k])


def shifted(X, by):
    """The same rows, so many bytes further on in memory."""
    out = np.empty(X.nbytes + 64, np.uint8)[by : by + X.nbytes].view(float).reshape(X.shape)
    out[:] = X
    return out


def placed(row, others):
    """1,003 equal rows among others, and where they are."""
    equal = np.random.default_rng(1).permutation(len(others) + 1003) < 1003
    X = np.empty((equal.size, row.size))
    X[equal], X[~equal] = row, others
    return X, equal


@pytest.mark.parametrize("d", [3, 37, 500])
def test_equal_rows_have_one_score(d):
    (row, *others), W = rows(120, d, 25)
    X, equal = placed(row, others)
    y = np.arange(1003) % 6 == 0
    found = set()
    for size in (1, 7, 1000, len(X)):
        for start in range(0, len(X), size):
            some = slice(start, start + size)
            for part in (X[some], sparse.csr_matrix(X[some])):
                scores = settled_product(part, W)[equal[some]]
                found.update(map(bytes, scores))
                one = settled_scores(part, W[:, 7])[equal[some]]
                np.testing.assert_array_equal(one, scores[:, 7])
    for by in (1, 8, 24, 40):
        moved = shifted(X, by)
        found.update(map(bytes, settled_product(moved, shifted(W, by))[equal]))
        found.update(map(bytes, settled_product(moved[::3], W)[equal[::3]]))
        strided = np.repeat(moved, 2, axis=1)[:, ::2]
        found.update(map(bytes, settled_product(strided, W)[equal]))
    assert len(found) == 1
    assert auc(ScoreTable.of(settled_scores(X, W[:, 0])[equal], y)) == 0.5


def test_combined_scores_of_equal_rows_are_equal():
    rng = np.random.default_rng(2)
    row = rng.normal(size=3)
    side = np.repeat(np.append(1.0, row)[:, None], 1003, axis=1)
    made = RowScores(side, side[:, :5]).combined(rng.normal(size=(2, 3)))
    assert len(np.unique(made.positive, axis=1).T) == 1
    np.testing.assert_array_equal(made.positive[:, :5], made.negative)


PRINT_SCORES = """
import hashlib
import numpy as np
from spark_auc.core.products import settled_product, settled_scores
rng = np.random.default_rng(0)
X, W = rng.normal(size=(501, 143)), rng.normal(size=(143, 18))
scores = settled_product(X, W), settled_scores(X, W[:, 0])
print(hashlib.sha256(b"".join(s.tobytes() for s in scores)).hexdigest())
"""


@pytest.mark.slow
@pytest.mark.skipif(platform.machine() != "x86_64", reason="names x86 processors")
def test_one_score_on_every_processor(tmp_path):
    # Kernels of BLAS, and what code is compiled for: with fused multiply-adds and without.
    machines = [
        {},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "Nehalem", "NUMBA_CPU_NAME": "nehalem", "NUMBA_CPU_FEATURES": ""},
    ]
    if " fma " in Path("/proc/cpuinfo").read_text():
        machines.append({"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma"})
    running = []
    for k, machine in enumerate(machines):
        cache = {"NUMBA_CACHE_DIR": str(tmp_path / str(k))} if "NUMBA_CPU_NAME" in machine else {}
        command = [sys.executable, "-c", PRINT_SCORES]
        running.append(
            subprocess.Popen(command, env=os.environ | machine | cache, stdout=subprocess.PIPE)
        )
    found = {one.communicate()[0] for one in running}
    assert not any(one.returncode for one in running)
    assert len(found) == 1
