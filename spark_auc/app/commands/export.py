"""Write a published or saved ranker for another system: SQL, ONNX, or Spark ML.

``spark-auc export --model DIR --to FORMAT --output PATH`` writes a query of SQL, an ONNX file, or
a directory that ``LogisticRegressionModel.load`` of Spark ML reads. It needs no Spark. Nothing is
overwritten.
"""

from __future__ import annotations

import argparse
from typing import Any

from spark_auc.export.to_file import KINDS, to_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    parser.add_argument(
        "--model", required=True, metavar="DIR", help="output.path of a job, or a saved ranker"
    )
    parser.add_argument("--to", required=True, choices=list(KINDS), help="the format")
    parser.add_argument("--output", required=True, metavar="PATH", help="a new file or directory")


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Write the ranker, and return the command's result for standard output.

    Raises
    ------
    SparkAUCError
        As of `spark_auc.export.to_file.to_file`; nothing is written.
    """
    to_file(arguments.model, arguments.to, arguments.output)
    return {"model": arguments.model, "to": arguments.to, "output": arguments.output}
