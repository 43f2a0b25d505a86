"""Tuned gradient boosting: LightGBM and XGBoost on raw columns.

Both see the training rows only. The setting and the number of rounds are chosen by the AUC of a
held-out fifth of them, with early stopping; of fewer than `FEW` rows, by the mean AUC of five
folds. The trees are then grown anew from all training rows. The settings were declared before any
was measured. One thread each.

Columns of text are native categories: the `CATEGORIES` most frequent of at least `RARE` training
rows each; all others are one category more. Missing values are missing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from experiments.past_sets import Rows
from spark_auc.core.types import Float, Int

# At least 20 rounds are grown: of small sets, a best AUC before them is noise.
FEWEST, ROUNDS, PATIENCE = 20, 2000, 50
FEW = 5000
CATEGORIES, RARE = 1000, 5

LIGHTGBM: tuple[Mapping[str, Any], ...] = (
    {"num_leaves": 7, "learning_rate": 0.1},
    {"num_leaves": 15, "learning_rate": 0.05},
    {"num_leaves": 31, "learning_rate": 0.05},
    {"num_leaves": 63, "learning_rate": 0.05, "min_data_in_leaf": 50},
    {"num_leaves": 15, "learning_rate": 0.03, "feature_fraction": 0.5, "lambda_l2": 10.0},
    {"num_leaves": 31, "learning_rate": 0.05, "feature_fraction": 0.5, "min_data_in_leaf": 5},
    {
        "num_leaves": 15,
        "learning_rate": 0.05,
        "min_data_in_leaf": 100,
        "feature_fraction": 0.7,
        "cat_smooth": 50.0,
        "cat_l2": 50.0,
    },
    {"num_leaves": 7, "learning_rate": 0.05, "feature_fraction": 0.3, "min_data_in_leaf": 50},
)
XGBOOST: tuple[Mapping[str, Any], ...] = (
    {"max_depth": 3, "eta": 0.1},
    {"max_depth": 4, "eta": 0.05, "min_child_weight": 5},
    {"max_depth": 6, "eta": 0.05},
    {
        "max_depth": 6,
        "eta": 0.05,
        "min_child_weight": 10,
        "colsample_bytree": 0.5,
        "subsample": 0.8,
    },
    {"max_depth": 4, "eta": 0.03, "colsample_bytree": 0.5, "lambda": 10.0},
    {"max_depth": 8, "eta": 0.05, "min_child_weight": 20, "colsample_bytree": 0.7},
    {"max_depth": 5, "eta": 0.05, "min_child_weight": 20, "lambda": 50.0, "max_cat_to_onehot": 8},
    {"max_depth": 2, "eta": 0.1, "colsample_bytree": 0.3},
)


@dataclass(frozen=True)
class Scored:
    """A fitted method: its scores of raw columns, and what was chosen.

    Parameters
    ----------
    scores
        Scores of rows.
    chosen
        Settings, as text.
    held_out
        AUC in percent on the held-out training rows, of the chosen settings.
    """

    scores: Callable[[Rows], Float]
    chosen: str
    held_out: float


@dataclass(frozen=True)
class Codes:
    """Categories of the columns of text, in order of frequency in the training rows."""

    categories: Mapping[str, pd.Index[str]]

    @classmethod
    def of(cls, frame: pd.DataFrame) -> Codes:
        """The frequent categories of training rows."""
        chosen = {}
        for name in frame.select_dtypes("object").columns:
            counts = frame[name].value_counts()
            ordered = (
                counts[counts >= RARE].sort_index().sort_values(ascending=False, kind="stable")
            )
            chosen[str(name)] = ordered.index[:CATEGORIES]
        return cls(chosen)

    def encoded(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Columns of numbers: categories count from 1, 0 is any other; NaN if missing."""
        columns: dict[str, object] = {str(name): series for name, series in frame.items()}
        for name, categories in self.categories.items():
            codes = categories.get_indexer(pd.Index(frame[name])) + 1.0
            columns[name] = np.where(frame[name].isna(), np.nan, codes)
        return pd.DataFrame(columns)


