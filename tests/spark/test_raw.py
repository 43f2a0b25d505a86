"""Criteo and Avazu against tokens worked out in plain Python, and the published protocol."""

from __future__ import annotations

import csv
import gzip
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest
from chispa import assert_df_equality
from pyspark.ml.feature import FeatureHasher
from pyspark.sql import DataFrame, SparkSession
from scipy import linalg, sparse
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]

from spark_auc.errors import DataError
from spark_auc.spark.data import raw
from spark_auc.spark.data.failures import translated
from tests import data

INTEGERS = ["", "-1", "0", "1", "2", "3", "4", "5", "100", "65535", "", "7", "1"]
CRITEO = ["\t".join([str(i % 2), *INTEGERS[i:], *INTEGERS[:i], *"abcdefghijklmnopqrstuvwxy", ""])
          for i in range(5)]  # fmt: skip
AVAZU = [
    ",".join([f"1000009418151094273{i}", str(i % 2), f"1410{21 + i}{7 * i:02}", *"abcdefghijklm"])
    + ",1,2,3,4,5,6,-1,79"
    for i in range(3)
]
HEADER = ",".join(raw.AVAZU_COLUMNS)


def write(path: Path, lines: list[str]) -> str:
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def unit_vectors(spark: SparkSession, rows: list[dict[str, str]], dimension: int) -> np.ndarray:
    """Hash tokens, "" included, with Spark's hasher and scale with numpy."""
    df = spark.createDataFrame([tuple(row.values()) for row in rows], list(rows[0]))
    hasher = FeatureHasher(inputCols=df.columns, outputCol="hashed", numFeatures=dimension)
    X = dense(hasher.transform(df), "hashed")
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def dense(df: DataFrame, column: str = "features") -> np.ndarray:
    return np.array([row[0].toArray() for row in df.select(column).collect()])


def criteo_tokens(line: str) -> dict[str, str]:
    def token(text: str) -> str:
        large = text not in ("", "-1", "0", "1", "2")
        return f"log^2 {math.floor(math.log(int(text)) ** 2)}" if large else text

    _, *values = line.split("\t")
    names = [*(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    return dict(zip(names, [*map(token, values[:13]), *values[13:]], strict=True))


@pytest.mark.parametrize("dimension", [30, 4096])
def test_criteo_hashes_binned_integers_and_missing_values(spark, tmp_path, dimension):
    df = raw.criteo(spark, write(tmp_path / "day", CRITEO), dimension)
    assert df.columns == ["label", "features"]
    assert [row.label for row in df.collect()] == [0.0, 1.0, 0.0, 1.0, 0.0]
    expected = unit_vectors(spark, [criteo_tokens(line) for line in CRITEO], dimension)
    np.testing.assert_allclose(dense(df), expected, rtol=0, atol=1e-15)
    np.testing.assert_allclose(np.linalg.norm(dense(df), axis=1), 1)


def test_compressed_text_reads_the_same(spark, tmp_path):
    plain = write(tmp_path / "day", CRITEO)
    packed = tmp_path / "day.gz"
    packed.write_bytes(gzip.compress(Path(plain).read_bytes()))
    assert_df_equality(raw.criteo(spark, str(packed), 64), raw.criteo(spark, plain, 64))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("\t".join(["0"] * 39), "40 columns"),
        ("\t".join(["0"] * 41), "40 columns"),
        ("", "40 columns"),
        ("\t".join(["2"] * 40), "0 or 1 in column label"),
        ("\t".join([""] * 40), "0 or 1 in column label"),
        ("\t".join(["1", "1", "1.5", *["1"] * 37]), "a whole number in column I2"),
    ],
)
def test_malformed_criteo_names_file_and_text(spark, tmp_path, line, expected):
    write(tmp_path / "good", CRITEO)
    path = write(tmp_path / "day_7", [*CRITEO, line])
    with pytest.raises(DataError) as raised, translated():
        raw.criteo(spark, str(tmp_path), 64).toArrow()
    assert f"found '{line}' in file:{path}; expected {expected}: repair" in str(raised.value)


