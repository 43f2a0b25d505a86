"""One penalty, or a sequence of them with warm starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from spark_auc.core.objective import ElasticNet, Quadratic
from spark_auc.errors import ConfigError
from spark_auc.solvers.coordinate_descent import ColumnCache, elastic_net
from spark_auc.solvers.ridge import ridge
from spark_auc.solvers.solution import Solution


def path(
    quadratic: Quadratic, penalties: Iterable[ElasticNet], *, tol: float, max_iter: int
) -> Iterator[Solution]:
    """The solution of each penalty in turn, each started from the one before.

    Fastest in order of falling penalties.

    Raises
    ------
    ConfigError
        A penalty factor is negative.
    """
    columns = ColumnCache(quadratic)
    start = None
    for penalty in penalties:
        if penalty.l1 < 0 or penalty.l2 < 0:
            raise ConfigError(
                f"found the penalty {penalty}, expected factors >= 0; "
                "use regParam >= 0 and elasticNetParam in [0, 1]"
            )
        if penalty.l1:
            solution = elastic_net(
                quadratic, penalty, tol=tol, max_iter=max_iter, start=start, columns=columns
            )
        else:
            solution = ridge(quadratic, penalty.l2, tol=tol, max_iter=max_iter, start=start)
        start = solution.w
        yield solution


def solve(quadratic: Quadratic, penalty: ElasticNet, *, tol: float, max_iter: int) -> Solution:
    """The solution of one penalty; see `path`."""
    return next(path(quadratic, [penalty], tol=tol, max_iter=max_iter))
