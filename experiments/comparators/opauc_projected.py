"""OPAUC on projected rows: OPAUCf, OPAUCrp and OPAUCpca (Gao et al., 2013)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, svds

from spark_auc.core.kernels import compiled
from spark_auc.core.noise import fill_normal
from spark_auc.core.state.rules import not_csr
from spark_auc.core.state.schema import WHOLE, Field, Part, Schema, Size, Values, array
from spark_auc.core.types import Bool, Float, Index, Rows
from spark_auc.core.validation import check_whole
from spark_auc.errors import ConfigError
from spark_auc.learners.learner import entries
from spark_auc.learners.linear import scores
from spark_auc.learners.opauc import OPAUC

# Rows, and columns of w, mapped at a time, to bound temporary memory.
_ROWS, _COLUMNS = 256, 1024


@dataclass(eq=False)
class ProjectedOPAUC:
    """`OPAUC` of ``k`` features ``x'H``, where ``H`` is a ``(d, k)`` map [1]_ (Section 5.2).

    The constructors are `opauc_of_columns`, `opauc_of_projection` and `opauc_of_components`.
    O(k non-zeros + k^2) time per row; O(k^2) memory besides the map.

    Parameters
    ----------
    dimension
        Number of features ``d`` of the rows.
    inner
        The learner of ``k`` features.
    columns : CSR, (d, k), optional
        The map. Without it, entry ``(i, j)`` is the ``j``-th normal draw of stream ``i`` of the
        seed divided by ``sqrt(k)``, and is computed on demand.
    seed
        Seed of a map that is computed on demand.

    References
    ----------
    .. [1] W. Gao, R. Jin, S. Zhu, Z.-H. Zhou. One-Pass AUC Optimization. ICML 2013.
    """

    dimension: int
    inner: OPAUC
    columns: sparse.csr_matrix | None = None
    seed: int = 0

    def learn(self, X: Rows, y: Bool, weight: Float | None = None) -> None:
        """Learn rows; see `spark_auc.learners.learner.Learner.learn`."""
        for start in range(0, y.size, _ROWS):
            block = slice(start, start + _ROWS)
            mapped = self.mapped(X[block])
            self.inner.learn(mapped, y[block], None if weight is None else weight[block])

    def mapped(self, X: Rows) -> Float:
        """The ``k`` features ``(n, k)`` of rows ``(n, d)``."""
        values, indices, starts = entries(X, self.dimension)
        present, places = np.unique(indices, return_inverse=True)
        # A sparse product sums each row independently; BLAS sums depend on the number of rows.
        rows = sparse.csr_matrix((values, places, starts), (X.shape[0], present.size))
        return np.asarray(rows @ self._map_rows(present))

    def _map_rows(self, columns: Index) -> Float:
        """The rows ``(c, k)`` of the map for ``c`` features."""
        if self.columns is not None:
            return np.asarray(self.columns[columns].toarray())
        out = np.empty((columns.size, self.inner.dimension))
        _fill(columns, self.seed, out)
        return out

    @property
    def w(self) -> Float:
        """Weights ``(d,)`` of the original features."""
        cuts = range(0, self.dimension, _COLUMNS)
        spans = [np.arange(a, min(a + _COLUMNS, self.dimension), dtype=np.uint32) for a in cuts]
        return np.concatenate([self._map_rows(span) @ self.inner.w for span in spans])

    def score(self, X: Rows) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``."""
        return scores(X, self.w)

    def to_bytes(self) -> bytes:
        """Versioned bytes of the learner and its map, or the map's seed."""
        values = dict.fromkeys(_SCHEMA.fields) | vars(self)
        if (columns := values.pop("columns")) is not None:
            values |= {name: getattr(columns, name) for name in _MAP}
        return _SCHEMA.encode(values)

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """The learner from the bytes of `to_bytes`; `ModelFormatError` if they are invalid."""
        a = _SCHEMA.decode(data)
        inner, dimension = a["inner"], a["dimension"]
        columns = None
        if a["data"] is not None:
            shape = dimension, inner.dimension
            columns = sparse.csr_matrix(tuple(a[name] for name in _MAP), shape)
        return cls(dimension, inner, columns, a["seed"])


