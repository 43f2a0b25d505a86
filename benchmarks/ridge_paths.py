"""Many ridges of ill-conditioned quadratics: one decomposition beside conjugate gradients for each.

Prints one JSON object. Seconds are processor time of this process, on as many threads as BLAS
takes; the ratio is that of both ways in one run. The comparator is a path of conjugate gradients
with warm starts from the strongest penalty to the weakest, preconditioned by the block of the 512
features of largest variance and by the diagonal of the others.
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
    """One with eigenvalues from 1 to ``smallest``, even by logarithm, in no column's direction."""
    rng = np.random.default_rng(seed)
    values = np.geomspace(1.0, smallest, d)
    root = np.diag(np.sqrt(values))
    for _ in range(3):
        root = fft.dct(rng.choice([-1.0, 1.0], d)[:, None] * root, axis=0, norm="ortho")
    mu = root @ rng.normal(size=d)
    # A mean of pairs is no longer than their second moment allows: mu' Sigma^-1 mu < 1.
    return Quadratic(SymmetricTiles.of(root @ root.T), mu / np.sqrt(2 * d))


def by_steps(given: Quadratic, factors: list[float], tol: float, most: int) -> Iterator[Float]:
    """The comparator; see the top."""
    Sigma, d = given.Sigma, given.dimension
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

        residual = given.mu - Sigma.matvec(w) - l2 * w
        direction = z = precondition(residual)
        rho = residual @ z
        for _ in range(most):
            if np.abs(residual).max() <= 0.9 * tol * given.lambda1_max:
                break
            moved = Sigma.matvec(direction) + l2 * direction
            step = rho / (direction @ moved)
            w = w + step * direction
            residual = residual - step * moved
            z = precondition(residual)
            rho, before = residual @ z, rho
            direction = z + rho / before * direction
        yield w


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=int, default=4500)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--penalties", type=int, default=25)
    parser.add_argument("--smallest", type=float, default=1e-14, help="least eigenvalue")
    parser.add_argument("--tol", type=float, default=1e-6)
    parser.add_argument("--steps", type=int, default=1000, help="most steps of the comparator")
    parser.add_argument("--compared", type=int, default=1, help="folds that the comparator solves")
    given = parser.parse_args()
    ours, theirs, times = 0.0, 0.0, []
    solved, theirs_solved, away = 0, 0, 0.0
    for fold in range(given.folds):
        q = quadratic(given.features, given.smallest, fold)
        factors = sorted(default_grid(q, 0.0, given.penalties), reverse=True)
        penalties = [ElasticNet(0.0, l2) for l2 in factors]
        start, wall = time.process_time(), time.perf_counter()
        solutions = list(path(q, penalties, tol=given.tol, max_iter=1000))
        ours += time.process_time() - start
        times.append(time.perf_counter() - wall)
        solved += sum(s.converged for s in solutions)
        if fold >= given.compared:
            continue
        # Afresh, with long double products of a few rows: what the certificate must not miss.
        rows = np.arange(0, given.features, max(1, given.features // 50))
        some = q.Sigma.columns(rows).T.astype(np.longdouble)
        for penalty, s in zip(penalties, solutions, strict=True):
            residual = some @ s.w - q.mu[rows] + penalty.l2 * s.w[rows].astype(np.longdouble)
            worst = np.abs(residual / q.units(penalty)[rows]).max()
            assert worst <= s.certificate.kkt, (worst, s.certificate)
        start, wall = time.process_time(), time.perf_counter()
        for penalty, s, w in zip(
            penalties, solutions, by_steps(q, factors, given.tol, given.steps), strict=True
        ):
            theirs_wall = time.perf_counter() - wall
            tolerance = absolute_tolerance(q, penalty, given.tol)
            other = certified(q, penalty, w, iterations=0, tolerance=tolerance, stopped="maxIter")
            theirs_solved += other.converged
            away = max(away, s.certificate.objective - other.certificate.objective)
        theirs += time.process_time() - start
    share = given.folds / given.compared
    print(
        json.dumps(
            {
                **vars(given),
                "seconds": ours,
                "wall": sum(times),
                "solved": solved,
                "comparator": theirs * share,
                "comparatorWall": theirs_wall * share,
                "comparatorSolved": theirs_solved * share,
                "comparator/seconds": theirs * share / ours,
                "comparatorWall/wall": theirs_wall * share / sum(times),
                "objectiveAboveComparator": away,
            }
        )
    )


if __name__ == "__main__":
    main()
