"""What every learner of rows must do, as one suite over all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from experiments.comparators.opauc_projected import (
    opauc_of_columns,
    opauc_of_components,
    opauc_of_projection,
)
from spark_auc.errors import ConfigError, DataError, ModelFormatError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM
from tests.learners import references
from tests.stored import of_version


@dataclass(frozen=True)
class Case:
    """How the suite handles one learner.

    Parameters
    ----------
    make
        A new learner of rows of some dimension.
    reference
        The weights after dense rows, by the paper's pseudocode.
    block
        Rows given at a time to a learner whose result depends on it; otherwise any number is.
    """

    make: Callable[[int], Any]
    reference: Callable[[np.ndarray, np.ndarray], np.ndarray]
    block: int | None = None


def rows(n=1000, d=11, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d)) * (rng.random((n, d)) < 0.4)
    X[:, 0] += 0.3
    return X, X @ rng.normal(size=d) + rng.normal(size=n) > 0.8


def _map(make, d=11):
    learner = make(d)
    return learner.mapped(np.eye(d))


def _components(d):
    return opauc_of_components(rows(200, d, 1)[0], 3, 0.05, 0.01)


def _projection(d):
    return opauc_of_projection(d, 4, 0.05, 0.01, 3)


def _columns(d):
    return opauc_of_columns(d, 5, 0.05, 0.01, 3)


def _projected(make):
    return lambda X, y: references.opauc_projected(X, y, _map(make), 0.05, 0.01)


CASES = {
    "OPAUC": Case(lambda d: OPAUC(d, 0.05, 0.01), lambda X, y: references.opauc(X, y, 0.05, 0.01)),
    "OPAUCr": Case(
        lambda d: OPAUCr(d, 0.05, 0.01, 7, 3),
        lambda X, y: references.opauc_low_rank(X, y, 0.05, 0.01, 7, 3),
    ),
    "OPAUCf": Case(_columns, _projected(_columns)),
    "OPAUCrp": Case(_projection, _projected(_projection)),
    "OPAUCpca": Case(_components, _projected(_components)),
    "SOLAM": Case(lambda d: SOLAM(d, 1.0, 2.0, 4.0), lambda X, y: references.solam(X, y, 1, 2, 4)),
    "SOLAM, often projected": Case(
        lambda d: SOLAM(d, 10.0, 0.3, 4.0), lambda X, y: references.solam(X, y, 10, 0.3, 4)
    ),
    "DSGD": Case(
        lambda d: DSGD(d, 0.5, 1.0, 5), lambda X, y: references.dsgd(X, y, 0.5, 1.0, 5, 250), 250
    ),
    "SOLAM, of a horizon": Case(
        lambda d: SOLAM(d, 3.0, 2.0, 4.0, 500),
        lambda X, y: references.solam(X, y, 3, 2, 4, horizon=500),
    ),
    "DSGD, averaged": Case(
        lambda d: DSGD(d, 0.1, 1.0, 5, True),
        lambda X, y: references.dsgd(X, y, 0.1, 1.0, 5, 250, True),
        250,
    ),
    "NSAUC": Case(
        lambda d: NSAUC(d, 0.5, 0.01, seed=5),
        lambda X, y: references.nsauc(X, y, NSAUC(11, 0.5, 0.01, seed=5), 250),
        250,
    ),
}

each = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def learnt(case, X, y, learner=None):
    learner = learner or case.make(X.shape[1])
    for start in range(0, y.size, case.block or y.size):
        some = slice(start, start + (case.block or y.size))
        learner.learn(X[some], y[some])
    return learner


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_weights_of_the_paper(case, form):
    X, y = rows()
    learner = learnt(case, form(X), y)
    expected = case.reference(X, y)
    assert np.abs(expected).max() > 0.05
    np.testing.assert_allclose(learner.w, expected, rtol=0, atol=1e-9)
    np.testing.assert_allclose(learner.score(form(X)), X @ expected, rtol=0, atol=1e-8)


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_resumes_with_the_same_bits(case, form):
    X, y = rows(600)
    whole = learnt(case, form(X), y)
    pieces = case.make(X.shape[1])
    cuts = range(case.block, 600, case.block) if case.block else (0, 1, 2, 19, 300)
    for piece in np.split(np.arange(600), cuts):
        pieces.learn(form(X)[piece], y[piece])
        pieces = type(pieces).from_bytes(pieces.to_bytes())
    assert pieces.to_bytes() == whole.to_bytes()
    np.testing.assert_array_equal(pieces.w, whole.w)


@each
def test_damaged_states_are_refused(case):
    data = learnt(case, *rows(50)).to_bytes()
    for damaged in (
        b"",
        data[:-1],
        data + b"\0",
        b"XXXX" + data[4:],
        of_version(data, 9),
    ):
        with pytest.raises(ModelFormatError, match=r"expected|truncated"):
            type(case.make(11)).from_bytes(damaged)


@each
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_other_dimensions_are_refused(case, form):
    X, y = rows(50)
    learner = learnt(case, form(X), y)
    before = learner.to_bytes()
    for columns in (10, 12):
        other = form(np.zeros((3, columns)))
        with pytest.raises(DataError, match="expected 11"):
            learner.learn(other, y[:3])
        with pytest.raises(DataError, match="expected 11"):
            learner.score(other)
    assert learner.to_bytes() == before


@each
@pytest.mark.parametrize("label", [True, False])
def test_one_class_does_no_harm(case, label):
    X, y = rows(250)
    learner = case.make(X.shape[1])
    learner.learn(X, np.full(250, label))
    assert not learner.w.any()
    learner.learn(X, y)
    assert np.isfinite(learner.w).all()
    assert learner.w.any()


@each
def test_no_rows_change_nothing(case):
    X, y = rows(250)
    learner = learnt(case, X, y)
    before = learner.to_bytes()
    learner.learn(X[:0], y[:0])
    assert learner.to_bytes() == before


@pytest.mark.parametrize("name", [n for n in CASES if "SOLAM" not in n])
def test_weights_are_refused_where_undefined(name):
    X, y = rows(20)
    with pytest.raises(ConfigError, match="row weights"):
        CASES[name].make(11).learn(X, y, np.ones(20))


@pytest.mark.parametrize(
    "make",
    [
        lambda: OPAUC(3, 0.0),
        lambda: OPAUC(3, 0.1, -1.0),
        lambda: OPAUCr(3, np.nan),
        lambda: OPAUCr(3, tau=0),
        lambda: OPAUCr(3, seed=-1),
        lambda: SOLAM(3, zeta=np.inf),
        lambda: SOLAM(3, radius=0.0),
        lambda: SOLAM(3, kappa=-1.0),
        lambda: SOLAM(3, horizon=0),
        lambda: DSGD(3, gamma=0.0),
        lambda: DSGD(3, c=-1.0),
        lambda: DSGD(3).stage(0),
        lambda: NSAUC(3, gamma=0.0),
        lambda: NSAUC(3, lambda2=-1.0),
        lambda: NSAUC(3, loss="logistic"),
        lambda: NSAUC(3, rskip=0),
        lambda: NSAUC(3, askip=0),
        lambda: opauc_of_columns(3, 4, 0.1, 0.1),
        lambda: opauc_of_projection(3, 0, 0.1, 0.1),
        lambda: opauc_of_components(np.eye(3), 3, 0.1, 0.1),
    ],
)
def test_settings_out_of_range_are_refused(make):
    with pytest.raises(ConfigError, match=r"found .*expected .*; "):
        make()


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_wherever_arrays_lie(name):
    X, y = rows(400, d=6)
    rng, found, held = np.random.default_rng(0), set(), []
    for _ in range(40):
        held.append(np.empty(rng.integers(1, 5000)))
        learner = CASES[name].make(6)
        learner.learn(X.copy(), y.copy())
        found.add(learner.w.tobytes())
    assert len(found) == 1
