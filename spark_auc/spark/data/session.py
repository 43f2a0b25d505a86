"""The one place that makes or stops a SparkSession."""

from __future__ import annotations

import logging
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_auc.errors import ConfigError

_log = logging.getLogger(__name__)

# What spark-submit has acted on before this program runs: a later value would be ignored.
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
# Spark hides the values of settings of such names in its own logs, plans and pages.
_SECRET = (
    "(?i)secret|passw|passphrase|pwd|token|credential|jaas|(access|account|api|private|shared|auth|"
    "encryption|keystore|ssl)[._-]?key|[.]pass$|[.]auth[.]|[.]sas[.]|signature|"
    "connection[._-]?string"
)


def launched_by_spark_submit() -> bool:
    """Whether a JVM already runs this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def check_java() -> None:
    """`ConfigError` with what to install where there is no Java."""
    home = os.environ.get("JAVA_HOME")
    if not (home and os.path.exists(os.path.join(home, "bin", "java"))) and not shutil.which(
        "java"
    ):
        raise ConfigError(
            "found no Java, expected version 17 or 21; install it (Debian and Ubuntu: "
            "apt-get install openjdk-17-jre-headless) or set JAVA_HOME"
        )


@contextmanager
def session(
    name: str, conf: Mapping[str, str] | None = None, *, remote: str | None = None
) -> Iterator[SparkSession]:
    """A session with the given Spark settings; stopped at the end if it was made here.

    Parameters
    ----------
    name
        Application name.
    conf
        Spark settings, such as ``spark.master``.
    remote
        Address of a Spark Connect server, or "local[N]" for one of its own.

    Raises
    ------
    ConfigError
        Java is missing, or a setting comes too late to take effect.
    """
    conf = dict(conf or {})
    # Workers would otherwise run the system's python, without this one's packages.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
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
        # A session of its own is the only way to see what spark-submit was given.
        given = SparkSession.builder.getOrCreate()
        try:
            _refuse_late(given, late, conf)
        finally:
            given.stop()
    elif not launched_by_spark_submit() and (remote or "local").startswith("local"):
        check_java()
    builder = SparkSession.builder.appName(name)
    if remote:
        builder = builder.remote(remote)
    elif not launched_by_spark_submit():
        conf = {"spark.master": "local[*]", "spark.redaction.regex": _SECRET} | conf
        if conf["spark.master"].startswith("local"):
            # Over TCP a worker's first rows wait for an acknowledgement that comes 40 ms late.
            conf = {"spark.python.unix.domain.socket.enabled": "true"} | conf
    for key, value in conf.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    # Parameters of a server's address hold its token.
    where = remote.partition("/;")[0] if remote else spark.conf.get("spark.master")
    _log.info("Spark %s, %s", spark.version, where)
    try:
        yield spark
    finally:
        spark.stop()


def _refuse_late(running: SparkSession, keys: list[str], conf: Mapping[str, str]) -> None:
    wrong = [key for key in keys if running.conf.get(key, "") != conf[key]]
    if wrong:
        flags = " ".join(f"--conf {key}=..." for key in wrong)
        raise ConfigError(
            f"found spark settings {', '.join(wrong)} that differ from those of the running JVM, "
            f"which cannot change any more; give them to spark-submit: {flags}"
        )
