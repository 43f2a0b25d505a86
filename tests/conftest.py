"""One Spark session for each process of the run."""

import math
import os
import random
import shutil
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.cluster.processes import ARCHIVE

# Rooms of what surrounds the package; all of their tests are slow ones.
SURROUNDINGS = {"experiments", "image", "mlflow", "objects"}
# The share of the cases of a slow test that run.
SHARE = float(os.environ.get("SPARK_AUC_SLOW_SHARE") or 1)
# Threads of BLAS wait by spinning, and take the cores from the other process of the run.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# So do those of LightGBM, which need not be fewer: small trees took 40 times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
# Half the time of so short-lived a JVM would go into optimising its code. Without the second
# compiler the code cache is small: a JVM of many tests drops code and compiles it again. The
# smallest metaspace would cost every JVM several full collections.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m "
    "-XX:MetaspaceSize=256m"
    # Without the log: JVMs with other paths of classes would warn on standard output.
    + (f" -XX:SharedArchiveFile={ARCHIVE} -Xlog:disable" if ARCHIVE.exists() else ""),
)


def pytest_addoption(parser):
    parser.addoption("--connect", action="store_true", help="run on Spark Connect, not classic")


def pytest_collection_modifyitems(config, items):
    sessions = Counter(item.path for item in items if "spark" in item.fixturenames)
    # Files of many tests on Spark take long: begun last, one would keep a single process busy.
    items.sort(key=lambda item: -sessions[item.path])
    for item in items:
        if SURROUNDINGS & set(item.path.relative_to(Path(__file__).parent).parts):
            item.add_marker("slow")
    left_out = _left_out(items)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if not config.getoption("connect"):
        return
    for item in items:
        for classic in item.iter_markers("classic"):
            (reason,) = classic.args
            item.add_marker(pytest.mark.skip(reason=f"classic Spark only: {reason}"))


def _left_out(items):
    """The slow cases that are beyond the share of the run: one of each test always remains."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow") and hasattr(item, "callspec"):
            cases[item.nodeid.partition("[")[0]].append(item)
    draw = random.Random(os.environ.get("SPARK_AUC_SLOW_SEED", "0"))
    left_out = set()
    for name in sorted(cases):
        own = sorted(cases[name], key=lambda item: item.nodeid)
        kept = math.ceil(SHARE * len(own))
        left_out.update(draw.sample(own, max(0, len(own) - kept)))
    return left_out


@pytest.fixture(scope="session")
def spark(request, tmp_path_factory):
    from spark_auc.spark.data.session import session

    home = os.environ.get("JAVA_HOME")
    if shutil.which(os.path.join(home, "bin", "java") if home else "java") is None:
        pytest.skip("no Java found, which Spark needs")

    conf = {
        "spark.driver.memory": "2g",
        "spark.python.daemon.module": "tests.daemon",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "3",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.ui.showConsoleProgress": "false",
    }
    connect = request.config.getoption("connect")
    if not connect:
        # Spark refuses a master beside the address of a server.
        conf |= {"spark.master": "local[2]"}
    # Workers may start in a directory that has no package ``tests``.
    paths = [os.fspath(request.config.rootpath), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    with session("tests", conf, remote="local[2]" if connect else None) as made:
        assert connect == type(made).__module__.startswith("pyspark.sql.connect")
        yield made
