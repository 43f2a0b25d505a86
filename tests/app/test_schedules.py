"""The examples of schedulers for the job retrain: what they do after each exit code."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from tests.image.kubernetes import documents

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/schedules"
CODES = (0, 1, 2, 3, 4, 5, 75)
RETRIED = {1, 75}


@pytest.fixture
def script(tmp_path, monkeypatch):
    """Run retrain.sh with a job that ends with these codes; its runs, pauses and last code."""
    for name in ("spark-auc", "sleep"):
        (tmp_path / name).write_text(
            f'#!/bin/sh\necho "$@" >> {name}.log\n'
            "next=$(head -n 1 codes); sed -i 1d codes; exit $next\n"
            if name == "spark-auc"
            else f'#!/bin/sh\necho "$@" >> {name}.log\n'
        )
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    def ended(*codes):
        for name in ("spark-auc.log", "sleep.log"):
            (tmp_path / name).write_text("")
        (tmp_path / "codes").write_text("".join(f"{code}\n" for code in codes))
        command = [EXAMPLES / "retrain.sh", "a b.yaml", "retrain.dryRun=true"]
        code = subprocess.run(command, cwd=tmp_path, check=False).returncode
        logs = [
            (tmp_path / f"{name}.log").read_text().splitlines() for name in ("spark-auc", "sleep")
        ]
        return code, *logs

    return ended


def test_the_script_of_cron(script):
    for code in CODES:
        runs = 2 if code in RETRIED else 1
        ended, started, pauses = script(code, 0)
        assert (ended, len(started), len(pauses)) == (0 if runs > 1 else code, runs, runs - 1)
    assert started[0] == "retrain --config a b.yaml retrain.dryRun=true"
    assert script(75, 1, 5, 0)[:1] == (5,)
    ended, started, pauses = script(*[75] * 9)
    assert (ended, len(started), pauses) == (75, 4, ["60", "600", "3600"])


def test_the_line_of_cron_runs_the_script(tmp_path):
    (line,) = [
        line for line in (EXAMPLES / "crontab").read_text().splitlines() if not line.startswith("#")
    ]
    *times, command = line.split(" ", 5)
    assert times == ["15", "3", "*", "*", "*"]
    # A percent sign is a new line in a crontab.
    assert "%" not in command
    script = tmp_path / "retrain.sh"
    script.write_text("#!/bin/sh\necho result; echo progress >&2; exit 5\n")
    script.chmod(0o755)
    here = command.replace("/srv/ranker", str(tmp_path))
    assert subprocess.run(["sh", "-c", here], check=False).returncode == 5
    assert (tmp_path / "results.jsonl").read_text() == "result\n"
    assert (tmp_path / "retrain.log").read_text() == "progress\n"
    with subprocess.Popen(
        ["flock", str(tmp_path / "retrain.lock"), "cat"], stdin=-1, stdout=-1
    ) as job:
        job.stdin.write(b"1")
        job.stdin.flush()
        job.stdout.read1()
        assert subprocess.run(["sh", "-c", here], check=False).returncode == 75
        job.stdin.close()


def action(rules, code):
    """What Kubernetes does after an exit code: the first rule that matches, else Count."""
    for rule in rules:
        if on := rule.get("onExitCodes"):
            assert set(on) == {"containerName", "operator", "values"}
            assert 0 not in on["values"]
            if (code in on["values"]) == (on["operator"] == "In"):
                return rule["action"]
    return "Count"


@pytest.mark.parametrize("name", ["retrain", "train"])
def test_the_jobs_of_kubernetes(name):
    """What follows each exit code; tests/image has the other fields."""
    made = documents(name)
    spec = (
        made["Job"]["spec"] if name == "train" else made["CronJob"]["spec"]["jobTemplate"]["spec"]
    )
    pod = spec["template"]["spec"]
    # Kubernetes refuses podFailurePolicy with another restartPolicy.
    assert pod["restartPolicy"] == "Never"
    (container,) = pod["containers"]
    rules = spec["podFailurePolicy"]["rules"]
    assert {rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule} == {
        container["name"]
    }
    codes = [code for code in CODES if code and (code != 5 or name == "retrain")]
    found = {code: action(rules, code) for code in codes}
    assert found == {code: "Count" if code in RETRIED else "FailJob" for code in codes}
    assert spec["backoffLimit"] > 0
    # A job that SIGTERM ended, though no node was drained.
    assert action(rules, 143) == "Count"


def test_the_cronjob_of_kubernetes():
    spec = documents("retrain")["CronJob"]["spec"]
    assert (spec["schedule"], spec["timeZone"]) == ("15 3 * * *", "Etc/UTC")
    assert spec["concurrencyPolicy"] == "Forbid"


class FailedError(Exception):
    pass


class FailedForeverError(Exception):
    pass


@pytest.fixture
def dag(monkeypatch):
    """The DAG's arguments, and its task as a function, with Airflow replaced."""
    made = SimpleNamespace(tasks=[])

    def as_dag(**arguments):
        made.arguments = arguments
        return lambda function: function

    def task(function):
        def bound():
            made.tasks.append(function)

        return bound

    exceptions = ModuleType("airflow.sdk.exceptions")
    exceptions.AirflowException = FailedError
    exceptions.AirflowFailException = FailedForeverError
    sdk = ModuleType("airflow.sdk")
    sdk.dag, sdk.task = as_dag, task
    for name, module in (
        ("airflow", ModuleType("airflow")),
        ("airflow.sdk", sdk),
        ("airflow.sdk.exceptions", exceptions),
    ):
        monkeypatch.setitem(sys.modules, name, module)
    spec = importlib.util.spec_from_file_location("airflow_dag", EXAMPLES / "airflow_dag.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made.module = module
    return made


def test_the_dag_of_airflow(dag):
    (run,) = dag.tasks
    assert dag.arguments["max_active_runs"] == 1
    assert dag.arguments["catchup"] is False
    assert dag.arguments["default_args"]["retries"] > 0
    for code in CODES:
        printed = json.dumps({"decision": "kept", "message": "why"})
        end = f"import sys; print('noise'); print({printed!r}); sys.exit({code})"
        dag.module.COMMAND[:] = [sys.executable, "-c", end]
        if not code:
            assert run()["decision"] == "kept"
            continue
        with pytest.raises(FailedError if code in RETRIED else FailedForeverError) as error:
            run()
        assert str(error.value) == f"exit code {code}: why"
    dag.module.COMMAND[:] = [sys.executable, "-c", "import sys; sys.exit(1)"]
    with pytest.raises(FailedError, match="no result"):
        run()