def _projection_fault(values: Values) -> str | None:
    dimension, features = values["dimension"], values["inner"].dimension
    check_whole("seed", values["seed"], 0)
    if features > dimension:
        return f"it projects {dimension} features to {features}, expected fewer"
    present = [values[name] is not None for name in _MAP]
    if any(present) != all(present):
        return "a part of its map is missing"
    if not all(present):
        return None
    return not_csr(values["indices"], values["indptr"], dimension, features)


_MAP = ("data", "indices", "indptr")
_SCHEMA = Schema(
    "ProjectedOPAUC",
    1,
    {
        "dimension": Size("d", 1),
        "seed": WHOLE,
        "inner": Part(OPAUC),
        "data": array("<f8", "entries", optional=True),
        "indices": Field(("<i4", "<i8"), ("entries",), optional=True),
        "indptr": Field(("<i4", "<i8"), ("d+1",), optional=True),
    },
    _projection_fault,
)


def _inner(dimension: int, features: int, eta: float, lambda2: float) -> OPAUC:
    if not 1 <= features <= dimension:
        raise ConfigError(
            f"found features = {features}, expected 1 to {dimension}, the features of the rows; "
            "set features in this range"
        )
    return OPAUC(features, eta, lambda2)


def opauc_of_columns(
    dimension: int, features: int, eta: float, lambda2: float, seed: int = 0
) -> ProjectedOPAUC:
    """OPAUCf: OPAUC on ``features`` columns drawn at random; 1,000 in the paper.

    Raises
    ------
    ConfigError
        ``features`` is not in 1 to ``dimension``, or a setting is out of range.
    """
    inner = _inner(dimension, features, eta, lambda2)
    check_whole("seed", seed, 0)
    columns = np.sort(np.random.default_rng(seed).choice(dimension, features, replace=False))
    ones = (np.ones(features), (columns, np.arange(features)))
    return ProjectedOPAUC(dimension, inner, sparse.csr_matrix(ones, (dimension, features)))


def opauc_of_projection(
    dimension: int, features: int, eta: float, lambda2: float, seed: int = 0
) -> ProjectedOPAUC:
    """OPAUCrp: OPAUC on a Gaussian random projection to ``features``; 1,000 in the paper.

    Raises
    ------
    ConfigError
        ``features`` is not in 1 to ``dimension``, or a setting is out of range.
    """
    inner = _inner(dimension, features, eta, lambda2)
    check_whole("seed", seed, 0)
    return ProjectedOPAUC(dimension, inner, seed=seed)


def opauc_of_components(
    rows: Rows, features: int, eta: float, lambda2: float, seed: int = 0
) -> ProjectedOPAUC:
    """OPAUCpca: OPAUC on the first ``features`` principal components of rows ``(n, d)``.

    The rows, such as the first rows or a sample, define the components only; the learner does not
    learn them. Components are unit vectors. Sparse rows stay sparse: the centring is implicit.

    Raises
    ------
    ConfigError
        The number of components is not below both numbers of rows and of columns.
    """
    n, dimension = rows.shape
    inner = _inner(dimension, features, eta, lambda2)
    check_whole("seed", seed, 0)
    if features >= min(n, dimension):
        raise ConfigError(
            f"found {n} rows of {dimension} features, expected more of both than the {features} "
            "components; give more rows or set fewer features"
        )
    mean = np.asarray(rows.mean(axis=0)).ravel()
    centred = LinearOperator(
        rows.shape,
        matvec=lambda v: rows @ v.ravel() - mean @ v.ravel(),
        rmatvec=lambda u: rows.T @ u.ravel() - mean * u.sum(),
        dtype=float,
    )
    start = np.random.default_rng(seed).normal(size=min(n, dimension))
    components = svds(centred, features, v0=start, return_singular_vectors="vh")[2]
    return ProjectedOPAUC(dimension, inner, sparse.csr_matrix(components[::-1].T))


@compiled()
def _fill(columns: Index, seed: int, out: Float) -> None:
    for i in range(columns.size):
        fill_normal(seed, columns[i], out[i])
        for j in range(out.shape[1]):
            out[i, j] /= np.sqrt(out.shape[1])
