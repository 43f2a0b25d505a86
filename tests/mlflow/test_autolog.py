"""Our stages under MLflow's autolog, which patches Spark ML: in a process of its own."""

import json
import os
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_params_and_measures_are_logged(tmp_path):
    ended = subprocess.run(
        [sys.executable, "-m", "tests.mlflow.autologged", f"sqlite:///{tmp_path}/store.db"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
    )
    assert ended.returncode == 0, ended.stderr
    *_, last = ended.stdout.splitlines()
    found = json.loads(last)

    one = found["estimator"]
    assert one["tags"]["estimator_name"] == "MBAClassifier"
    assert one["metrics"]["areaUnderROC_rows"] == one["auc"] > 0.7
    # Those of autolog, and what log_model adds to the same run.
    expected = {"featuresCol": "['x', 'y']", "regParam": "0.25", "labelCol": "label"}
    assert expected.items() <= one["params"].items()
    assert one["params"]["stopReason"] == "converged"
    assert one["metrics"]["kkt"] < 1e-6

    many = found["pipeline"]
    assert many["params"]["stages"] == "['SplineBasis', 'MBAClassifier']"
    assert many["params"]["SplineBasis.numKnots"] == "3"
    assert many["params"]["MBAClassifier.regParam"] == "0.5"
    assert many["metrics"] == {"partialAUC_rows": many["partial"]}

    assert found["ranker pipeline"]["tags"]["estimator_name"] == "RankerPipeline"
    assert found["ranker pipeline"]["params"] == {}
    assert ended.stderr.count("will not be autologged") == 3
