"""Gain of rankers of segments on real data: AUC within segments, and over all rows.

Needs SPARK_AUC_DATA. Columns of tokens are hashed to rows of unit length. Every row is a test row
once, in each of SEEDS divisions into five parts. The mean within segments weighs them by their
rows. Intervals are those of paired DeLong over the parts of a division, whose tests have no rows in
common; segments have none in common either. Usage: python -m benchmarks.segments [avazu|criteo].
"""

from __future__ import annotations

import csv
import os
import sys
import zlib
from collections import Counter
from functools import reduce
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import sparse

from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.sampling.folds import Folds
from spark_auc.training.fold_moments import FoldsInMemory
from spark_auc.training.segment_moments import moments_of_segments
from spark_auc.training.segments import segment_rankers
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()
D, PARTS, MOST = 512, 5, 16
COLUMNS = {
    "avazu": ("banner_pos", "device_conn_type", "site_category", "app_category", "C1", "C18"),
    "criteo": ("C9", "C14", "C17", "C20"),
}
SEEDS = {"avazu": 3, "criteo": 1}


class Gain(NamedTuple):
    """Differences of the AUCs and their variances, within segments and over all rows."""

    within: float
    within_variance: float
    overall: float
    overall_variance: float


def table(name: str) -> tuple[np.ndarray, dict[str, list[str]]]:
    """Labels, and columns of tokens."""
    if name == "avazu":
        with (DATA / "avazu_9k.csv").open() as file:
            rows = list(csv.DictReader(file))
        left_out = ("id", "click", "device_id", "device_ip")
        columns = {k: [row[k] for row in rows] for k in rows[0] if k not in left_out}
        columns["hour"] = [hour[-2:] for hour in columns["hour"]]
        return np.array([row["click"] == "1" for row in rows]), columns
    lines = [line.split("\t") for line in (DATA / "criteo_80k.tsv").read_text().splitlines()]
    columns = {f"C{k}": [line[13 + k] for line in lines] for k in range(1, 27)}
    for k in range(1, 14):
        values = [line[k] for line in lines]
        columns[f"I{k}"] = [
            v if not v or int(v) <= 2 else f"{int(np.log(float(v)) ** 2)}" for v in values
        ]
    return np.array([line[0] == "1" for line in lines]), columns


def hashed(columns: dict[str, list[str]]) -> sparse.csr_matrix:
    """One-hot tokens of all columns, hashed to ``D`` features, in rows of unit length."""
    places = [[zlib.crc32(f"{c}={v}".encode()) % D for v in of] for c, of in columns.items()]
    entries = np.array(places).T
    count, width = entries.shape
    data, starts = np.ones(entries.size), np.arange(0, entries.size + 1, width)
    X = sparse.csr_matrix((data, entries.ravel(), starts), (count, D))
    X.sum_duplicates()
    X.data[:] = 1.0
    return sparse.csr_matrix(sparse.diags(1 / np.sqrt(X.getnnz(axis=1))) @ X)


def gain(
    X: sparse.csr_matrix, y: np.ndarray, values: np.ndarray, test: np.ndarray, seed: int
) -> tuple[Gain, str]:
    """The gain on the test rows, and the chosen strength."""
    settings = TrainingSettings(standardize=False, folds=Folds(PARTS, seed))
    counts = Counter(v for v in values[~test] if v)
    segments = sorted(v for v, _ in counts.most_common(MOST))
    number = np.array([segments.index(v) if v in segments else len(segments) for v in values])
    batch = Batch(X[~test], y[~test], segment=number[~test])
    rows = ArrayRows((batch,), D)
    result = train(rows, settings)
    assert result.penalty is not None
    moments, _ = moments_of_segments(rows, settings.folds, segments)
    parts = {name: FoldsInMemory(part) for name, part in moments.items()}
    folds = zip(*moments.values(), strict=True)
    everyone = FoldsInMemory([reduce(PairMoments.merge, fold) for fold in folds])
    made = segment_rankers(everyone, parts, result.w, result.penalty, settings)
    chosen = str(made.selection["chosen"])
    if made.weights is None:
        return Gain(0.0, 0.0, 0.0, 0.0), chosen
    names = made.weights.values
    ranked = np.array([names.index(v) if v in names else len(names) for v in values[test]])
    scores = np.stack([made.weights.scores(X[test], ranked), X[test] @ result.w], axis=1)
    differences, variances, weights = [], [], []
    for at in [ranked == k for k in range(len(names))]:
        paired = PairedAUC.of(scores[at], y[test][at])
        differences.append(paired.auc[0] - paired.auc[1])
        variances.append(_variance(paired))
        weights.append(np.count_nonzero(at))
    share = np.array(weights) / sum(weights)
    paired = PairedAUC.of(scores, y[test])
    overall = float(paired.auc[0] - paired.auc[1])
    within = float(share @ differences), float(share**2 @ variances)
    return Gain(*within, overall, _variance(paired)), chosen


def _variance(paired: PairedAUC) -> float:
    c = paired.covariance
    return float(c[0, 0] + c[1, 1] - 2 * c[0, 1])


def main() -> None:
    for name in sys.argv[1:] or COLUMNS:
        y, columns = table(name)
        X = hashed(columns)
        for column in COLUMNS[name]:
            values, by_seed, chosen = np.array(columns[column]), [], []
            for seed in range(SEEDS[name]):
                part = np.random.default_rng(seed).permutation(y.size) % PARTS
                gains, strengths = zip(
                    *(gain(X, y, values, part == k, seed) for k in range(PARTS)), strict=True
                )
                by_seed.append(np.mean(gains, axis=0) / [1, PARTS, 1, PARTS])
                chosen += strengths
            mean, low, high = np.mean(by_seed, 0), np.min(by_seed, 0), np.max(by_seed, 0)
            print(
                f"{name} {column}: within {mean[0]:+.4f} +- {1.96 * np.sqrt(mean[1]):.4f} "
                f"(divisions {low[0]:+.4f} to {high[0]:+.4f}), "
                f"overall {mean[2]:+.4f} +- {1.96 * np.sqrt(mean[3]):.4f} "
                f"(divisions {low[2]:+.4f} to {high[2]:+.4f}), chosen {dict(Counter(chosen))}",
                flush=True,
            )


if __name__ == "__main__":
    main()
