"""Help of every key and versions, before Spark is loaded."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

import spark_auc
from spark_auc.app.cli import main
from spark_auc.app.config.jobs import Configuration
from spark_auc.app.config.sections import sections_of
from spark_auc.app.known import COMMANDS, JOBS


def shown(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    return capsys.readouterr().out


def keys(section):
    """Dotted names of all keys of a section, without `described`."""
    names = set()
    for name, field in section.model_fields.items():
        key = field.alias or name
        names.add(key)
        for part in sections_of(field.annotation):
            names |= {f"{key}.{inner}" for inner in keys(part)}
    return names


@pytest.mark.parametrize("job", JOBS)
def test_help_lists_every_key_once(job, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    _, listed = shown(capsys, job, "--help").split(f"\nkeys of the section {job}:\n")
    entries = listed.replace("\n    ", " ")
    named = set(re.findall(rf"^{job}\.(\S+?)[: ]", entries, re.M))
    again = rf"^{job}\.(\S+?): .*; keys as of {job}\.(\S+)$"
    repeated = dict(re.findall(again, entries, re.M))
    (section,) = sections_of(Configuration.model_fields[job].annotation)
    wanted = keys(section)
    assert named <= wanted
    for missing in wanted - named:
        first = next(name for name in repeated if missing.startswith(f"{name}."))
        assert missing.replace(first, repeated[first], 1) in named
    assert max(map(len, listed.splitlines())) <= 78
    assert all(line.strip() for line in listed.splitlines())


def test_help_has_type_default_and_description(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    text = shown(capsys, "train", "--help")
    assert "\ntrain.columns.label: text, default label\n    column of class labels\n" in text
    assert "\ntrain.output.path: text, required\n" in text
    assert '\ntrain.training.selectionRule: "best" or "oneStandardError", default best\n' in text
    assert "\ntrain.training.regParam: number, >= 0, default none\n" in text


def test_help_loads_no_spark():
    code = (
        "import sys, subprocess\n"
        "from spark_auc.app.cli import main\n"
        "subprocess.Popen = None\n"
        "try:\n"
        "    main(['train', '--help'])\n"
        "finally:\n"
        "    names = [n for n in ('pyspark.sql', 'matplotlib', 'pandas') if n in sys.modules]\n"
        "    print('loaded', names, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "keys of the section train" in done.stdout
    assert done.stderr.splitlines()[-1] == "loaded []"


def test_versions(capsys, monkeypatch, tmp_path):
    def lines():
        return shown(capsys, "--version").splitlines()

    ours, python, spark, java = lines()
    assert ours == f"spark_auc {spark_auc.__version__}"
    assert python == f"Python {sys.version.split()[0]} ({sys.executable})"
    assert spark == f"pyspark {pyspark.__version__}"
    assert re.fullmatch(r"Java (17|21)[\w.+-]* \(/.*java\)", java)
    program = tmp_path / "bin/java"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert lines()[-1].startswith(f"Java without a version ({program}: ")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert lines()[-1] == "Java not found"


@pytest.mark.parametrize("name", COMMANDS)
def test_commands_are_no_jobs(name):
    assert name not in JOBS
    assert name not in Configuration.model_fields


def test_as_a_module():
    env = os.environ | {"PYTHONPATH": str(Path(spark_auc.__file__).parents[1])}
    command = [sys.executable, "-m", "spark_auc", "train"]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"] == "ConfigError"


@pytest.mark.parametrize("place", [0, 2, 4, 6])
def test_overrides_stand_anywhere_among_options(place, capsys):
    arguments = ["--data", "none.csv", "--label", "y", "--output", "model"]
    arguments[place:place] = ["train.training.tol=small"]
    arguments += ["train.training.regparm=1"]
    with pytest.raises(SystemExit) as done:
        main(["train", *arguments])
    message = json.loads(capsys.readouterr().out)["message"]
    assert done.value.code == 2
    assert "did you mean 'regParam'" in message
    assert "found 'small' at 'train.training.tol'" in message


def test_unknown_options_are_no_overrides(capsys):
    with pytest.raises(SystemExit):
        main(["train", "--data", "none.csv", "--regparm", "1"])
    assert "unrecognized arguments: --regparm" in capsys.readouterr().err


def test_a_reader_that_has_enough_is_no_error():
    arguments = ["train", "--data", "none.csv", "--label", "y", "--output", "model"]
    code = "from spark_auc.app.cli import main; main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", code, *arguments], text=True, **pipes) as job:
        job.stdout.close()
        written = job.stderr.read()
    assert job.returncode == 2, written
    assert "BrokenPipe" not in written


def test_help_imports_nothing_that_jobs_need():
    code = (
        "import sys\n"
        "from spark_auc.app.cli import main\n"
        "try:\n"
        "    main(['--help'])\n"
        "except SystemExit:\n"
        "    heavy = {'numpy', 'numba', 'scipy', 'pydantic', 'pyspark', 'pyarrow', 'pandas'}\n"
        "    assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(f"{name} " in done.stdout for name in (*JOBS, *COMMANDS))
