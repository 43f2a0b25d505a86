"""Coverage of nominal 95% AUC intervals, by simulation with Gaussian scores.

Prints one line per number of positive rows and scale; there are five times as many negative rows.
The standard error of a value is about 100 * sqrt(0.05 * 0.95 / repeats) percent points.
"""

from __future__ import annotations

import argparse
from statistics import NormalDist

import numpy as np

from spark_auc.core.evaluation.delong import auc_interval
from spark_auc.core.evaluation.score_table import ScoreTable

AREAS = (0.5, 0.7, 0.9, 0.98)


def coverage(positives: int, area: float, repeats: int) -> dict[str, float]:
    """Share of the intervals that contain the AUC, for each scale."""
    rng = np.random.default_rng([positives, round(100 * area)])
    shift = 2**0.5 * NormalDist().inv_cdf(area)
    y = np.repeat([True, False], [positives, 5 * positives])
    hits = {"wilson": 0, "linear": 0}
    for _ in range(repeats):
        table = ScoreTable.of(rng.normal(size=y.size) + shift * y, y)
        for scale in ("wilson", "linear"):
            interval = auc_interval(table, scale=scale)
            hits[scale] += interval.lower <= area <= interval.upper
    return {scale: count / repeats for scale, count in hits.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000)
    repeats = parser.parse_args().repeats
    print(f"{'positives':>10}{'scale':>8}" + "".join(f"{f'AUC {a}':>10}" for a in AREAS))
    for positives in (2, 5, 10, 20, 100, 1000):
        coverages = [coverage(positives, area, repeats) for area in AREAS]
        for scale in ("wilson", "linear"):
            row = "".join(f"{100 * f[scale]:10.1f}" for f in coverages)
            print(f"{positives:10}{scale:>8}{row}", flush=True)


if __name__ == "__main__":
    main()
