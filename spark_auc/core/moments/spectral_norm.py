"""The spectral norm of a positive semidefinite matrix."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import LinearOperator, eigsh

from spark_auc.core.moments.objective import Matrix

# Features for which a decomposition is simpler than Lanczos' method.
_FEW = 20


def spectral_norm(Sigma: Matrix) -> float:
    """The largest eigenvalue of a positive semidefinite matrix, by Lanczos' method.

    To a relative error of about 1e-3; some 20 to 60 products.
    """
    d = Sigma.dimension
    if d <= _FEW:
        return float(np.linalg.eigvalsh(Sigma.matmat(np.eye(d)))[-1])
    if not Sigma.diagonal().any():
        return 0.0
    operator = LinearOperator((d, d), matvec=Sigma.matvec, dtype=float)
    start = np.random.default_rng(0).normal(size=d)
    found = eigsh(operator, 1, which="LA", tol=1e-3, v0=start, return_eigenvectors=False)
    return float(found[0])
