"""One entry for all formats: a published or saved ranker to a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.export.logistic import to_logistic_regression
from spark_auc.export.onnx_model import to_onnx
from spark_auc.export.sql import to_sql
from spark_auc.export.whole import write_new
from spark_auc.serving.load import load
from spark_auc.serving.ranker import ServedRanker

# The table that a query reads; a view of this name stands for the rows.
TABLE = "rows_to_score"


def to_file(model: AnyPath, kind: str, output: AnyPath) -> None:
    """Write a ranker in the format of another system.

    Parameters
    ----------
    model
        Where the ranker was published or saved; see `spark_auc.load`.
    kind
        "onnx": a file; see `spark_auc.to_onnx`. "sql": a query of Spark SQL that reads a table or
        view ``rows_to_score``; see `spark_auc.to_sql`. "logistic": a directory; see
        `spark_auc.to_logistic_regression`.
    output
        A new path, or a URI that Arrow's file systems reach. It appears whole or not at all.

    Raises
    ------
    ConfigError
        The kind is unknown, the model is not there or cannot be said in the format, or the output
        exists or cannot be written.
    MissingPackageError
        onnx is not installed.
    ModelFormatError
        A file of the model is missing, truncated or changed, or of another version.
    """
    if kind not in KINDS:
        raise ConfigError(
            f"found the format {kind!r}, expected {', '.join(KINDS)}; choose one of them"
        )
    KINDS[kind](load(model), output)


def _sql(ranker: ServedRanker, output: AnyPath) -> None:
    write_new(output, f"{to_sql(ranker).select(TABLE)}\n".encode())


KINDS: Mapping[str, Callable[[ServedRanker, AnyPath], None]] = {
    "logistic": to_logistic_regression,
    "onnx": to_onnx,
    "sql": _sql,
}
