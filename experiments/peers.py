"""Other learners, tuned on the training half of raw tables, and their results in a file.

Each learner is given typed columns: numbers, categories, and of times the days, hour and weekday.
It chooses its setting and its number of rounds by the AUC of held-out training rows (5 folds of at
most 5,000 rows, else a fifth), and is fitted again to the whole training half. One thread.

    python -m experiments.peers --data DIR --results FILE [--tables NAME ...] [--peers NAME ...]

appends one JSON object a run, and leaves out runs whose results the file has. The learners are
installed apart from the project: ``pip install catboost interpret-core lightgbm xgboost
scikit-learn pandas``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegressionCV  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from sklearn.model_selection import StratifiedKFold  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import (  # type: ignore[import-untyped]
    OneHotEncoder,
    QuantileTransformer,
    SplineTransformer,
)

from experiments.peer_tables import CLOSED, TABLES, PeerTable

_MISSING = ["", "?", "NA", "NULL", "NaN", "nan", "Select", "Unknown"]
_ROUNDS, _PATIENCE, _FEW_ROWS, _CATEGORIES = 2000, 50, 5000, 63


@dataclass(frozen=True)
class Typed:
    """Typed columns of both halves.

    Parameters
    ----------
    train, test
        Columns of floats, and of text with None where it is missing.
    y, answers
        True for positive rows of the halves.
    words
        Names of the columns of text.
    codes
        Names of the columns of numbers that are codes.
    """

    train: pd.DataFrame
    test: pd.DataFrame
    y: np.ndarray
    answers: np.ndarray
    words: list[str]
    codes: list[str]

    @classmethod
    def of(cls, table: PeerTable, data: Path, seed: int) -> Typed:
        """The typed columns of a split; the training half chooses the types."""
        halves = list(table.halves(data, seed))
        y, answers = (half[table.label].to_numpy() == table.positive for half in halves)
        unused = [name for name in (table.label, table.group) if name]
        halves = [half.drop(columns=unused).reset_index(drop=True) for half in halves]
        words = []
        for name in map(str, halves[0]):
            if name in table.times:
                halves = [_with_times(half, name) for half in halves]
                continue
            columns = [half[name].str.strip() for half in halves]
            columns = [column.where(~column.isin(_MISSING)) for column in columns]
            numbers = [pd.to_numeric(column, errors="coerce") for column in columns]
            if numbers[0].notna().sum() == columns[0].notna().sum():
                halves = [half.assign(**{name: n}) for half, n in zip(halves, numbers, strict=True)]
            else:
                words.append(name)
                texts = [column.astype(object).where(column.notna(), None) for column in columns]
                halves = [half.assign(**{name: t}) for half, t in zip(halves, texts, strict=True)]
        train, test = halves
        return cls(train, test, y, answers, words, [c for c in table.codes if c not in words])

    def categories(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The halves with text as pandas categories of the training half."""
        train, test = self.train.copy(), self.test.copy()
        for name in self.words:
            kinds = pd.CategoricalDtype(sorted(train[name].dropna().unique()))
            known = test[name].where(test[name].isin(kinds.categories))
            train[name], test[name] = train[name].astype(kinds), known.astype(kinds)
        return train, test

    def folds(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows that train and rows that are held out."""
        folds = list(StratifiedKFold(5, shuffle=True, random_state=0).split(self.train, self.y))
        return folds if self.y.size <= _FEW_ROWS else folds[:1]


def _with_times(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    frame = frame.copy()
    times = pd.to_datetime(frame.pop(name), utc=True, errors="coerce")
    since = times - pd.Timestamp(0, tz="UTC")
    frame[name] = since / pd.Timedelta(days=1)
    frame[f"{name} hour"], frame[f"{name} weekday"] = times.dt.hour, times.dt.weekday
    return frame


# The scores of the test half, and the setting that was chosen.
Fitted = tuple[np.ndarray, str]
Held = tuple[np.ndarray, np.ndarray]
# Fits one setting; with held-out rows it stops early and returns its AUC and rounds.
Round = Callable[[Mapping[str, Any], np.ndarray, np.ndarray | None, int], tuple[Any, float, int]]


def _tuned(typed: Typed, settings: Sequence[Mapping[str, Any]], fit: Round) -> tuple[Any, str]:
    """The model of the best setting, fitted to all training rows."""
    best: tuple[float, Mapping[str, Any], int] | None = None
    folds = typed.folds()
    for setting in settings:
        held = [fit(setting, train, out, _ROUNDS)[1:] for train, out in folds]
        auc = float(np.mean([a for a, _ in held]))
        rounds = max(
            1, round(float(np.mean([r for _, r in held])) * len(typed.y) / len(folds[0][0]))
        )
        if best is None or auc > best[0]:
            best = auc, setting, rounds
    assert best is not None, "settings are given"
    _, setting, rounds = best
    return fit(setting, np.arange(typed.y.size), None, rounds)[0], f"{setting}, {rounds} rounds"


def lightgbm(typed: Typed) -> Fitted:
    """LightGBM with categories."""
    import lightgbm as lgb

    train, test = (half.rename(columns=_plain(typed.train)) for half in typed.categories())
    fixed = {"objective": "binary", "metric": "auc", "verbose": -1, "num_threads": 1, "seed": 0}

    def fit(setting: Mapping[str, Any], rows: Any, out: Any, rounds: int) -> tuple[Any, float, int]:
        data = lgb.Dataset(train.iloc[rows], typed.y[rows])
        if out is None:
            return lgb.train({**fixed, **setting}, data, rounds), 0.0, rounds
        held = lgb.Dataset(train.iloc[out], typed.y[out], reference=data)
        stop = lgb.early_stopping(_PATIENCE, verbose=False)
        model = lgb.train({**fixed, **setting}, data, rounds, valid_sets=[held], callbacks=[stop])
        return model, model.best_score["valid_0"]["auc"], model.best_iteration

    common = {"learning_rate": 0.05, "feature_fraction": 0.8}
    settings = [
        {**common, "num_leaves": leaves, "min_data_in_leaf": least}
        for leaves in (7, 31)
        for least in (20, 100)
    ]
    model, chosen = _tuned(typed, settings, fit)
    return np.asarray(model.predict(test)), chosen


def xgboost(typed: Typed) -> Fitted:
    """XGBoost with categories."""
    import xgboost as xgb

    train, test = typed.categories()
    fixed = {"objective": "binary:logistic", "eval_metric": "auc", "nthread": 1, "seed": 0}

    def matrix(frame: pd.DataFrame, y: Any = None) -> Any:
        return xgb.DMatrix(frame, y, enable_categorical=True)

    def fit(setting: Mapping[str, Any], rows: Any, out: Any, rounds: int) -> tuple[Any, float, int]:
        data, given = matrix(train.iloc[rows], typed.y[rows]), {**fixed, **setting}
        if out is None:
            return xgb.train(given, data, rounds), 0.0, rounds
        held = [(matrix(train.iloc[out], typed.y[out]), "held")]
        model = xgb.train(
            *(given, data, rounds, held),
            early_stopping_rounds=_PATIENCE,
            verbose_eval=False,
        )
        return model, model.best_score, model.best_iteration + 1

    common = {"learning_rate": 0.05, "colsample_bytree": 0.8, "subsample": 0.8}
    settings = [
        {**common, "max_depth": depth, "min_child_weight": least}
        for depth in (3, 6)
        for least in (1, 20)
    ]
    model, chosen = _tuned(typed, settings, fit)
    return np.asarray(model.predict(matrix(test))), chosen


def catboost(typed: Typed) -> Fitted:
    """CatBoost; text and codes are named to it as categories."""
    from catboost import CatBoostClassifier, Pool  # type: ignore[import-not-found]

    names = [*typed.words, *typed.codes]
    train, test = typed.train.copy(), typed.test.copy()
    for name in names:
        for half in (train, test):
            half[name] = half[name].astype(object).where(half[name].notna(), "").astype(str)
    rate = 0.05 if typed.y.size <= 20_000 else 0.1

    def fit(setting: Mapping[str, Any], rows: Any, out: Any, rounds: int) -> tuple[Any, float, int]:
        model = CatBoostClassifier(
            iterations=rounds,
            learning_rate=rate,
            eval_metric="AUC",
            thread_count=1,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            **setting,
        )
        data = Pool(train.iloc[rows], typed.y[rows].astype(int), cat_features=names)
        if out is None:
            return model.fit(data), 0.0, rounds
        held = Pool(train.iloc[out], typed.y[out].astype(int), cat_features=names)
        model.fit(data, eval_set=held, early_stopping_rounds=_PATIENCE)
        return model, model.get_best_score()["validation"]["AUC"], model.get_best_iteration() + 1

    model, chosen = _tuned(typed, [{"depth": 4}, {"depth": 6}], fit)
    return model.predict_proba(test)[:, 1], chosen


def explainable(typed: Typed) -> Fitted:
    """The explainable boosting machine with its defaults, of 4 bags.

    Of text, the most frequent values are categories: of thousands it takes more than ten minutes.
    """
    from interpret.glassbox import (  # type: ignore[import-not-found]
        ExplainableBoostingClassifier,
    )

    train, test = typed.train.copy(), typed.test.copy()
    for name in typed.words:
        frequent = train[name].value_counts().index[:_CATEGORIES]
        for half in (train, test):
            half[name] = half[name].where(half[name].isin(frequent) | half[name].isna(), "other")
    types = ["nominal" if name in typed.words else "continuous" for name in train]
    model = ExplainableBoostingClassifier(
        feature_types=types, outer_bags=4, n_jobs=1, random_state=0
    )
    model.fit(train, typed.y)
    return model.predict_proba(test)[:, 1], f"defaults, 4 bags, {_CATEGORIES} categories"


def splines(typed: Typed) -> Fitted:
    """Cubic splines of ranks and one-hot categories, and logistic regression."""
    few = [c for c in typed.train if c not in typed.words and typed.train[c].nunique() <= 16]
    words = [*typed.words, *few]
    numbers = [c for c in typed.train if c not in words]
    shape = make_pipeline(
        SimpleImputer(strategy="median", add_indicator=True),
        QuantileTransformer(random_state=0),
        SplineTransformer(12, sparse_output=True),
    )
    coded = OneHotEncoder(min_frequency=3, handle_unknown="infrequent_if_exist")
    features = ColumnTransformer([("numbers", shape, numbers), ("words", coded, words)])
    learner = LogisticRegressionCV(
        Cs=list(np.logspace(-3, 2, 6)),
        l1_ratios=(0.0,),
        scoring="roc_auc",
        cv=5,
        max_iter=300,
        use_legacy_attributes=False,
    )
    halves = [half.astype(dict.fromkeys(words, str)) for half in (typed.train, typed.test)]
    model = make_pipeline(features, learner).fit(halves[0], typed.y)
    return model.decision_function(halves[1]), f"C {learner.C_:.3g}"


def _plain(frame: pd.DataFrame) -> dict[str, str]:
    return {str(name): f"c{place}" for place, name in enumerate(frame)}


PEERS: Mapping[str, Callable[[Typed], Fitted]] = {
    "LightGBM": lightgbm,
    "XGBoost": xgboost,
    "splines + logistic regression": splines,
    "CatBoost": catboost,
    "EBM": explainable,
}
_PACKAGES = {
    "LightGBM": "lightgbm",
    "XGBoost": "xgboost",
    "splines + logistic regression": "scikit-learn",
    "CatBoost": "catboost",
    "EBM": "interpret-core",
}


def runs(tables: Mapping[str, PeerTable]) -> Iterator[tuple[str, int]]:
    """Tables and seeds: each table's first split first."""
    for place in range(max((len(table.seeds) for table in tables.values()), default=0)):
        for name, table in tables.items():
            if place < len(table.seeds):
                yield name, table.seeds[place]


def measured(table: PeerTable, data: Path, seed: int, peer: str) -> dict[str, Any]:
    """Test AUC in percent, CPU seconds and the setting of a learner on one split."""
    typed = Typed.of(table, data, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scores, setting = PEERS[peer](typed)
    seconds = time.process_time() - began
    auc = 100 * float(roc_auc_score(typed.answers, scores))
    version = importlib.metadata.version(_PACKAGES[peer])
    return {
        "auc": round(auc, 3),
        "seconds": round(seconds, 1),
        "setting": setting,
        "version": version,
    }


def done(results: Path) -> list[dict[str, Any]]:
    """The results of a file; an empty list without it."""
    if not results.exists():
        return []
    return [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]


def complete(
    results: Path,
    data: Path,
    names: Sequence[str],
    learners: Sequence[str],
    measure: Callable[[PeerTable, Path, int, str], dict[str, Any]],
) -> None:
    """Append the runs of tables and learners that a file of results lacks."""
    tables = {name: {**TABLES, **CLOSED}[name] for name in names}
    have = {(row["table"], row["seed"], row["learner"]) for row in done(results)}
    for name, seed in runs(tables):
        for learner in learners:
            if (name, seed, learner) not in have:
                row = {"table": name, "seed": seed, "learner": learner}
                row |= measure(tables[name], data, seed, learner)
                with results.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")


def main() -> None:
    """Measure the runs that a file of results lacks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--results", type=Path, required=True, help="file of results to append to")
    parser.add_argument("--tables", nargs="+", choices=[*TABLES, *CLOSED], default=list(TABLES))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    options = parser.parse_args()
    complete(options.results, options.data, options.tables, options.peers, measured)


if __name__ == "__main__":
    main()
