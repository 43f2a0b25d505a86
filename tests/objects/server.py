"""An S3 server of the package moto in a process of its own, and requests to it without a client."""

import os
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

# The example of Amazon's documentation; the server takes any.
KEY, SECRET = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"


def requested(url, method="GET"):
    with urllib.request.urlopen(urllib.request.Request(url, method=method)) as response:
        return response.read()


@contextmanager
def running(log):
    """The address of a new server, whose output goes to a file."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with log.open("w") as output:
        process = subprocess.Popen(arguments, stdout=output, stderr=output)
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                requested(url)
                break
            except OSError:
                assert process.poll() is None, log
                assert time.monotonic() < deadline, log
                time.sleep(0.1)
        yield url
    finally:
        process.kill()
        process.wait()


def environment(url):
    """The variables of AWS of a process that uses a server; there are no others."""
    return {
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": url,
        "AWS_ALLOW_HTTP": "true",
        "AWS_EC2_METADATA_DISABLED": "true",
    }


def others():
    """The variables of AWS of this process."""
    return [key for key in os.environ if key.startswith("AWS_")]
