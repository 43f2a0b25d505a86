"""Scores of a ranker in this process, beside LightGBM and scikit-learn on the same rows.

The table has 13 numeric columns with missing values and 26 columns of text, as click logs have.
The peers are a pipeline of scikit-learn (imputed, standardised and one-hot columns, logistic
regression) and LightGBM on numbers and codes of categories. Scores of single rows are timed one by
one, of warm processes: ours from a dict; scikit-learn's from a data frame of one row, its only form
with names; LightGBM's from an array of 39 numbers, into which no text has to be turned. Prints a
JSON object for each: microseconds of a single row (median and 99th percentile), and rows a second
of the whole table, which each takes as it likes best (Arrow, pandas, array). A second ranker of
ours has six pairs of columns and the leaves of 100 trees too.

    python -m benchmarks.serving [--rows 1000000] [--single 3000]
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

NUMBERS = [f"I{k}" for k in range(1, 14)]
TEXTS = [f"C{k}" for k in range(1, 27)]
FITTED = 20_000
PAIRS = [["I1", "I2"], ["I1", "I3"], ["I2", "I3"], ["I4", "I5"], ["I6", "I7"], ["I8", "I9"]]
TREES = {"grow": {"numTrees": 100, "numLeaves": 15}}


def made(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns: dict[str, Any] = {}
    for k, name in enumerate(NUMBERS):
        values = np.exp(rng.normal(size=rows) * (1 + k % 3))
        columns[name] = pa.array(values, mask=rng.random(rows) < 0.1)
    for k, name in enumerate(TEXTS):
        codes = (rng.pareto(0.8, rows) * 3).astype(np.int64) % (10 * (k + 1) ** 2)
        words = np.array([f"{k:02d}{code:06x}" for code in range(10 * (k + 1) ** 2)])
        columns[name] = pa.array(words[codes])
    return pa.table(columns)


def labels(table: pa.Table) -> np.ndarray:
    rng = np.random.default_rng(1)
    lengths = table["C1"].to_pandas().str[-1].map(lambda c: int(c, 16)).to_numpy()
    score = np.log(table["I1"].to_pandas().fillna(1.0).to_numpy()) + 0.2 * lengths
    return np.asarray(score + rng.logistic(size=len(table)) > 3)


def single(score: Callable[[Any], Any], rows: Sequence[Any]) -> dict[str, float]:
    """Microseconds of a warm call: median and 99th percentile."""
    for row in rows[:200]:
        score(row)
    times = []
    for row in rows:
        start = time.perf_counter_ns()
        score(row)
        times.append((time.perf_counter_ns() - start) / 1000)
    median, high = np.percentile(times, [50, 99])
    return {"median us": round(float(median), 1), "p99 us": round(float(high), 1)}


def many(score: Callable[[Any], Any], rows: Any, count: int) -> dict[str, float]:
    """Rows a second of a whole table, the best of three."""
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        score(rows)
        best = min(best, time.perf_counter() - start)
    return {"rows/s": round(count / best), "s": round(best, 2)}


def published(table: pa.Table, y: np.ndarray) -> dict[str, str]:
    """Rankers that Spark trained on some rows."""
    from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
    from spark_auc.spark.data.session import session

    home = Path(tempfile.mkdtemp())
    conf = {"spark.master": "local[1]", "spark.ui.enabled": "false"}
    paths = {}
    with session("serving", conf) as spark:
        rows = spark.createDataFrame(table.append_column("label", pa.array(y)))
        for who, blocks in (
            ("spark_auc", {}),
            ("spark_auc, pairs and trees", {"pairs": PAIRS, "trees": TREES}),
        ):
            recipe = FeatureRecipe(spline=NUMBERS, tokens=TEXTS, auto=False, **blocks)
            paths[who] = str(home / f"ranker{len(paths)}")
            RankerPipeline([recipe, MBAClassifier(regParam=1e-3)]).fit(rows).save(paths[who])
    return paths


def ours(who: str, path: str, table: pa.Table, rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    import spark_auc

    start = time.perf_counter()
    ranker = spark_auc.load(path)
    ranker.score(rows[0])
    loaded = round(time.perf_counter() - start, 2)
    told = single(ranker.score, rows) | many(ranker.score, table, len(table))
    some = ranker.score(table.slice(0, len(rows)))
    assert some.tolist() == [ranker.score(row) for row in rows]
    return {"who": who, "load s": loaded, **told}


def scikit_learn(fit: pd.DataFrame, y: np.ndarray, frame: pd.DataFrame, few: int) -> dict[str, Any]:
    from sklearn.compose import make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    model = make_pipeline(
        make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), NUMBERS),
            (OneHotEncoder(handle_unknown="ignore"), TEXTS),
        ),
        LogisticRegression(max_iter=200),
    ).fit(fit, y)
    rows = [frame.iloc[k : k + 1] for k in range(few)]
    told = single(model.decision_function, rows) | many(model.decision_function, frame, len(frame))
    return {"who": "scikit-learn", **told}


def lightgbm(fit: pd.DataFrame, y: np.ndarray, frame: pd.DataFrame, few: int) -> dict[str, Any]:
    import lightgbm as library

    kinds = {name: pd.CategoricalDtype(fit[name].unique()) for name in TEXTS}

    def coded(rows: pd.DataFrame) -> np.ndarray:
        codes = {name: rows[name].astype(kinds[name]).cat.codes for name in TEXTS}
        return np.asarray(rows.assign(**codes)[NUMBERS + TEXTS], float)

    data = library.Dataset(coded(fit), y, categorical_feature=[*range(13, 39)])
    booster = library.train({"verbose": -1, "num_threads": 1, "num_leaves": 15}, data, 100)
    X = coded(frame.iloc[:few])
    rows = [X[k : k + 1] for k in range(few)]
    told = single(lambda row: booster.predict(row, num_threads=1), rows)
    told |= many(lambda rows: booster.predict(coded(rows), num_threads=1), frame, len(frame))
    return {"who": "LightGBM, 100 trees", **told}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--single", type=int, default=3_000)
    options = parser.parse_args()
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    fit, table = made(FITTED, 0), made(options.rows, 1)
    y = labels(fit)
    rows = table.slice(0, options.single).to_pylist()
    for who, path in published(fit, y).items():
        print(json.dumps(ours(who, path, table, rows)), flush=True)
    frames = fit.to_pandas(), y, table.to_pandas(), options.single
    print(json.dumps(scikit_learn(*frames)), flush=True)
    print(json.dumps(lightgbm(*frames)), flush=True)


if __name__ == "__main__":
    main()
