"""A linear ranker as a logistic regression that Spark ML stored."""

from __future__ import annotations

import hashlib
import io
import json
import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_auc.core.types import AnyPath, Float
from spark_auc.export.refusals import check_segments, refused
from spark_auc.export.whole import write_new
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Isotone, Sigmoid
from spark_auc.tables.encoders import VECTOR

_FORMAT = "Spark ML's LogisticRegressionModel"
_CLASS = "org.apache.spark.ml.classification.LogisticRegressionModel"
# The oldest version that this package runs on; the format is that of all versions since 2.4.
_VERSION = "4.1.0"
# Largest error of the threshold's log odds, relative to at least 1. Spark stores a probability,
# whose doubles are coarse near 1.
_CLOSE = 1e-9
_DEFAULTS: Mapping[str, Any] = {
    "aggregationDepth": 2,
    "elasticNetParam": 0.0,
    "family": "auto",
    "featuresCol": "features",
    "fitIntercept": True,
    "labelCol": "label",
    "maxBlockSizeInMB": 0.0,
    "maxIter": 100,
    "predictionCol": "prediction",
    "probabilityCol": "probability",
    "rawPredictionCol": "rawPrediction",
    "regParam": 0.0,
    "standardization": True,
    "threshold": 0.5,
    "tol": 1e-6,
}


class _Logistic(NamedTuple):
    """Log odds ``x'coefficients + intercept``, and the probability above which they predict 1."""

    coefficients: Float
    intercept: float
    threshold: float


def to_logistic_regression(
    ranker: ServedRanker,
    path: AnyPath,
    *,
    featuresCol: str = "features",
    labelCol: str = "label",
    predictionCol: str = "prediction",
    probabilityCol: str = "probability",
    rawPredictionCol: str = "rawPrediction",
) -> None:
    """Write a linear ranker of features as a model that Spark ML's readers load.

    ``LogisticRegressionModel.load(path)`` gives a model whose probabilities are those of the
    ranker, and whose predictions are too, but for scores within rounding of the threshold. A
    calibration by Platt scaling goes into coefficients and intercept. Without one the scores are
    taken for log odds: they rank as well, but the probabilities mean nothing.

    Parameters
    ----------
    ranker
        The ranker, of labels 1 and 0. Its features are one vector in Spark.
    path
        Where the model is written: a new path, or a URI that Arrow's file systems reach.
    featuresCol, labelCol, predictionCol, probabilityCol, rawPredictionCol
        Columns of the model.

    Raises
    ------
    ConfigError
        The ranker has a recipe, embeddings, segments, an isotonic curve, a slope that is not above
        0 or other labels; its threshold has no probability in doubles; or the path exists or cannot
        be written.

    Examples
    --------
    >>> import tempfile
    >>> from pyspark.ml.classification import LogisticRegressionModel
    >>> from spark_auc import MBAClassifier, load, to_logistic_regression
    >>> path = tempfile.mkdtemp()
    >>> MBAClassifier(regParam=0.1).fit(rows).save(path + "/ranker")
    >>> to_logistic_regression(load(path + "/ranker"), path + "/logistic")
    >>> LogisticRegressionModel.load(path + "/logistic").numFeatures
    2
    """
    columns = {
        "featuresCol": featuresCol,
        "labelCol": labelCol,
        "predictionCol": predictionCol,
        "probabilityCol": probabilityCol,
        "rawPredictionCol": rawPredictionCol,
    }
    write_new(path, _files(_logistic(ranker), columns))


def _logistic(ranker: ServedRanker) -> _Logistic:
    """The logistic model of a ranker; `ConfigError` if it is none."""
    scorer, curve = ranker.scorer, ranker.curve
    check_segments(ranker, _FORMAT)
    for part, found in (
        (ranker.recipe, "a recipe of raw columns"),
        (ranker.embeddings, " and ".join(type(e).__name__ for e in ranker.embeddings)),
    ):
        if part:
            raise refused(
                *(found, _FORMAT, "a ranker of features"),
                "use spark_auc.to_onnx, or write the model of the last stage",
            )
    if isinstance(curve, Isotone):
        raise refused(
            *("an isotonic curve", _FORMAT, "Platt scaling or none"),
            "calibrate by ScoreCalibrator(method='platt')",
        )
    if (scorer.positive, scorer.negative) != (1, 0):
        raise refused(
            f"the positive label {scorer.positive!r} and the negative label {scorer.negative!r}",
            *(_FORMAT, "1 and 0, which it predicts", "train on labels 1 and 0"),
        )
    slope, intercept = (curve.slope, curve.intercept) if isinstance(curve, Sigmoid) else (1.0, 0.0)
    with np.errstate(over="ignore"):
        coefficients, log_odds = slope * scorer.w, slope * scorer.threshold + intercept
    if not (slope > 0 and np.isfinite(coefficients).all()):
        raise refused(
            f"a calibration of slope {slope}",
            *(_FORMAT, "a slope above 0 and finite coefficients", "calibrate again"),
        )
    # Spark predicts 1 above its threshold, this package at or above its own.
    threshold = 1 / (1 + math.exp(-log_odds)) if log_odds > -700 else 0.0
    threshold = math.nextafter(threshold, 0.0)
    if not (
        0 < threshold < 1
        and abs(math.log(threshold / (1 - threshold)) - log_odds) <= _CLOSE * max(1, abs(log_odds))
    ):
        raise refused(
            f"a threshold with the log odds {log_odds:g}",
            *(_FORMAT, "one whose probability a double can tell from 0 and 1"),
            "calibrate the ranker by ScoreCalibrator",
        )
    return _Logistic(coefficients, intercept, threshold)


