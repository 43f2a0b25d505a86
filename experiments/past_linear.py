"""Frozen trees, pairs, crosses and priors beside tuned gradient boosting, on raw tables.

    python -m experiments.past_linear --data DIR --results FILE [--processes 2] [--methods NAME ...]

appends a JSON line to the file for each set, split and method: test AUC in percent, CPU seconds of
the fit (one thread), and what was chosen. A run that was interrupted continues where it ended.
Every method sees the same raw columns of the training half; see `experiments.past_sets`. Splits are
measured in order, of all sets in turn.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from experiments import past_auto, past_peers, past_refresh
from experiments.past_results import Key, Results
from experiments.past_sets import SETS, SPLITS, Rows

PARTS = ("splits", "few rows", "time")
OURS = "ours"
METHODS = (*past_peers.METHODS, OURS)
# The last result of a job with several.
LAST = {OURS: past_auto.AUTO, "few rows": "trees of all", "time": "regrown trees"}
# Sets of enough rows for a twentieth of a half to grow trees.
FEW_ROWS = tuple(name for name in SETS if name not in ("german.numer_scale", "diabetes_scale"))
FEW_SPLITS, LAST_BLOCK = 5, past_refresh.BLOCKS - 1


@cache
def _rows(name: str, data: Path) -> Rows:
    return SETS[name](data)


def measure(key: Key, data: Path) -> list[tuple[Key, Mapping[str, Any]]]:
    """The results of a peer, or of all of our methods, on one split of a set."""
    part, name, split, method = key
    train, test = _rows(name, data).split(split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if part == "few rows":
            results = past_refresh.few_rows(train, test, split)
            return [((part, name, split, each), row) for each, row in results.items()]
        if part == "time":
            blocks = past_refresh.in_time(_rows(name, data))
            return [((part, name, block, each), row) for (each, block), row in blocks.items()]
        if method == OURS:
            ours = past_auto.results(train, test, split)
            return [((part, name, split, each), row) for each, row in ours]
        return [(key, past_peers.measured(past_peers.METHODS[method], train, test, split))]


def run(keys: Iterable[Key], data: Path, results: Results, processes: int) -> None:
    """Measure what the file does not have yet, in the order of the keys."""
    known = results.keys()
    missing = [key for key in keys if (*key[:3], LAST.get(key[3], key[3])) not in known]
    # Each process imports anew: forked ones would share the threads of the tree libraries.
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(measure, key, data) for key in missing]):
            for key, row in done.result():
                results.add(key, row)


def main() -> None:
    """Measure methods on splits of sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--results", type=Path, required=True, help="file of results")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--splits", type=int, default=SPLITS, help="number of splits")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    keys: list[Key] = [
        ("splits", name, split, method)
        for split in range(options.splits if "splits" in options.parts else 0)
        for name in options.sets
        for method in options.methods
    ]
    if "few rows" in options.parts:
        every = [(split, name) for split in range(FEW_SPLITS) for name in FEW_ROWS]
        keys += [("few rows", name, split, "few rows") for split, name in every]
    if "time" in options.parts:
        keys.append(("time", "criteo_80k", LAST_BLOCK, "time"))
    run(keys, options.data, Results(options.results), options.processes)


if __name__ == "__main__":
    main()