def test_avazu_hashes_fields_hour_and_weekday(spark, tmp_path):
    write(tmp_path / "a", [HEADER, *AVAZU[:2]])
    write(tmp_path / "b", [HEADER, AVAZU[2]])
    df = raw.avazu(spark, str(tmp_path), 4096).orderBy("id")
    assert df.columns == ["id", "time", "label", "features"]
    rows = df.collect()
    assert [row.id for row in rows] == [f"1000009418151094273{i}" for i in range(3)]
    assert [row.label for row in rows] == [0.0, 1.0, 0.0]
    times = [datetime(2014, 10, 21 + i, 7 * i) for i in range(3)]
    assert [row.time for row in rows] == times
    tokens = [
        dict(zip(raw.AVAZU_COLUMNS[3:], line.split(",")[3:], strict=True))
        | {"hour_of_day": str(t.hour), "day_of_week": str(t.isoweekday() % 7 + 1)}
        for line, t in zip(AVAZU, times, strict=True)
    ]
    np.testing.assert_allclose(dense(df), unit_vectors(spark, tokens, 4096), rtol=0, atol=1e-15)


def test_avazu_time_is_the_same_in_every_zone(spark, tmp_path):
    path = write(tmp_path / "a", [HEADER, AVAZU[1]])
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
        east = raw.avazu(spark, path, 64).selectExpr("string(time)", "features").collect()
        spark.conf.set("spark.sql.session.timeZone", "America/Los_Angeles")
        west = raw.avazu(spark, path, 64).selectExpr("string(time)", "features").collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    assert east == west
    assert east[0][0] == "2014-10-22 07:00:00"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (HEADER.replace("click,", ""), "24 columns"),
        (HEADER.replace("C1,", "C0,"), "0 or 1 in column click"),
        (AVAZU[0].replace(",14102100,", ",14102125,"), "YYMMDDHH in column hour"),
        (AVAZU[0].replace(",14102100,", ",141021,"), "YYMMDDHH in column hour"),
    ],
)
def test_malformed_avazu_names_file_and_text(spark, tmp_path, line, expected):
    path = write(tmp_path / "train", [HEADER, *AVAZU, line])
    with pytest.raises(DataError) as raised, translated():
        raw.avazu(spark, path, 64).toArrow()
    message = str(raised.value)
    assert message.startswith(f"found '{line[:200]}")
    assert f"' in file:{path}; expected {expected}: repair" in message


def test_real_avazu_rows(spark):
    path = data.path("avazu_9k.csv")
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    read = raw.avazu(spark, str(path), 2**16).select("id", "label", "time").toArrow().to_pylist()
    assert [row["id"] for row in read] == [row["id"] for row in rows]
    assert [row["label"] for row in read] == [float(row["click"]) for row in rows]
    assert [f"{row['time']:%y%m%d%H}" for row in read] == [row["hour"] for row in rows]


@pytest.mark.slow
def test_criteo_reaches_the_reference_auc(spark):
    """First 64,000 rows train, the others test, exact ridge: 75.01 is the reference."""
    dimension = 4096
    df = raw.criteo(spark, str(data.path("criteo_80k.tsv")), dimension).coalesce(1)
    table = df.toArrow().combine_chunks()
    y = np.asarray(table["label"]) == 1
    vectors = table["features"].chunk(0)
    indices, values = (vectors.field(name) for name in ("indices", "values"))
    csr = (values.values.to_numpy(), indices.values.to_numpy(), indices.offsets.to_numpy())
    X = sparse.csr_array(csr, (len(y), dimension))
    train, test = slice(64_000), slice(64_000, None)
    centres, spread = [], 1e-4 * np.eye(dimension)
    for rows in (X[train][y[train]], X[train][~y[train]]):
        centres.append(rows.mean(axis=0))
        spread += (rows.T @ rows).toarray() / rows.shape[0] - np.outer(centres[-1], centres[-1])
    # Sigma = spread + delta delta' gives the same direction.
    w = linalg.solve(spread, centres[0] - centres[1], assume_a="pos")
    assert roc_auc_score(y[test], X[test] @ w) >= 0.749
