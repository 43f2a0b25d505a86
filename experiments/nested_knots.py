"""The choice of the number of knots from moments of the finest splines alone.

Hats of a subset of the knots are linear combinations of the hats of all knots, ``h = A' H``, with
``A`` the coarse hats at the fine knots. Pair moments of coarse splines are therefore ``A' Sigma A``
and ``A' mu``, and held-out rows are scored by the fine weights ``A w``. The rows are mapped and
their moments summed once, for any number of candidates.

    python -m experiments.nested_knots --data DIR [--table NAME]

prints for each table the seconds of the moments, and for each number of knots the held-out and the
test AUC of exact all-pairs ridge and the seconds of all folds and penalties.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments.raw_tables import TABLES, raw
from spark_auc.core.types import Bool, Float
from spark_auc.features.column_summary import ColumnSummary
from spark_auc.features.knots import knots_of
from spark_auc.features.raw_columns import type_of
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.recipe_numbers import Spline

COUNTS = (2, 4, 8, 16, 24, 32, 48)
FOLDS = 5


class Sums(NamedTuple):
    """Rows, sums and products of the features of a class."""

    rows: float
    total: Float
    products: Float


def sums(X: sparse.csr_matrix) -> Sums:
    """The sums of rows ``(n, F)``."""
    return Sums(float(X.shape[0]), np.asarray(X.sum(axis=0)).ravel(), (X.T @ X).toarray())


def pairs(classes: list[list[Sums]]) -> tuple[Float, Float]:
    """``Sigma`` and ``mu`` of all pairs, from the sums of both classes in some folds."""
    means, covariances = [], []
    for parts in classes:
        rows, total, products = (sum(part[k] for part in parts) for k in range(3))
        mean = np.asarray(total) / rows
        means.append(mean)
        covariances.append(np.asarray(products) / rows - np.outer(mean, mean))
    mu = means[0] - means[1]
    return covariances[0] + covariances[1] + np.outer(mu, mu), mu


def path(Sigma: Float, mu: Float, A: Float, penalties: Float) -> Float:
    """Fine weights ``(F, l)`` of ridges on the features ``A' x``."""
    values, vectors = linalg.eigh(A.T @ Sigma @ A)
    along = vectors.T @ (A.T @ mu)
    weights: Float = vectors @ (along[:, None] / (np.maximum(values, 0)[:, None] + penalties))
    return A @ weights


def coarse_hats(spline: Spline, summary: ColumnSummary, count: int) -> Float:
    """The hats of ``count`` of the knots at all knots, and the indicator of missing values."""
    fine = np.array(spline.knots)
    values, weights = summary.counts.weighted()
    ranks = np.cumsum(weights)
    wanted = knots_of(values, weights, count)
    # The fine knot of the nearest rank; a frequent value has its own.
    distance = np.abs(
        ranks[np.searchsorted(values, fine)][:, None] - ranks[np.searchsorted(values, wanted)]
    )
    knots = fine[np.unique(distance.argmin(axis=0))]
    hats = [np.interp(fine, knots, unit) for unit in np.eye(knots.size)]
    return np.asarray(linalg.block_diag(np.array(hats).T, np.eye(1)))


def measure(name: str, data: Path) -> dict[str, object]:
    """Seconds and AUC for each number of knots."""
    table = TABLES[name](data)
    y, test = table.y[table.train], table.y[table.test]
    columns, held_out = (raw(table.frame.iloc[rows]) for rows in (table.train, table.test))
    kinds = {column: type_of(column, values) for column, values in columns.items()}
    plan = RecipePlan(
        tuple(
            Planned(column, kind, "tokens" if kind == "text" else "spline")
            for column, kind in kinds.items()
            if kind == "float" or 2 * table.frame[column].nunique() <= y.size
        ),
        max(COUNTS),
        unit=False,
    )
    state = plan.fold([columns])
    recipe = plan.fitted(state)
    began = time.perf_counter()
    X, Z = recipe.transform(columns), recipe.transform(held_out)
    numeric = recipe.starts[-3]
    seen = np.unique(X.indices)
    kept = np.append(np.arange(numeric), seen[seen >= numeric])
    X, Z = X[:, kept], Z[:, kept]
    fold = np.random.default_rng(0).permutation(y.size) % FOLDS
    parts = [[sums(X[(fold == k) & (y == c)]) for k in range(FOLDS)] for c in (True, False)]
    result: dict[str, object] = {"table": name, "moments": time.perf_counter() - began}
    for count in COUNTS:
        began = time.perf_counter()
        blocks = [
            coarse_hats(spline, summary, count)
            for spline, summary in zip(recipe.numeric, state.columns, strict=True)
            if isinstance(spline, Spline)
        ]
        A = linalg.block_diag(*blocks, np.eye(kept.size - numeric))
        everything = pairs(parts)
        penalties = np.trace(A.T @ everything[0] @ A) * np.logspace(-7, 1, 25)
        scores = []
        for k in range(FOLDS):
            others = [[part for j, part in enumerate(side) if j != k] for side in parts]
            W = path(*pairs(others), A, penalties)
            scores.append(areas(X[fold == k] @ W, y[fold == k]))
        mean = np.mean(scores, axis=0)
        best = int(mean.argmax())
        W = path(*everything, A, penalties[[best]])
        result[f"{count} knots"] = {
            "heldOut": round(100 * float(mean[best]), 2),
            "test": round(100 * float(areas(Z @ W, test)[0]), 2),
            "seconds": round(time.perf_counter() - began, 2),
        }
    return result


def areas(scores: Float, y: Bool) -> Float:
    """AUC of each column of scores ``(n, l)``."""
    return np.array([roc_auc_score(y, column) for column in scores.T])


def main() -> None:
    """Measure one table, or those of few categories."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--table", choices=TABLES, help="one table; default: those with few tokens")
    options = parser.parse_args()
    few = ("magic04", "adult_raw", "ijcnn1", "german.numer_scale")
    for name in [options.table] if options.table else few:
        print(json.dumps(measure(name, options.data)), flush=True)


if __name__ == "__main__":
    main()