def inner(rows: Rows, seed: int) -> list[tuple[Int, Int]]:
    """Fitted and held-out rows of each fold that chooses settings."""
    folds = rows.folds(seed)
    return folds if rows.y.size < FEW else folds[:1]


def lightgbm(rows: Rows, seed: int) -> Scored:
    """LightGBM with the best of the settings `LIGHTGBM`."""
    library: Any = import_module("lightgbm")

    codes = Codes.of(rows.frame)
    X, y = codes.encoded(rows.frame), rows.y.astype(float)
    # Settings share the binned rows, and differ in the smallest leaf.
    shared = {"feature_pre_filter": False, "num_threads": 1, "verbose": -1}
    names = list(codes.categories)
    data = library.Dataset(X, y, params=shared, categorical_feature=names, free_raw_data=False)
    fixed = {**shared, "objective": "binary", "metric": "auc", "seed": seed}
    best = -1.0, 0, 0
    for k, setting in enumerate(LIGHTGBM):
        stop = library.early_stopping(PATIENCE, verbose=False)
        folds = inner(rows, seed)
        curves = library.cv({**fixed, **setting}, data, ROUNDS, folds=folds, callbacks=[stop])
        best = max(best, _best(curves["valid auc-mean"], k))
    auc, k, rounds = best
    booster = library.train({**fixed, **LIGHTGBM[-k]}, data, rounds)
    chosen = f"{_text(LIGHTGBM[-k])}, {rounds} rounds"
    return Scored(lambda test: booster.predict(codes.encoded(test.frame)), chosen, auc)


def xgboost(rows: Rows, seed: int) -> Scored:
    """XGBoost with the best of the settings `XGBOOST`."""
    library: Any = import_module("xgboost")

    codes = Codes.of(rows.frame)
    y = rows.y.astype(float)

    def data(frame: pd.DataFrame, labels: Any = None) -> Any:
        columns = codes.encoded(frame)
        for name, categories in codes.categories.items():
            known = pd.CategoricalDtype(pd.RangeIndex(categories.size + 1))
            columns[name] = columns[name].astype("Int64").astype(known)
        return library.DMatrix(columns, labels, enable_categorical=True, nthread=1)

    train = data(rows.frame, y)
    fixed = {"objective": "binary:logistic", "eval_metric": "auc", "nthread": 1}
    fixed |= {"tree_method": "hist", "seed": seed}
    best = -1.0, 0, 0
    for k, setting in enumerate(XGBOOST):
        curves = library.cv(
            {**fixed, **setting},
            train,
            ROUNDS,
            folds=inner(rows, seed),
            early_stopping_rounds=PATIENCE,
            as_pandas=False,
        )
        best = max(best, _best(curves["test-auc-mean"], k))
    auc, k, rounds = best
    booster = library.train({**fixed, **XGBOOST[-k]}, train, rounds)
    chosen = f"{_text(XGBOOST[-k])}, {rounds} rounds"
    return Scored(lambda test: booster.predict(data(test.frame)), chosen, auc)


METHODS: Mapping[str, Callable[[Rows, int], Scored]] = {"LightGBM": lightgbm, "XGBoost": xgboost}


def measured(fit: Callable[[Rows, int], Scored], train: Rows, test: Rows, seed: int) -> Any:
    """Test AUC in percent, CPU seconds of the fit, and the choices; the fit has no test rows."""
    began = time.process_time()
    fitted = fit(train, seed)
    seconds = time.process_time() - began
    return {
        "auc": round(100 * float(roc_auc_score(test.y, fitted.scores(test))), 4),
        "seconds": round(seconds, 2),
        "heldOut": round(fitted.held_out, 4),
        "chosen": fitted.chosen,
    }


def _best(aucs: Sequence[float], k: int) -> tuple[float, int, int]:
    """AUC in percent of curves that end at their best, setting negated, and number of rounds."""
    return 100 * float(aucs[-1]), -k, max(FEWEST, len(aucs))


def _text(setting: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in setting.items())
