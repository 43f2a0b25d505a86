"""The newcomer's command in this process, beside scikit-learn and LightGBM on the same file.

Each run is a process of its own: it reads the file, fits, and scores the rows that it holds out.
``python -m benchmarks.embedded FILE --label COLUMN`` prints a JSON object with the wall and CPU
seconds and the peak memory of each, and their ratios. The peers take what scikit-learn's users
write: one-hot text (at most 50 values), missing numbers as their mean, logistic regression; and
LightGBM with its defaults on the columns as categories.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

_SKLEARN = """
import sys, pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
frame = pd.read_csv(sys.argv[1]).dropna(subset=[sys.argv[2]])
y = frame.pop(sys.argv[2])
y = y == sorted(y.unique())[-1]
X, Z, y, z = train_test_split(frame, y, test_size=0.2, random_state=0)
text = make_column_selector(dtype_exclude="number")
numbers = make_pipeline(SimpleImputer(), StandardScaler())
columns = make_column_transformer(
    (numbers, make_column_selector(dtype_include="number")),
    (OneHotEncoder(max_categories=50, handle_unknown="infrequent_if_exist"), text),
)
model = make_pipeline(columns, LogisticRegression(max_iter=1000)).fit(X, y)
print(roc_auc_score(z, model.decision_function(Z)))
"""
_LIGHTGBM = """
import sys, pandas as pd, lightgbm
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
frame = pd.read_csv(sys.argv[1]).dropna(subset=[sys.argv[2]])
y = frame.pop(sys.argv[2])
y = (y == sorted(y.unique())[-1]).astype(int)
frame = frame.apply(lambda c: c if c.dtype.kind in "ifub" else c.astype("category"))
frame.columns = [f"c{k}" for k in range(frame.shape[1])]
X, Z, y, z = train_test_split(frame, y, test_size=0.2, random_state=0)
model = lightgbm.LGBMClassifier(verbose=-1).fit(X, y)
print(roc_auc_score(z, model.predict_proba(Z)[:, 1]))
"""


def measured(command: list[str]) -> dict[str, Any]:
    """Run a process; its last line, wall and CPU seconds, and peak memory."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    peak = round(after.ru_maxrss / 2**10)
    said = done.stdout.strip().splitlines()[-1]
    return {"said": said, "wall_s": round(wall, 2), "cpu_s": round(cpu, 2), "largest_mib": peak}


def main() -> None:
    """Measure, and print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--label", required=True)
    parser.add_argument("--positive")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    runs: dict[str, list[dict[str, Any]]] = {"spark_auc": [], "sklearn": [], "lightgbm": []}
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory() as directory:
            command = [sys.executable, "-m", "spark_auc", "train", "--data", arguments.file]
            command += ["--label", arguments.label, "--output", os.path.join(directory, "model")]
            command += ["--positive", arguments.positive] if arguments.positive else []
            runs["spark_auc"].append(measured(command))
        for name, script in (("sklearn", _SKLEARN), ("lightgbm", _LIGHTGBM)):
            peer = [sys.executable, "-c", script, arguments.file, arguments.label]
            runs[name].append(measured(peer))
    best = {name: min(found, key=lambda run: run["wall_s"]) for name, found in runs.items()}
    best["spark_auc"]["said"] = str(json.loads(best["spark_auc"]["said"])["auc"])
    wall = best["spark_auc"]["wall_s"]
    ratios = {name: round(wall / run["wall_s"], 2) for name, run in best.items()}
    print(json.dumps({"file": arguments.file, **best, "wall_ratio": ratios}))


if __name__ == "__main__":
    main()
