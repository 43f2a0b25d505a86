"""Start and stop the SparkSession of a job."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from spark_auc.errors import ConfigError

_log = logging.getLogger(__name__)

# spark-submit uses these settings before this program runs. Spark ignores a later value.
_AT_LAUNCH = (
    "spark.driver.memory",
    "spark.driver.extraJavaOptions",
    "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath",
    "spark.driver.cores",
    "spark.jars.packages",
    "spark.jars.excludes",
    "spark.jars.repositories",
    "spark.jars.ivySettings",
)
# The file systems of Hadoop's own jar.
_HADOOP = {"file", "hdfs", "viewfs", "webhdfs", "swebhdfs", "har", "ftp", "http", "https"}
_CONNECTORS = ("hadoop-aws", "hadoop-azure", "hadoop-gcp", "gcs-connector", "hadoop-cloud")
_CLASS_PATHS = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_DIST_CLASSPATH", "PYSPARK_SUBMIT_ARGS")
_PYTHON = "spark.pyspark.python"
# Without memory, a thread of Spark ends and the job never does. With this option, the JVM ends.
_EXIT = "-XX:+ExitOnOutOfMemoryError"
# Spark redacts the values of settings with such names in its logs, plans and pages.
_SECRET = (
    "(?i)secret|passw|passphrase|pwd|token|credential|jaas|(access|account|api|private|shared|auth|"
    "encryption|keystore|ssl)[._-]?key|[.]pass$|[.]auth[.]|[.]sas[.]|signature|"
    "connection[._-]?string"
)


def launched_by_spark_submit() -> bool:
    """Whether spark-submit started this program, whose JVM then runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def java() -> str | None:
    """Path of the program that Spark starts as Java: that of JAVA_HOME, or of PATH."""
    home = os.environ.get("JAVA_HOME")
    program = os.path.join(home, "bin", "java") if home else ""
    return program if os.path.exists(program) else shutil.which("java")


def may_open(scheme: str, conf: Mapping[str, str], remote: str | None) -> bool:
    """Whether the Spark of a job may have a file system; false if nothing names a jar of it.

    Parameters
    ----------
    scheme
        Scheme of URIs, such as "s3a".
    conf, remote
        See `session`.
    """
    keys = ("spark.jars", "spark.driver.extraClassPath", f"spark.hadoop.fs.{scheme}.")
    elsewhere = remote or launched_by_spark_submit() or SparkSession.getActiveSession()
    if scheme in _HADOOP or elsewhere or any(key.startswith(keys) for key in conf):
        return True
    home = _find_spark_home()
    defaults = os.path.join(home, "conf", "spark-defaults.conf")
    jars = os.listdir(os.path.join(home, "jars")) if os.path.isdir(home) else []
    return (
        any(name in os.environ for name in _CLASS_PATHS)
        or os.path.exists(defaults)
        or any(jar.startswith(_CONNECTORS) for jar in jars)
    )


def check_java() -> None:
    """`ConfigError` if Java is not installed."""
    if java() is None:
        raise ConfigError(
            "found no Java, expected version 17 or 21; install it (Debian and Ubuntu: "
            "apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        )


@contextmanager
def session(
    name: str, conf: Mapping[str, str] | None = None, *, remote: str | None = None
) -> Iterator[SparkSession]:
    """The active session, or a new one that stops at the end of the block.

    At a terminal, what the JVM of a new session writes goes to a file of its own, which the log
    names. Elsewhere, and under spark-submit, whose JVM runs already, it stays where it is.

    Parameters
    ----------
    name
        Application name of a new session.
    conf
        Spark settings, such as ``spark.master``.
    remote
        Address of a Spark Connect server, or "local[N]" to start one.

    Raises
    ------
    ConfigError
        Java is not installed, or a setting of the running JVM cannot change any more.
    """
    conf = dict(conf or {})
    _choose_python(conf)
    running = SparkSession.getActiveSession()
    if running is not None:
        fixed = [key for key in conf if not running.conf.isModifiable(key)]
        _refuse_late(running, fixed, conf)
        for key in conf.keys() - set(fixed):
            running.conf.set(key, conf[key])
        yield running
        return
    late = [key for key in _AT_LAUNCH if key in conf] if launched_by_spark_submit() else []
    if late:
        # Only a session shows the settings of spark-submit.
        submitted = SparkSession.builder.getOrCreate()
        try:
            _refuse_late(submitted, late, conf)
        finally:
            submitted.stop()
    elif not launched_by_spark_submit() and (remote or "local").startswith("local"):
        check_java()
    builder = SparkSession.builder.appName(name)
    if remote:
        builder = builder.remote(remote)
    elif not launched_by_spark_submit():
        defaults = {
            "spark.master": "local[*]",
            "spark.redaction.regex": _SECRET,
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.extraJavaOptions": _EXIT,
        }
        conf = defaults | conf
        if conf["spark.master"].startswith("local"):
            # TCP delays the first rows of a worker by 40 ms (delayed acknowledgement).
            conf = {"spark.python.unix.domain.socket.enabled": "true"} | conf
    for key, value in conf.items():
        builder = builder.config(key, value)
    with _messages_apart():
        spark = builder.getOrCreate()
    # The parameters of a server's address contain its token.
    address = remote.partition("/;")[0] if remote else spark.conf.get("spark.master")
    _log.info("Spark %s at %s", spark.version, address)
    try:
        yield spark
    finally:
        # A JVM that ended has no session to stop, and one that is ending does not answer.
        with suppress(ConnectionError, Py4JError):
            spark.stop()


@contextmanager
def _messages_apart() -> Iterator[None]:
    """Programs that start inside the block write to a file if this one writes to a terminal."""
    if launched_by_spark_submit() or not sys.stderr.isatty():
        yield
        return
    file, path = tempfile.mkstemp(prefix="spark_auc-", suffix=".log")
    _log.info("Spark's own messages: %s", path)
    sys.stdout.flush()
    sys.stderr.flush()
    # The program inherits the descriptors, whatever Python's streams are.
    kept = {descriptor: os.dup(descriptor) for descriptor in (1, 2)}
    try:
        for descriptor in kept:
            os.dup2(file, descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, before in kept.items():
            os.dup2(before, descriptor)
            os.close(before)
        os.close(file)


def _choose_python(conf: Mapping[str, str]) -> None:
    """Set the Python of the workers: that of the settings, of the environment, or this one.

    By default workers run the system's Python, without the packages of this environment.
    """
    if _PYTHON in conf:
        # Only spark-submit takes it from the settings.
        os.environ["PYSPARK_PYTHON"] = conf[_PYTHON]
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)


def _refuse_late(running: SparkSession, keys: list[str], conf: Mapping[str, str]) -> None:
    different = [key for key in keys if running.conf.get(key, "") != conf[key]]
    if different:
        flags = " ".join(f"--conf {key}=..." for key in different)
        raise ConfigError(
            f"found spark settings {', '.join(different)} that differ from those of the running "
            f"JVM, expected equal values, since they cannot change any more; pass them to "
            f"spark-submit: {flags}"
        )
