"""Read LIBSVM text as a DataFrame of ``label`` and ``features``."""

from __future__ import annotations

from collections.abc import Iterator
from os import fspath

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.ml.linalg import VectorUDT
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, StructField, StructType
from scipy import sparse

from spark_auc.core.types import AnyPath, Float, Int
from spark_auc.errors import DataError
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.paths import reader_of
from spark_auc.tables.encoders import encode_vectors

_HIGHEST = 2**31 - 1


def libsvm(spark: SparkSession, path: AnyPath, dimension: int | None = None) -> DataFrame:
    """Read LIBSVM text, whose entries spaces or tabs separate.

    Empty lines and those that begin with ``#`` are no rows.

    Parameters
    ----------
    spark
        The session.
    path
        A file, directory or glob.
    dimension
        Number of features; None for the highest index in the files, by a pass over them. Set it if
        several data sets (train and test) need the same dimension.

    Returns
    -------
    DataFrame
        ``label`` (double, as in the file) and ``features`` (sparse vector).

    Raises
    ------
    DataError
        A line is malformed. If ``dimension`` is set, the error comes from the action that reads
        the line inside `failures.translated`.
    """
    lines = reader_of(spark, fspath(path)).text(fspath(path))
    lines = lines.select("value", F.col("_metadata.file_path").alias("file"))
    if dimension is None:
        with translated():
            highest = lines.mapInArrow(_highest, "highest int").agg(F.max("highest")).first()
        dimension = (highest and highest[0]) or 0

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            labels, indptr, indices, values = _parsed(batch, dimension)
            X = sparse.csr_matrix((values, indices, indptr), (labels.size, dimension))
            columns = [pa.array(labels), encode_vectors(X)]
            yield pa.RecordBatch.from_arrays(columns, ["label", "features"])

    noted = {"numFeatures": dimension}
    schema = StructType(
        [
            StructField("label", DoubleType()),
            StructField("features", VectorUDT(), metadata=noted),
        ]
    )
    return lines.mapInArrow(rows, schema)


def _highest(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The highest index of each batch."""
    for batch in batches:
        highest = 1 + int(_parsed(batch, _HIGHEST)[2].max(initial=-1))
        yield pa.RecordBatch.from_pydict({"highest": pa.array([highest], pa.int32())})


def _parsed(batch: pa.RecordBatch, dimension: int) -> tuple[Float, Int, Int, Float]:
    """Labels ``(n,)``, row starts ``(n + 1,)``, indices from 0, and values of lines."""
    lines, files = batch.columns
    try:
        return _fields(lines, dimension)
    except ValueError:
        for k, line in enumerate(lines):
            try:
                _fields(lines.slice(k, 1), dimension)
            except ValueError:
                raise DataError(
                    f"found {line.as_py().strip()[:200]!r} in {files[k]}; expected 'label "
                    "index:value ...' with spaces or tabs between the entries and ascending "
                    f"indices in 1..{dimension}: repair or remove the line"
                ) from None
        raise


def _fields(lines: pa.Array, dimension: int) -> tuple[Float, Int, Int, Float]:
    """What `_parsed` returns; ValueError if a line is malformed."""
    lines = pc.utf8_trim_whitespace(lines)
    is_row = pc.and_(pc.not_equal(lines, ""), pc.invert(pc.starts_with(lines, "#")))
    entries = pc.split_pattern_regex(lines.filter(is_row), "[ \t]+")
    sizes = pc.list_value_length(entries).to_numpy(zero_copy_only=False).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    texts = entries.flatten()
    is_label = np.zeros(len(texts), np.bool_)
    is_label[starts[:-1]] = True
    labels = _doubles(texts.filter(pa.array(is_label)))
    pairs = pc.split_pattern(texts.filter(pa.array(~is_label)), ":")
    if len(pairs) and pc.min_max(pc.list_value_length(pairs)).as_py() != {"min": 2, "max": 2}:
        raise ValueError("an entry is no pair")
    parts, places = pairs.flatten(), np.arange(0, 2 * len(pairs), 2)
    indices = parts.take(pa.array(places)).cast(pa.int64()).to_numpy() - 1
    values = _doubles(parts.take(pa.array(places + 1)))
    indptr = starts - np.arange(starts.size)
    steps = np.diff(indices, prepend=-1)
    # The first entry of a row may have any index.
    filled = np.diff(indptr) > 0
    steps[indptr[:-1][filled]] = 1
    if (steps < 1).any() or (indices < 0).any() or (indices >= dimension).any():
        raise ValueError("the indices are not ascending or not in the dimension")
    return labels, indptr, indices.astype(np.int32), values


def _doubles(texts: pa.Array) -> Float:
    """Finite numbers; ValueError for others."""
    # Arrow reads no sign of plus.
    numbers = pc.replace_substring_regex(texts, r"^\+", "").cast(pa.float64()).to_numpy()
    if not np.isfinite(numbers).all():
        raise ValueError("a number is not finite")
    return np.asarray(numbers, float)
