"""Solutions of a penalty, or of a path of penalties with warm starts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.parallel import blas_of
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError
from spark_auc.solvers.coordinate_descent import ColumnCache, elastic_net
from spark_auc.solvers.ridge import LARGEST_FACTORISED, is_indefinite, ridge
from spark_auc.solvers.ridge_path import ridges
from spark_auc.solvers.screening import Screening
from spark_auc.solvers.solution import Solution, absolute_tolerance

_log = logging.getLogger(__name__)

# Least number of ridges for which a common decomposition is faster than separate solutions.
_MANY = 6


def path(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], *, tol: float, max_iter: int
) -> Iterator[Solution]:
    """The solution of each penalty in turn, with the previous solution as the start.

    Descending penalties are fastest. Six or more ridges are solved together. A matrix of up to 2048
    features is tested for negative eigenvalues; of a larger one, the curvature is tested in the
    directions that the solver uses. Features of a matrix that do not occur, without curvature and
    prior, are left out: their weight is 0, where all their conditions of optimality hold exactly.

    Parameters
    ----------
    quadratic
        The loss. If it has an origin ``p`` (`spark_auc.solvers.prior.centred`), the penalty is that
        of ``w - p``, and the solutions are ``w``.
    penalties
        The penalties, in order of their solution.
    tol
        Relative tolerance of the KKT residual; see `absolute_tolerance`.
    max_iter
        Greatest number of iterations for each penalty.

    Raises
    ------
    ConfigError
        A penalty factor is negative.
    """
    for penalty in penalties:
        if penalty.l1 < 0 or penalty.l2 < 0:
            raise ConfigError(
                f"found the penalty {penalty}, expected factors >= 0; "
                "use regParam >= 0 and elasticNetParam in [0, 1]"
            )
    kept = quadratic.occurring()
    if 0 < kept.size < quadratic.dimension and isinstance(quadratic.Sigma, SymmetricTiles):
        _log.info("%d of %d features occur", kept.size, quadratic.dimension)
        for solution in _path(quadratic.restricted(kept), penalties, tol, max_iter):
            w = np.zeros(quadratic.dimension)
            w[kept] = solution.w
            yield replace(solution, w=w)
        return
    yield from _path(quadratic, penalties, tol, max_iter)


def _path(
    quadratic: Quadratic, penalties: Sequence[ElasticNet], tol: float, max_iter: int
) -> Iterator[Solution]:
    Sigma = quadratic.Sigma
    indefinite = (
        isinstance(Sigma, SymmetricTiles)
        and Sigma.dimension <= LARGEST_FACTORISED
        and is_indefinite(quadratic)
    )
    sparse = _sparse_solver(quadratic, tol, max_iter)
    factors = [penalty.l2 for penalty in penalties if not penalty.l1]

    common_solutions = (
        iter(ridges(quadratic, factors, tol=tol, max_iter=max_iter))
        if len(factors) >= _MANY
        else None
    )
    before: tuple[Solution, ElasticNet] | None = None
    for penalty in penalties:
        start = before[0].start(before[1], penalty) if before else None
        if penalty.l1:
            solution = sparse(penalty, start)
        elif common_solutions:
            solution = next(common_solutions)
        else:
            solution = ridge(quadratic, penalty.l2, tol=tol, max_iter=max_iter, start=start)
        before = solution, penalty
        solution = solution.from_zero(quadratic)
        yield solution.indefinite() if indefinite else solution


def _sparse_solver(
    quadratic: Quadratic, tol: float, max_iter: int
) -> Callable[[ElasticNet, Float | None], Solution]:
    """The solver of penalties with l1: on the matrix, or with screening if none is formed."""
    Sigma = quadratic.Sigma
    if isinstance(Sigma, SymmetricTiles):
        columns = ColumnCache(Sigma)
        return lambda penalty, start: elastic_net(
            quadratic,
            penalty,
            tolerance=absolute_tolerance(quadratic, penalty, tol),
            max_iter=max_iter,
            start=start,
            columns=columns,
        )
    return Screening(quadratic, tol, max_iter)


def solve(quadratic: Quadratic, penalty: ElasticNet, *, tol: float, max_iter: int) -> Solution:
    """The solution of one penalty; see `path`."""
    with blas_of(quadratic.occurring().size):
        return next(path(quadratic, [penalty], tol=tol, max_iter=max_iter))
