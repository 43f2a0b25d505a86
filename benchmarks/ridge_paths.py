"""Ridge paths of ill-conditioned quadratics: one decomposition against conjugate gradients.

Prints one JSON object. Seconds are processor time of this process with all BLAS threads; the ratio
compares both methods in one run. The comparator is a path of conjugate gradients with warm starts
from the strongest penalty to the weakest. Its preconditioner is the block of the 512 features of
largest variance, and the diagonal of the other features.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator

import numpy as np
from scipy import fft, linalg

from spark_auc.core.moments.objective import ElasticNet, Quadratic
from spark_auc.core.moments.tiles import SymmetricTiles
from spark_auc.core.types import Float
from spark_auc.solvers.candidates import default_grid
from spark_auc.solvers.path import path
from spark_auc.solvers.solution import absolute_tolerance, certified

BLOCK = 512


def quadratic(d: int, smallest: float, seed: int) -> Quadratic:
    """A quadratic with log-spaced eigenvalues from 1 to ``smallest`` and random eigenvectors."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1.0, smallest, d)
    root = np.diag(np.sqrt(values))
    for _ in range(3):
        root = fft.dct(rng.choice([-1.0, 1.0], d)[:, None] * root, axis=0, norm="ortho")
    mu = root @ rng.normal(size=d)
    # The mean and the second moment of pairs satisfy mu' Sigma^-1 mu < 1.
    return Quadratic(SymmetricTiles.of(root @ root.T), mu / np.sqrt(2 * d))


def by_steps(problem: Quadratic, factors: list[float], tol: float, most: int) -> Iterator[Float]:
    """The comparator: the weights of each factor by preconditioned conjugate gradients."""
    Sigma, d = problem.Sigma, problem.dimension
    w, diagonal = np.zeros(d), Sigma.diagonal()
    largest = np.argsort(-diagonal)[:BLOCK]
    block = Sigma.restricted(largest).toarray()
    for l2 in factors:
        damped = block.copy()
        damped[np.diag_indices_from(damped)] = (diagonal[largest] + l2) * (1 + 1e-8)
        factor = linalg.cho_factor(damped, lower=True)

        def precondition(r: Float, l2: float = l2, factor: tuple[Float, bool] = factor) -> Float:
            z = r / (diagonal + l2)
            z[largest] = linalg.cho_solve(factor, r[largest])
            return z

        residual = problem.mu - Sigma.matvec(w) - l2 * w
        direction = z = precondition(residual)
        rho = residual @ z
        for _ in range(most):
            if np.abs(residual).max() <= 0.9 * tol * problem.lambda1_max:
                break
            product = Sigma.matvec(direction) + l2 * direction
            step = rho / (direction @ product)
            w = w + step * direction
            residual = residual - step * product
            z = precondition(residual)
            rho, last_rho = residual @ z, rho
            direction = z + rho / last_rho * direction
        yield w


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=4500)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--penalties", type=int, default=25)
    parser.add_argument("--smallest", type=float, default=1e-14, help="smallest eigenvalue")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument(
        "--steps", type=int, default=1000, help="largest number of comparator steps"
    )
    parser.add_argument(
        "--compared", type=int, default=1, help="number of folds that the comparator solves"
    )
    arguments = parser.parse_args()
    path_seconds, comparator_seconds, times = 0.0, 0.0, []
    solved, comparator_solved, objective_excess = 0, 0, 0.0
    for fold in range(arguments.folds):
        q = quadratic(arguments.features, arguments.smallest, fold)
        factors = sorted(default_grid(q, 0.0, arguments.penalties), reverse=True)
        penalties = [ElasticNet(0.0, l2) for l2 in factors]
        start, wall = time.process_time(), time.perf_counter()
        solutions = list(path(q, penalties, tol=arguments.tol, max_iter=1000))
        path_seconds += time.process_time() - start
        times.append(time.perf_counter() - wall)
        solved += sum(s.converged for s in solutions)
        if fold >= arguments.compared:
            continue
        # Check the certificate against extended-precision residuals of a few rows.
        rows = np.arange(0, arguments.features, max(1, arguments.features // 50))
        extended = q.Sigma.columns(rows).T.astype(np.longdouble)
        for penalty, s in zip(penalties, solutions, strict=True):
            residual = extended @ s.w - q.mu[rows] + penalty.l2 * s.w[rows].astype(np.longdouble)
            worst = np.abs(residual / q.units(penalty)[rows]).max()
            assert worst <= s.certificate.kkt, (worst, s.certificate)
        start, wall = time.process_time(), time.perf_counter()
        for penalty, s, w in zip(
            penalties, solutions, by_steps(q, factors, arguments.tol, arguments.steps), strict=True
        ):
            comparator_wall = time.perf_counter() - wall
            tolerance = absolute_tolerance(q, penalty, arguments.tol)
            other = certified(q, penalty, w, iterations=0, tolerance=tolerance, stopped="maxIter")
            comparator_solved += other.converged
            objective_excess = max(
                objective_excess, s.certificate.objective - other.certificate.objective
            )
        comparator_seconds += time.process_time() - start
    share = arguments.folds / arguments.compared
    print(
        json.dumps(
            {
                **vars(arguments),
                "seconds": path_seconds,
                "wall": sum(times),
                "solved": solved,
                "comparator": comparator_seconds * share,
                "comparatorWall": comparator_wall * share,
                "comparatorSolved": comparator_solved * share,
                "comparator/seconds": comparator_seconds * share / path_seconds,
                "comparatorWall/wall": comparator_wall * share / sum(times),
                "objectiveAboveComparator": objective_excess,
            }
        )
    )


if __name__ == "__main__":
    main()
