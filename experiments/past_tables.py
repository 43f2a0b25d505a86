"""The tables of `experiments.past_linear`, printed from its file of results.

    python -m experiments.past_tables --results FILE

A difference is the mean over splits of the AUC of one method less that of another on the same
split, in points, with its 95% t interval. Halves of one table overlap, so that this interval is too
narrow for other tables of the same source: "corrected" is the standard error of Nadeau and Bengio
(Machine Learning 52, 2003). Only splits that both methods have are counted.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from experiments.past_auto import AUTO
from experiments.past_results import Results
from experiments.past_sets import CATEGORICAL, SETS

# By part, set and method: the result of each split.
Table = Mapping[tuple[str, str, str], Mapping[int, Mapping[str, Any]]]
PRIORS = (("same rows, 60", "trees, 60"), ("same rows, 100", "trees, 100"))


def table(rows: Iterable[Mapping[str, Any]]) -> Table:
    """The results by part, set and method; of repeated ones, the last."""
    results: dict[tuple[str, str, str], dict[int, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        results[row["part"], row["set"], row["method"]][row["split"]] = row
    return results


def difference(results: Table, part: str, name: str, first: str, second: str) -> str:
    """Mean difference of AUCs, its t interval, the corrected error, and the number of splits."""
    mine, other = (results.get((part, name, method), {}) for method in (first, second))
    values = [mine[split]["auc"] - other[split]["auc"] for split in sorted(set(mine) & set(other))]
    if not values:
        return "-"
    return interval(values)


def interval(values: Sequence[float]) -> str:
    """Mean, 95% t interval, corrected standard error, and number of values."""
    n, mean = len(values), np.mean(values)
    if n == 1:
        return f"{mean:+.2f} (1 split)"
    error = np.std(values, ddof=1)
    half = t.ppf(0.975, n - 1) * error / np.sqrt(n)
    # Test and training halves are of one size.
    corrected = error * np.sqrt(1 / n + 1)
    return f"{mean:+.2f} [{mean - half:+.2f}, {mean + half:+.2f}] ({corrected:.2f}; {n})"


def _mean(results: Table, part: str, name: str, method: str, field: str = "auc") -> str:
    values = [row[field] for row in results.get((part, name, method), {}).values()]
    return f"{np.mean(values):.2f}" if values else "-"


def _print(title: str, header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    every = [list(header), *map(list, lines)]
    widths = [max(map(len, column)) for column in zip(*every, strict=True)]
    print(f"\n{title}\n")
    for line in every:
        text = "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        print(text.rstrip())


def _few_rows(results: Table) -> None:
    methods = ("trees of 5%", "+ linear layer", "+ refit", "trees of all")
    names = [name for name in SETS if ("few rows", name, methods[0]) in results]
    _print(
        "Trees of 5% of the training rows: mean AUC, and differences of the linear layer",
        ["set", *methods, "layer - trees", "layer - refit"],
        [
            [
                name,
                *(_mean(results, "few rows", name, method) for method in methods),
                difference(results, "few rows", name, methods[1], methods[0]),
                difference(results, "few rows", name, methods[1], methods[2]),
            ]
            for name in names
        ],
    )


def _priors(results: Table) -> None:
    _print(
        "Same rows and the trees' values as the prior: differences from the same trees",
        ["set", *(prior for prior, _ in PRIORS)],
        [[name, *(difference(results, "splits", name, *both) for both in PRIORS)] for name in SETS],
    )


def _choices(results: Table) -> None:
    methods = (AUTO, "LightGBM", "XGBoost")
    _print(
        "The choice among candidates: mean AUC, differences from tuned peers, CPU seconds of a fit",
        ["set", *methods, "auto - LightGBM", "auto - XGBoost", *(f"s, {m}" for m in methods)],
        [
            [
                f"{name} *" if name in CATEGORICAL else name,
                *(_mean(results, "splits", name, method) for method in methods),
                *(difference(results, "splits", name, AUTO, peer) for peer in methods[1:]),
                *(_mean(results, "splits", name, method, "seconds") for method in methods),
            ]
            for name in SETS
        ],
    )
    print("\n* categories; seconds of auto with all candidates")
    for name in SETS:
        _print(
            f"{name}: candidates, and how often auto chose them",
            ["candidate", "held-out AUC", "s", "splits", "chosen"],
            _candidates(results, name),
        )


def _candidates(results: Table, name: str) -> Iterable[Sequence[str]]:
    choices = [row["chosen"] for row in results.get(("splits", name, AUTO), {}).values()]
    for part, table_, method in results:
        rows = results[part, table_, method].values()
        measured = [row for row in rows if "heldOut" in row and "dimension" in row]
        if (part, table_) == ("splits", name) and measured:
            yield (
                method,
                f"{np.mean([row['heldOut'] for row in measured]):.2f}",
                f"{np.mean([row['seconds'] for row in measured]):.1f}",
                str(len(measured)),
                str(choices.count(method) or ""),
            )


def _time(results: Table) -> None:
    methods = [method for part, _, method in results if part == "time"]
    if not methods:
        return
    of = {method: results["time", "criteo_80k", method] for method in methods}
    blocks = sorted(of[methods[0]])
    lines = [[str(b + 1), *(f"{of[m][b]['auc']:.2f}" for m in methods)] for b in blocks]
    means = [f"{np.mean([of[m][b]['auc'] for b in blocks]):.2f}" for m in methods]
    frozen = of["frozen trees"]
    above = [sum(of[m][b]["auc"] > frozen[b]["auc"] for b in blocks) for m in methods]
    counts = [f"{count} of {len(blocks)}" for count in above]
    rows = [*lines, ["mean", *means], ["above frozen", *counts]]
    _print("Criteo's rows in time order: AUC by block", ["block", *methods], rows)


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True, help="file of results")
    results = table(Results(parser.parse_args().results).rows())
    for part in (_few_rows, _priors, _time, _choices):
        part(results)


if __name__ == "__main__":
    main()
