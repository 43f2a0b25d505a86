"""The versions of what runs a job, as ``spark-auc --version`` prints them."""

from __future__ import annotations

import platform
import re
import subprocess
import sys

import pyspark

import spark_auc
from spark_auc.spark.data.session import java

_SECONDS = 10


def versions() -> str:
    """Lines of spark_auc, Python, pyspark and Java, with the paths of the programs."""
    return (
        f"spark_auc {spark_auc.__version__}\n"
        f"Python {platform.python_version()} ({sys.executable})\n"
        f"pyspark {pyspark.__version__}\n"
        f"Java {_java()}\n"
    )


def _java() -> str:
    program = java()
    if program is None:
        return "not found"
    try:
        said = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"without a version ({program}: {error})"
    number = re.search(r'version "([^"]+)"', said.stderr)
    return f"{number[1] if number else 'without a version'} ({program})"
