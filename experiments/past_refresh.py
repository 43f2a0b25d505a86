"""Frozen trees of few or of early rows, refreshed by a linear layer, beside LightGBM's refit.

`few_rows`: a twentieth of the training rows grows trees. Their leaves are weighted by the others:
ridge whose penalty, with or without the trees' values as its centre, 5 folds of these rows choose.
``Booster.refit`` mixes the trees' values with those of the same others; a held-out fifth chooses
the share of the old values. Beside them, trees that all rows grow.

`in_time`: the rows of a table in 16 blocks. The first two grow trees; each method then scores block
4 to 16 in turn, knowing all rows before it. The linear layer merges moments block by block, of the
rows that did not grow the trees, with a half-life of 4 blocks or without one; the last block before
decides its penalty, and the share of the old values in the refit, as a held-out block.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments.past_features import Leaves
from experiments.past_peers import Codes
from experiments.past_rankers import RELATIVE, centres
from experiments.past_sets import Rows
from spark_auc.core.batch import Batch, mixed
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Bool, Float
from spark_auc.training.prior import Prior
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train
from spark_auc.trees.lightgbm_models import from_lightgbm

TREES: Mapping[str, Any] = {"numTrees": 100, "numLeaves": 15, "learningRate": 0.1}
SHARE = 0.05
DECAYS = (0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.99)
BLOCKS, GROWING = 16, 2
HALF_LIFE = 4.0


class Booster:
    """LightGBM's trees of some rows, which `Leaves` and ``Booster.refit`` share."""

    def __init__(self, rows: Rows, seed: int) -> None:
        library: Any = import_module("lightgbm")
        self._codes = Codes.of(rows.frame)
        X = self.encoded(rows)
        categorical = [
            k for k, name in enumerate(rows.frame.columns) if name in self._codes.categories
        ]
        settings = {
            "objective": "binary",
            "num_leaves": TREES["numLeaves"],
            "learning_rate": TREES["learningRate"],
            "seed": seed,
            "num_threads": 1,
            "verbose": -1,
        }
        data = library.Dataset(X, rows.y.astype(float), categorical_feature=categorical)
        self._booster = library.train(settings, data, TREES["numTrees"])
        self.leaves = Leaves(from_lightgbm(self._booster.model_to_string()), self._codes)

    def encoded(self, rows: Rows) -> Float:
        """The rows as the trees take them."""
        return self._codes.encoded(rows.frame).to_numpy(float)

    def scores(self, rows: Rows) -> Float:
        """The trees' own scores."""
        scores: Float = self._booster.predict(self.encoded(rows))
        return scores

    def refit(self, rows: Rows, decay: float) -> Callable[[Rows], Float]:
        """Scores of the trees with values refitted to rows; ``decay`` of the old ones is kept."""
        booster = self._booster.refit(self.encoded(rows), rows.y.astype(float), decay_rate=decay)

        def scores(test: Rows) -> Float:
            values: Float = booster.predict(self.encoded(test))
            return values

        return scores

    def refit_by(
        self, fit: Rows, held_out: Rows, rows: Rows
    ) -> tuple[Callable[[Rows], Float], str]:
        """The refit to rows with the decay that is best on held-out ones."""
        aucs = [_auc(held_out.y, self.refit(fit, decay)(held_out)) for decay in DECAYS]
        decay = DECAYS[int(np.argmax(aucs))]
        return self.refit(rows, decay), f"decay {decay:g}"


def few_rows(train_rows: Rows, test: Rows, seed: int) -> dict[str, dict[str, Any]]:
    """Test AUC and CPU seconds of the methods of a training half."""
    results: dict[str, dict[str, Any]] = {}

    def add(name: str, scores: Float, began: float, chosen: str = "") -> None:
        seconds = round(time.process_time() - began, 2)
        results[name] = {"auc": _auc(test.y, scores), "seconds": seconds, "chosen": chosen}

    began = time.process_time()
    rest, growing = train_rows.folds(seed, round(1 / SHARE))[0]
    booster, others = Booster(train_rows.take(growing), seed), train_rows.take(rest)
    add("trees of 5%", booster.scores(test), began)
    began = time.process_time()
    w, chosen = _weighted(booster.leaves, others)
    add("+ linear layer", booster.leaves(test) @ w, began, chosen)
    began = time.process_time()
    fit, held_out = (others.take(part) for part in others.folds(seed)[0])
    scores, chosen = booster.refit_by(fit, held_out, others)
    add("+ refit", scores(test), began, chosen)
    began = time.process_time()
    add("trees of all", Booster(train_rows, seed).scores(test), began)
    return results


