"""AUC of the jobs prepare, train and evaluate on real data, compared with reference values.

The jobs run under spark-submit. Needs SPARK_AUC_DATA, a directory with the LIBSVM sets and the
Criteo sample. The reference values are exact all-pairs ridge on the same split with the same
penalty, computed without this package.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
DATA = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()

# name: (dimension, lambda2 on standardised columns, reference AUC in percent)
SETS = {
    "a9a": (123, 1e-4, 89.98),
    "w1a": (300, 10, 92.50),
    "splice_scale": (60, 1, 93.15),
    "ijcnn1": (22, 0.3, 93.5),
}
CRITEO_PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1)


def job(name: str, config: dict, work: Path) -> dict:
    path = work / f"{name}.yaml"
    path.write_text(json.dumps({name: config}))
    submit = Path(sys.executable).parent / "spark-submit"
    script = str(ROOT / "jobs" / f"{name}.py")
    defaults = str(ROOT / "conf" / "spark-defaults.conf")
    command = [str(submit), "--properties-file", defaults, script, "--config", str(path)]
    env = os.environ | {"PYSPARK_PYTHON": sys.executable}
    process = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=env, check=False
    )
    if process.returncode:
        sys.exit(f"{' '.join(command)}\n{process.stdout}\n{process.stderr}")
    return json.loads(process.stdout.splitlines()[-1])


def halves(name: str, dimension: int, work: Path) -> tuple[Path, Path]:
    """The official files, or scikit-learn's stratified halves without an official test file."""
    train, test = DATA / name, DATA / f"{name}.t"
    if test.exists():
        return train, test
    from sklearn.datasets import dump_svmlight_file, load_svmlight_file
    from sklearn.model_selection import train_test_split

    X, y = load_svmlight_file(str(train), n_features=dimension)
    parts = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    paths = work / f"{name}.train", work / f"{name}.test"
    for path, X_part, y_part in zip(paths, parts[:2], parts[2:], strict=True):
        dump_svmlight_file(X_part, y_part, str(path), zero_based=False)
    return paths


def libsvm(name: str, work: Path) -> dict:
    dimension, penalty, reference = SETS[name]
    for part, path in zip(("train", "test"), halves(name, dimension, work), strict=True):
        source = {"layout": "libsvm", "path": str(path), "dimension": dimension}
        job("prepare", {"input": source, "output": {"path": str(work / name / part)}}, work)
    auc = fit(work / name / "train", work / name / "test", penalty, True, work / name)
    return {"set": name, "lambda2": penalty, "auc": auc, "reference": reference}


def fit(train: Path, test: Path, penalty: float, standardization: bool, work: Path) -> float:
    config = {
        "data": {"path": f"{train}/part=train"},
        "training": {"regParam": penalty, "standardization": standardization},
        "output": {"path": str(work / "model"), "replace": True},
    }
    job("train", config, work)
    part = "part=test" if test == train else "part=train"
    config = {
        "model": str(work / "model"),
        "data": {"path": f"{test}/{part}"},
        "output": {"path": str(work / "evaluation"), "replace": True},
    }
    return round(100 * job("evaluate", config, work)["auc"], 3)


def criteo(work: Path) -> list[dict]:
    data = work / "criteo"
    job(
        "prepare",
        {
            "input": {
                "layout": "criteo",
                "path": str(DATA / "criteo_80k.tsv"),
                "dimension": 4096,
            },
            "split": {"by": "position", "train": 64000},
            "output": {"path": str(data)},
        },
        work,
    )
    return [
        {
            "set": "criteo_80k",
            "lambda2": penalty,
            "auc": fit(data, data, penalty, False, work),
            "reference": 75.01 if penalty == 1e-4 else None,
        }
        for penalty in CRITEO_PENALTIES
    ]


def main() -> None:
    names = sys.argv[1:] or [*SETS, "criteo"]
    for name in names:
        with tempfile.TemporaryDirectory() as work:
            rows = criteo(Path(work)) if name == "criteo" else [libsvm(name, Path(work))]
        for row in rows:
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
