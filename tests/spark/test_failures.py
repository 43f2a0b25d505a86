"""Connections that fail: those to the JVM, and others."""

import errno
import os
import socket

import pyarrow as pa
import pytest
from py4j.clientserver import ClientServer, JavaParameters, PythonParameters
from pyspark.errors import PySparkException

from spark_auc.errors import ResourceError, StorageError
from spark_auc.spark.data.failures import translated


@pytest.fixture
def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_a_jvm_that_ended_is_named(closed_port):
    gateway = ClientServer(
        java_parameters=JavaParameters(port=closed_port),
        python_parameters=PythonParameters(port=0, daemonize=True),
    )
    with (
        pytest.raises(ResourceError, match=r"JVM.*ended.*raise spark\.driver\.memory"),
        translated(),
    ):
        gateway.jvm.System.currentTimeMillis()


def test_other_connections_keep_their_error(closed_port):
    with pytest.raises(ConnectionRefusedError), translated():
        socket.create_connection(("127.0.0.1", closed_port))


@pytest.mark.parametrize(
    "text",
    [
        "java.lang.OutOfMemoryError: Java heap space",
        "org.apache.spark.memory.SparkOutOfMemoryError: error while calling spill()",
        "org.apache.arrow.memory.OutOfMemoryException: Failure allocating buffer.",
        "io.netty.util.internal.OutOfDirectMemoryError: failed to allocate 8388608 byte(s)",
        "Job 0 cancelled because SparkContext was shut down",
    ],
)
def test_a_job_that_fails_before_its_jvm_ends_names_the_memory(text):
    failure = PySparkException(f"Job aborted due to stage failure: {text}")
    with pytest.raises(ResourceError, match=r"raise spark\.driver\.memory"), translated():
        raise failure


@pytest.mark.parametrize(
    "failure",
    [
        PySparkException("stage failure: java.io.IOException: No space left on device"),
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/models/part"),
        pa.ArrowIOError("Error writing bytes to file. Detail: No space left on device"),
    ],
)
def test_a_full_disk_is_named_with_the_places_to_set(failure):
    with pytest.raises(StorageError, match=r"full disk.*spark\.local\.dir"), translated():
        raise failure


def test_another_error_of_files_keeps_its_class():
    with pytest.raises(PermissionError), translated():
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), "/models/part")
