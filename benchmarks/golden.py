"""Golden results: fits, evaluations and a stream on reference sets, compared bit for bit.

``golden.py write FILE`` stores the weights and AUCs of this checkout; ``golden.py compare FILE``
lists the differences from them, relative to the largest weight. Run both on the same machine,
because the order of summation in BLAS depends on the processor. Needs SPARK_AUC_DATA.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from sklearn.datasets import load_svmlight_file
from sklearn.model_selection import train_test_split

import spark_auc
from benchmarks.measuring import SETTINGS
from spark_auc.app.running import run

DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()
SETS = {
    "a1a": 123,
    "w1a": 300,
    "german.numer_scale": 24,
    "svmguide3": 22,
    "diabetes_scale": 8,
    "fourclass_scale": 2,
    "splice_scale": 60,
    "ijcnn1": 22,
}
# Parameters of each algorithm, set explicitly so that results do not depend on automatic defaults.
ESTIMATORS: dict[str, dict[str, Any]] = {
    "MBAClassifier": {"regParam": 0.1},
    "MBASelector": {"regParams": [1.0, 0.1, 0.01], "elasticNetParams": [0.0, 0.5], "numFolds": 3},
    "RankSVMClassifier": {"regParam": 0.1},
    "OPAUCClassifier": {"regParam": 0.1, "parallelism": "distributed"},
    "SOLAMClassifier": {"stepSize": 0.05, "orderCol": "key"},
    "AdaDSGClassifier": {"stepSize": 0.05, "orderCol": "key"},
    "NSAUCClassifier": {"orderCol": "key"},
}


def halves(name: str, dimension: int, work: Path) -> tuple[Path, Path]:
    """Directories of Parquet files with the stratified halves of the rows."""
    X, y = load_svmlight_file(str(DATA / name), n_features=dimension)
    order = np.arange(y.size)
    paths = []
    for part, rows in zip(
        ("train", "test"),
        train_test_split(order, test_size=0.5, stratify=y, random_state=0),
        strict=True,
    ):
        path = work / name / part
        path.mkdir(parents=True)
        dense = X[rows].toarray()
        for k, part_rows in enumerate(np.array_split(np.arange(rows.size), 3)):
            columns = {f"x{j}": dense[part_rows, j] for j in range(dimension)}
            label = (y[rows][part_rows] == y.max()).astype(float)
            table = pa.table(columns | {"label": label, "key": rows[part_rows]})
            pq.write_table(table, path / f"{k}.parquet")
        paths.append(path)
    return paths[0], paths[1]


def digest(values: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, float).tobytes()).hexdigest()[:16]


def fits(train: DataFrame, test: DataFrame, dimension: int) -> dict[str, Any]:
    results: dict[str, Any] = {}
    columns = [f"x{j}" for j in range(dimension)]
    for name, settings in ESTIMATORS.items():
        estimator = getattr(spark_auc, name)(featuresCol=columns, **settings)
        try:
            model = estimator.fit(train)
        except Exception as error:
            results[name] = {"failure": type(error).__name__}
            continue
        w = model.coefficients.toArray()
        report = spark_auc.evaluate(model.transform(test))
        results[name] = {
            "weights": w.tolist(),
            "bits": digest(w),
            "auc": report.auc,
            "average_precision": report.average_precision,
            "interval": str(report.interval),
        }
    return results


def stream(train: Path, dimension: int, work: Path) -> dict[str, Any]:
    """Run the one-pass job over the files of a directory as a stream."""
    for k, path in enumerate(sorted(train.glob("*.parquet"))):
        os.utime(path, (1.7e9 + 3600 * k, 1.7e9 + 3600 * k))
    schema = ", ".join([f"x{j} double" for j in range(dimension)] + ["label double", "key long"])
    section = {
        "data": {"path": str(train)},
        "columns": {"features": [f"x{j}" for j in range(dimension)]},
        "training": {"regParam": 0.1},
        "output": {"path": str(work / "model")},
        "stream": {
            "checkpoint": str(work / "checkpoint"),
            "schema": schema,
            "maxFilesPerTrigger": 1,
        },
    }
    conf = work / "conf.json"
    conf.write_text(json.dumps({"opauc": section}))
    code = run("opauc", str(conf), [], ["stream"])
    tables = sorted((work / "model").rglob("data/*.parquet"))
    weights = pq.read_table(tables[-1]).sort_by("feature")["weight"].to_numpy()
    return {"code": code, "bits": digest(weights), "weights": weights.tolist()}


def computed(spark: SparkSession, work: Path) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, dimension in SETS.items():
        paths = halves(name, dimension, work)
        train, test = (spark.read.parquet(str(path)) for path in paths)
        results[name] = fits(train, test, dimension)
        print(name, {k: v.get("auc", v) for k, v in results[name].items()}, file=sys.stderr)
    return results


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    messages = []
    for name, results in before.items():
        for name_of_fit, old in results.items():
            new = after.get(name, {}).get(name_of_fit)
            if new == old:
                continue
            if not new or "weights" not in old or "weights" not in new:
                messages.append(f"{name} {name_of_fit}: {str(old)[:80]} -> {str(new)[:80]}")
                continue
            w, v = np.array(old["weights"]), np.array(new["weights"])
            worst = float(np.abs(w - v).max() / np.abs(w).max())
            auc = f", AUC {old['auc']} -> {new['auc']}" if "auc" in old else ""
            messages.append(f"{name} {name_of_fit}: weights differ by {worst:.2g}{auc}")
    return messages


def main() -> None:
    mode, file = sys.argv[1:]
    from spark_auc.spark.data.session import session

    with tempfile.TemporaryDirectory() as directory:
        work = Path(directory)
        with session("golden", SETTINGS) as spark:
            results = computed(spark, work)
        results["a1a"]["stream"] = stream(work / "a1a" / "train", SETS["a1a"], work)
    if mode == "write":
        Path(file).write_text(json.dumps(results))
        print(json.dumps({"written": file, "results": sum(map(len, results.values()))}))
        return
    messages = differences(json.loads(Path(file).read_text()), results)
    print("\n".join(messages), file=sys.stderr)
    print(json.dumps({"results": sum(map(len, results.values())), "differences": len(messages)}))


if __name__ == "__main__":
    main()
