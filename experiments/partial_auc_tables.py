"""The tables of `experiments.partial_auc`, printed from its file of results.

    python -m experiments.partial_auc_tables --results FILE

A difference is the mean over splits of the measure of a method less that of "one step" on the same
split, in points, with its 95% t interval.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from scipy.stats import t

from experiments.partial_auc import COUNTED, LIMITS, METHODS, NAMES, PART
from experiments.past_results import Results
from experiments.past_tables import Table, table


def interval(results: Table, name: str, method: str, limit: str) -> tuple[float, float]:
    """Mean difference from "one step" at a limit, and half of its 95% t interval."""
    mine, other = (results[PART, name, each] for each in (method, "one step"))
    values = [mine[split][limit] - other[split][limit] for split in sorted(set(mine) & set(other))]
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    return float(np.mean(values)), float(t.ppf(0.975, len(values) - 1) * error)


def verdict(results: Table, method: str) -> dict[str, tuple[int, int]]:
    """Number of sets where a method is above and below "one step", for each limit."""
    names = [name for name in COUNTED if (PART, name, method) in results]
    counts = {}
    for limit in map(str, LIMITS):
        found = [interval(results, name, method, limit) for name in names]
        above = sum(mean > half for mean, half in found)
        counts[limit] = above, sum(mean < -half for mean, half in found)
    return counts


def tables(results: Table) -> str:
    """The tables of all sets that were measured."""
    lines = []
    for limit in map(str, LIMITS):
        lines += ["", f"up to a false positive rate of {limit}", ""]
        lines += ["| set | one step | " + " | ".join(METHODS[:1] + METHODS[2:]) + " |"]
        lines += ["|" + "---|" * (1 + len(METHODS))]
        for name in NAMES:
            if (PART, name, "one step") not in results:
                continue
            rows = results[PART, name, "one step"].values()
            cells = [name, f"{np.mean([row[limit] for row in rows]):.2f}"]
            for method in METHODS[:1] + METHODS[2:]:
                mean, half = interval(results, name, method, limit)
                cells.append(f"{mean:+.2f} ± {half:.2f}")
            lines.append("| " + " | ".join(cells) + " |")
        counts = [f"{m}: {verdict(results, m)[limit]}" for m in METHODS if m != "one step"]
        lines += ["", "sets above and below one step: " + "; ".join(counts)]
    for field in ("seconds", "auc"):
        lines += ["", field, ""]
        for name in NAMES:
            if (PART, name, "one step") in results:
                means = [
                    f"{m} {np.mean([row[field] for row in results[PART, name, m].values()]):.2f}"
                    for m in METHODS
                ]
                lines.append(f"{name}: " + "; ".join(means))
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="file of results")
    print(tables(table(Results(parser.parse_args().results).rows())))


if __name__ == "__main__":
    main()
