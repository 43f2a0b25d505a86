"""The bits of a fit on a real cluster, wherever the partitions of cached rows lie."""

import random
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from pyspark.sql import SparkSession

from spark_auc.core.moments.operator import column_moments
from spark_auc.spark.data.resources import task_slots
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.rows import TableRows
from tests.cluster.cluster import LOOPBACK, Cluster
from tests.cluster.conftest import SEED
from tests.cluster.jobs import SETTINGS
from tests.cluster.processes import JAVA, kill, until

pytestmark = pytest.mark.cluster

FILES, NAMES = 8, ["x0", "x1", "x2"]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster"), 3) as running:
        yield running


@pytest.fixture(scope="module")
def session(cluster):
    builder = SparkSession.builder.master(cluster.address)
    for key, value in (SETTINGS | {"spark.driver.host": LOOPBACK}).items():
        builder = builder.config(key, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        running = builder.config("spark.driver.extraJavaOptions", JAVA).getOrCreate()
        yield running
        running.stop()


def written(place):
    """Lines of several files, whose columns have means far from 0: their sums round."""
    rng = np.random.default_rng(0)
    place.mkdir()
    for k in range(FILES):
        X = rng.normal(100.0, 1.0, (300, 3)) * (k + 1)
        columns = dict(zip(NAMES, X.T, strict=True)) | {"label": rng.integers(0, 2, 300)}
        pa.csv.write_csv(pa.table(columns), place / f"{k}.csv")
    return str(place)


def test_cached_rows_keep_their_order(session, cluster, tmp_path):
    """Passes over cached rows have the bits of the pass that cached them, with an executor lost."""
    text = ", ".join(f"{name} double" for name in [*NAMES, "label"])
    df = session.read.csv(written(tmp_path / "rows"), schema=text, header=True)
    table = SparkTable(df)
    columns = TrainingColumns.resolve(table, PreparedFeatures.resolve(table, NAMES), "label")
    rows = TableRows.of(table, columns)
    # Executors register one after the other; the number of slots is counted anew after 10 s.
    until(lambda: task_slots(session) == 3, 60, "three executors with a slot each")
    with rows.kept() as kept:
        found = [column_moments(kept).to_bytes() for _ in range(2)]
        executors = cluster.processes("executor")
        assert len(executors) == 3
        kill(random.Random(SEED).choice(executors).pid)
        found += [column_moments(kept).to_bytes() for _ in range(2)]
    assert len(set(found)) == 1
    assert task_slots(session) == 3
