"""Significant wins of the gate where challenger and champion are equally good.

Two rankers of a data set see different columns. Their scores of the rows that neither was trained
on are stored; noise is added to the better one until both AUCs on these rows are equal. A gate
draws its rows from the stored ones with replacement, so that both rankers are equal in truth. A
pooled gate draws days of few rows and pools the newest of them, as the job does.

Prints, for each data set and number of positive rows, the share of wins among 1,000 single gates
and among 1,000 pooled gates. 5% are expected.

    python -m benchmarks.gate_level --data ../shared/data
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.linear_model import Ridge
from sklearn.metrics import roc_auc_score

from spark_auc.app.config.retraining import GateSection
from spark_auc.app.jobs.gate_rows import pooled_periods
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.retraining.gate import Gate

DATA = {"a9a": "a9a", "ijcnn1": "ijcnn1", "w1a": "w1a.t", "mushrooms, noisy": "mushrooms"}


class Scores(NamedTuple):
    """Stored scores ``(n, 2)`` of two rankers of one AUC, and the labels ``(n,)``."""

    scores: np.ndarray
    y: np.ndarray

    def drawn(self, rng: np.random.Generator, positive: int, negative: int) -> Scores:
        """Rows drawn with replacement."""
        classes = np.flatnonzero(self.y), np.flatnonzero(~self.y)
        sizes = (positive, negative)
        parts = [rng.choice(rows, size) for rows, size in zip(classes, sizes, strict=True)]
        rows = np.concatenate(parts)
        return Scores(self.scores[rows], self.y[rows])


def equal_scores(X: Any, y: np.ndarray, seed: int = 0, noise: float = 0.0) -> Scores:
    """Scores of two ridge rankers of every other column, made equal in AUC by noise.

    Parameters
    ----------
    X, y
        Rows, dense or CSR, and labels; a third of them are for training.
    seed
        Seed of the parts and of the noise.
    noise
        Deviation of noise of both rankers in units of their scores, for data that are separable.
    """
    rng = np.random.default_rng(seed)
    training = rng.random(y.size) < 1 / 3
    test = np.flatnonzero(~training)
    columns = []
    for half in (0, 1):
        part = X[:, half::2]
        model = Ridge(1.0).fit(part[training], y[training])
        s = np.asarray(model.predict(part[test]))
        columns.append(s + noise * s.std() * rng.normal(size=s.size))
    columns.sort(key=lambda s: roc_auc_score(y[test], s))
    weaker, better = columns
    added, goal = rng.normal(size=test.size) * better.std(), roc_auc_score(y[test], weaker)

    def excess(share: float) -> float:
        return float(roc_auc_score(y[test], better + share * added) - goal)

    share = optimize.brentq(excess, 0.0, 100.0, xtol=1e-12)
    return Scores(np.column_stack([weaker, better + share * added]), y[test])


def wins(
    stored: Scores, gates: int, positive: int, negative: int, rng: np.random.Generator
) -> float:
    """Share of gates of one period that a challenger wins."""
    gate, won = Gate(), 0
    for _ in range(gates):
        drawn = stored.drawn(rng, positive, negative)
        paired = PairedAUC.of(drawn.scores, drawn.y)
        won += gate.decide(paired, (positive, negative), age=1).won
    return won / gates


def pooled_wins(
    stored: Scores, gates: int, positive: float, negative: float, rng: np.random.Generator
) -> tuple[float, float]:
    """Share of wins of pooled gates, and their mean number of periods.

    A period has Poisson numbers of rows of each class, with these means.
    """
    gate, section, won, pooled = Gate(), GateSection(), 0, 0
    names = [f"{k:02}" for k in range(section.most)]
    for _ in range(gates):
        periods = {
            name: stored.drawn(rng, rng.poisson(positive), rng.poisson(negative)) for name in names
        }
        counts = {k: (int(p.y.sum()), int((~p.y).sum())) for k, p in periods.items()}
        newest = names[-1]
        chosen, rows = pooled_periods(
            newest, counts[newest], names[:-1], section, counts.__getitem__
        )
        paired = PairedAUC.of(
            np.concatenate([periods[k].scores for k in chosen]),
            np.concatenate([periods[k].y for k in chosen]),
        )
        decision = gate.decide(paired, rows, age=1)
        won, pooled = won + decision.won, pooled + len(chosen)
    return won / gates, pooled / gates


def digits() -> Scores:
    """Scores of images of handwritten digits of scikit-learn, 8 and 9 positive."""
    X, y = load_digits(return_X_y=True)
    return equal_scores(X, y >= 8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("SPARK_AUC_DATA"))
    parser.add_argument("--gates", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sources = {"digits": digits()}
    for name, file in DATA.items():
        path = Path(args.data or ".") / file
        if path.exists():
            X, y = load_svmlight_file(str(path))
            sources[name] = equal_scores(X, y == y.max(), noise=2.0 * ("noisy" in name))
    for name, stored in sources.items():
        rng = np.random.default_rng(args.seed)
        ratio = float(np.clip((~stored.y).sum() / stored.y.sum(), 1.0, 10.0))
        line = {
            "data": name,
            "rows": stored.y.size,
            "auc": round(float(roc_auc_score(stored.y, stored.scores[:, 0])), 4),
            "correlation": round(float(np.corrcoef(stored.scores.T)[0, 1]), 2),
        }
        for positive in (200, 1000):
            share = wins(stored, args.gates, positive, int(ratio * positive), rng)
            line[f"winsOf{positive}Positives"] = share
        share, periods = pooled_wins(stored, args.gates, 45, 45 * ratio, rng)
        print(json.dumps(line | {"winsPooled": share, "meanPeriods": periods}), flush=True)


if __name__ == "__main__":
    main()
