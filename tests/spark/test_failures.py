"""Connections that fail: those to the JVM, and others."""

import socket

import pytest
from py4j.clientserver import ClientServer, JavaParameters

from spark_auc.errors import ResourceError
from spark_auc.spark.data.failures import translated


@pytest.fixture
def closed_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def test_a_jvm_that_ended_is_named(closed_port):
    gateway = ClientServer(java_parameters=JavaParameters(port=closed_port))
    with (
        pytest.raises(ResourceError, match=r"JVM.*ended.*raise spark\.driver\.memory"),
        translated(),
    ):
        gateway.jvm.System.currentTimeMillis()


def test_other_connections_keep_their_error(closed_port):
    with pytest.raises(ConnectionRefusedError), translated():
        socket.create_connection(("127.0.0.1", closed_port))
