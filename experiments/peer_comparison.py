"""The default and `method: auto` beside the peers of `experiments.peers`, and the table of both.

    python -m experiments.peer_comparison --data DIR --results FILE [--tables NAME ...]

measures what the file of results lacks, with `spark_auc.train` on the path of the training half,
on one thread, and prints the table: mean test AUC in percent of each learner, and the mean
difference on the same halves from the best peer, which is the one with the best mean on the other
halves, with its 95% t interval. Halves of one table overlap, so that the intervals are too narrow
for other rows of the same source.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from scipy import stats
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments.peer_tables import CLOSED, TABLES, PeerTable
from experiments.peers import complete, done
from spark_auc import train

OURS: Mapping[str, Literal["auto"] | None] = {"default": None, "auto": "auto"}


def measured(table: PeerTable, data: Path, seed: int, ours: str) -> dict[str, Any]:
    """Test AUC in percent, CPU seconds and the chosen model on one split."""
    train_half, test_half = table.halves(data, seed)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "rows.csv"
        train_half.to_csv(path, index=False)
        began = time.process_time()
        trained = train(
            path, table.label, positive=table.positive, key=table.group, method=OURS[ours]
        )
        seconds = time.process_time() - began
        test_half.drop(columns=table.label).to_csv(path, index=False)
        scores = trained.score(path)
    y = test_half[table.label].to_numpy() == table.positive
    auc = 100 * float(roc_auc_score(y, np.asarray(pa.array(scores))))
    methods = (trained.model.summary.selection or {}).get("methods")
    chosen = methods["candidates"][methods["chosen"]]["name"] if methods else "single columns"
    return {"auc": round(auc, 3), "seconds": round(seconds, 1), "setting": chosen}


def compared(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table, in Markdown."""
    learners = dict.fromkeys(row["learner"] for row in rows)
    peers = [name for name in learners if name not in OURS]
    ours = [name for name in OURS if name in learners]
    head = ["table", "halves", *peers, *ours, *(f"{name} less best peer" for name in ours)]
    head += [f"s, {name}" for name in [*ours, *peers]]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    differences: dict[str, list[float]] = {name: [] for name in ours}
    for table in dict.fromkeys(row["table"] for row in rows):
        found = {(r["learner"], r["seed"]): r for r in rows if r["table"] == table}
        seeds = sorted({seed for _, seed in found})
        seeds = [s for s in seeds if all((name, s) in found for name in [*peers, *ours])]
        if not seeds:
            continue
        auc = {n: np.array([found[n, s]["auc"] for s in seeds]) for n in [*peers, *ours]}
        best = np.array([_best(auc, peers, k) for k in range(len(seeds))])
        cells = [table, str(len(seeds)), *(f"{auc[n].mean():.2f}" for n in [*peers, *ours])]
        for name in ours:
            cells.append(_difference(auc[name] - best))
            # A single split says little of a table.
            differences[name] += [float((auc[name] - best).mean())] * (len(seeds) > 1)
        for name in [*ours, *peers]:
            cells.append(f"{np.median([found[name, s]['seconds'] for s in seeds]):.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    for name, values in differences.items():
        if values:
            told = f"mean {np.mean(values):.2f}, worst {min(values):.2f} of {len(values)} tables"
            lines.append(f"\n{name}: {told} with several halves")
    return "\n".join(lines)


def _best(auc: Mapping[str, Any], peers: Sequence[str], place: int) -> float:
    """The AUC of the peer that is best on the other halves; of all of them if there is one."""
    others = np.arange(next(iter(auc.values())).size) != place
    others = others if others.any() else ~others
    return float(auc[max(peers, key=lambda name: auc[name][others].mean())][place])


def _difference(values: Any) -> str:
    mean = f"{values.mean():+.2f}"
    if values.size < 2:
        return mean
    half = stats.t.ppf(0.975, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return f"{mean} ({values.mean() - half:.2f} to {values.mean() + half:.2f})"


def main() -> None:
    """Measure what a file of results lacks, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--results", type=Path, required=True, help="file of results to append to")
    parser.add_argument("--tables", nargs="*", choices=[*TABLES, *CLOSED], default=list(TABLES))
    parser.add_argument("--ours", nargs="*", choices=OURS, default=list(OURS))
    options = parser.parse_args()
    complete(options.results, options.data, options.tables, options.ours, measured)
    print(compared(done(options.results)))


if __name__ == "__main__":
    main()