def _weighted(leaves: Leaves, rows: Rows) -> tuple[Float, str]:
    """Weights of leaves by rows that did not grow them, and the penalty that folds chose."""
    X = leaves(rows)
    keys = mixed(np.arange(rows.y.size, dtype=np.uint64))
    source = ArrayRows((Batch(X, rows.y, None, group=keys),), X.shape[1])
    prior = Prior.of(leaves.prior, None, X.shape[1], None)
    result = train(source, TrainingSettings(prior=prior, standardize=False, on_failure="warn"))
    assert result.penalty
    centre = "trees" if result.penalty.prior else "0"
    return result.w, f"regParam {result.penalty.regParam:.3g}, centre {centre}"


def in_time(rows: Rows) -> dict[tuple[str, int], dict[str, Any]]:
    """AUC of each method on each block, by method and number of the block."""
    blocks = [rows.take(part) for part in np.array_split(np.arange(rows.y.size), BLOCKS)]
    ends = np.cumsum([block.y.size for block in blocks])

    def before(block: int, first: int = 0) -> Rows:
        return rows.take(np.arange(ends[first - 1] if first else 0, ends[block - 1]))

    booster = Booster(before(GROWING), 0)
    leaves, results = booster.leaves, dict[tuple[str, int], dict[str, Any]]()
    X = [leaves(block) for block in blocks]
    own = {k: PairMoments.of(X[k], blocks[k].y) for k in range(GROWING, BLOCKS - 1)}
    for number in range(GROWING + 1, BLOCKS):
        test, last = blocks[number], blocks[number - 1]
        results["frozen trees", number] = {"auc": _auc(test.y, booster.scores(test))}
        for name, half_life in (("linear layer", np.inf), ("linear layer, half-life 4", HALF_LIFE)):
            began = time.process_time()
            known = [own[k] for k in range(GROWING, number)]
            if len(known) > 1:
                choice = _choice(_decayed(known[:-1], half_life), leaves.prior, X[number - 1], last)
            else:
                # One block: its last fifth decides.
                cut = last.y.size * 4 // 5
                part = PairMoments.of(X[number - 1][:cut], last.y[:cut])
                choice = _choice(
                    part, leaves.prior, X[number - 1][cut:], last.take(_from(last, cut))
                )
            loss = _decayed(known, half_life).quadratic(None)
            w = centres(loss, leaves.prior, [choice[0]], choice[1])[0]
            results[name, number] = {
                "auc": _auc(test.y, X[number] @ w),
                "seconds": round(time.process_time() - began, 2),
                "chosen": f"penalty {choice[0]:g}, centre {'trees' if choice[1] else '0'}",
            }
        began = time.process_time()
        seen = before(number, GROWING)
        cut = seen.y.size - (last.y.size if number > GROWING + 1 else last.y.size // 5)
        fit, held_out = seen.take(np.arange(cut)), seen.take(_from(seen, cut))
        scores, chosen = booster.refit_by(fit, held_out, seen)
        seconds = round(time.process_time() - began, 2)
        results["refit", number] = {
            "auc": _auc(test.y, scores(test)),
            "seconds": seconds,
            "chosen": chosen,
        }
        began = time.process_time()
        auc = _auc(test.y, Booster(before(number), 0).scores(test))
        results["regrown trees", number] = {
            "auc": auc,
            "seconds": round(time.process_time() - began, 2),
        }
    return results


def _from(rows: Rows, first: int) -> Any:
    return np.arange(first, rows.y.size)


def _decayed(parts: list[PairMoments], half_life: float) -> PairMoments:
    """The merge of blocks' moments; the weight of a block halves every ``half_life`` blocks."""
    total = parts[0]
    for part in parts[1:]:
        kept = total if np.isinf(half_life) else total.scale(2 ** (-1 / half_life))
        total = kept.merge(part)
    return total


def _choice(moments: PairMoments, prior: Float, X: Any, held_out: Rows) -> tuple[float, bool]:
    """Penalty relative to the trace, and whether its centre is the prior, of the best AUC."""
    loss = moments.quadratic(None)
    best: tuple[float, float, bool] = (-1.0, 0.0, True)
    for with_prior in (True, False):
        for penalty, w in zip(RELATIVE, centres(loss, prior, RELATIVE, with_prior), strict=True):
            best = max(best, (_auc(held_out.y, X @ w), penalty, with_prior))
    return best[1:]


def _auc(y: Bool, scores: Float) -> float:
    return round(100 * float(roc_auc_score(y, scores)), 4)
