"""An S3 server behind a proxy, for tests in this process and its tasks."""

import importlib.util
import re

import pytest

from tests.objects.proxy import Plan, Proxy
from tests.objects.server import environment, others, requested, running


@pytest.fixture(scope="session")
def server(tmp_path_factory):
    if importlib.util.find_spec("moto") is None:
        pytest.skip("the package moto[server] is not installed")
    with running(tmp_path_factory.mktemp("moto") / "log.txt") as url:
        yield url


@pytest.fixture(scope="session")
def proxy(server):
    with Proxy(server) as made:
        yield made


@pytest.fixture
def bucket(server, proxy, monkeypatch, request):
    """The URI of a new bucket behind the proxy; credentials are in the environment alone."""
    proxy.plan = Plan()
    name = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower())[-40:].strip("-")
    requested(f"{server}/{name}", "PUT")
    for key in others():
        monkeypatch.delenv(key)
    for key, value in environment(proxy.url).items():
        monkeypatch.setenv(key, value)
    yield f"s3://{name}"
    proxy.plan = Plan()


@pytest.fixture
def tasks(bucket, proxy, request, monkeypatch):
    """The bucket, for the tasks of the session too: their machine has the same environment."""
    spark = request.getfixturevalue("spark")
    for key, value in environment(proxy.url).items():
        monkeypatch.setitem(spark.sparkContext.environment, key, value)
    return bucket