def _files(model: _Logistic, columns: Mapping[str, str]) -> dict[str, bytes]:
    """The files of the model by name; readers need the metadata, which are last."""
    data = io.BytesIO()
    pq.write_table(_table(model), data)
    digest = hashlib.sha256(model.coefficients.tobytes()).hexdigest()
    metadata = {
        "class": _CLASS,
        "timestamp": int(time.time() * 1000),
        "sparkVersion": _VERSION,
        "uid": f"LogisticRegression_{digest[:12]}",
        "paramMap": {**columns, "threshold": model.threshold},
        "defaultParamMap": _DEFAULTS,
    }
    return {
        "data/part-00000.snappy.parquet": data.getvalue(),
        "data/_SUCCESS": b"",
        "metadata/part-00000": json.dumps(metadata).encode() + b"\n",
        "metadata/_SUCCESS": b"",
    }


def _table(model: _Logistic) -> pa.Table:
    """The table of one row, with the schema of Spark's user-defined types."""
    integers, doubles = (VECTOR.field(name).type for name in ("indices", "values"))
    matrix = [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("numRows", pa.int32(), nullable=False),
        pa.field("numCols", pa.int32(), nullable=False),
        pa.field("colPtrs", integers),
        pa.field("rowIndices", integers),
        pa.field("values", doubles),
        pa.field("isTransposed", pa.bool_(), nullable=False),
    ]
    fields = [
        pa.field("numClasses", pa.int32(), nullable=False),
        pa.field("numFeatures", pa.int32(), nullable=False),
        pa.field("interceptVector", VECTOR),
        pa.field("coefficientMatrix", pa.struct(matrix)),
        pa.field("isMultinomial", pa.bool_(), nullable=False),
    ]
    size, dense = model.coefficients.size, 1
    row = {
        "numClasses": 2,
        "numFeatures": size,
        "interceptVector": {"type": dense, "values": [model.intercept]},
        "coefficientMatrix": {
            "type": dense,
            "numRows": 1,
            "numCols": size,
            "values": model.coefficients,
            "isTransposed": True,
        },
        "isMultinomial": False,
    }
    schema = {"type": "struct", "fields": [_spark_field(field) for field in fields]}
    return pa.Table.from_pylist(
        [row],
        schema=pa.schema(fields, {"org.apache.spark.sql.parquet.row.metadata": json.dumps(schema)}),
    )


_UDTS = {"interceptVector": "VectorUDT", "coefficientMatrix": "MatrixUDT"}
_TYPES = {
    pa.int8(): "byte",
    pa.int32(): "integer",
    pa.float64(): "double",
    pa.bool_(): "boolean",
}


def _spark_field(field: pa.Field) -> dict[str, Any]:
    """Spark's JSON of a field."""
    kind: Any = _spark_type(field.type)
    if udt := _UDTS.get(field.name):
        kind = {
            "type": "udt",
            "class": f"org.apache.spark.ml.linalg.{udt}",
            "pyClass": f"pyspark.ml.linalg.{udt}",
            "sqlType": kind,
        }
    return {"name": field.name, "type": kind, "nullable": field.nullable, "metadata": {}}


def _spark_type(kind: pa.DataType) -> Any:
    if pa.types.is_struct(kind):
        return {
            "type": "struct",
            "fields": [_spark_field(kind.field(k)) for k in range(kind.num_fields)],
        }
    if pa.types.is_list(kind):
        item = kind.value_field
        return {"type": "array", "elementType": _TYPES[item.type], "containsNull": item.nullable}
    return _TYPES[kind]
