"""Raw click logs to a published model and its scores, beside the way by prepared vectors.

The rows are those of ``criteo_80k.tsv``, repeated, with the rare tokens of each repetition renamed.
Each step is run on both sides in turn, in one session; one JSON object per step has the least CPU
seconds of driver, JVM and Python workers over the repeats, a row's microseconds, and their ratio.

csr      text to sparse rows: recipe in the tasks; Spark's split, FeatureHasher and Normalizer
moments  text to pair moments; moments of rows in memory
model    text to a saved model; prepare to Parquet and fit
score    text to scores; prepare to Parquet and scores
drift    text to counts of missing and extreme values; text to scores
whole    text to a published model and an evaluated holdout, once (with --rows 46000000)
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measuring import SETTINGS, PeakMemory, cpu_seconds
from spark_auc import FeatureRecipe, LinearRankerModel, MBAClassifier, RankerPipeline, evaluate
from spark_auc.core.batch import Batch
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.pipeline.one_pass import statistics
from spark_auc.spark.data.arrow_files import layout_rows
from spark_auc.spark.data.raw import criteo
from spark_auc.spark.data.session import session
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.pipeline_model import RankerPipelineModel
from spark_auc.tables.columns import TrainingColumns
from spark_auc.tables.layouts import CRITEO, CRITEO_INTEGERS, CRITEO_TOKENS
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows

# Tokens that occur less often in the 80,000 rows are renamed in each repetition.
_RARE = 10
# Rows that the accumulator reads from memory, as often as the text has so many.
_IN_MEMORY = 500_000


def written(source: Path, target: Path, rows: int) -> None:
    """Write ``rows`` rows in files of 80,000."""
    lines = [line.split("\t") for line in source.read_text().splitlines()]
    counts: dict[str, int] = {}
    for fields in lines:
        for token in fields[14:]:
            counts[token] = counts.get(token, 0) + 1
    rare = [[k for k in range(14, 40) if 0 < counts[fields[k]] < _RARE] for fields in lines]
    target.mkdir(parents=True)
    for number, start in enumerate(range(0, rows, len(lines))):
        with (target / f"part-{number:05}.tsv").open("w") as file:
            for fields, places in zip(lines[: rows - start], rare, strict=False):
                renamed = fields
                if number:
                    renamed = fields.copy()
                    for k in places:
                        renamed[k] = f"{fields[k]}{number:x}"
                file.write("\t".join(renamed) + "\n")


def recipe(dimension: int) -> FeatureRecipe:
    return FeatureRecipe(log=CRITEO_INTEGERS, tokens=CRITEO_TOKENS, auto=False, dimension=dimension)


def ranker(**params: Any) -> MBAClassifier:
    return MBAClassifier(standardization=False, **params)


def mapped(df: DataFrame, features: RawFeatures) -> None:
    """Map all rows in the tasks, as training reads them, and drop the result."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, LabelCounts]]:
        yield "stored", LabelCounts({1.0: sum(features.decode(b.columns).nnz for b in batches)})

    rows = SparkTable(df).select(features.columns)
    rows.fold(run, (LabelCounts,), state_bytes=0, what="numbers of entries")


def in_memory(df: DataFrame, features: RawFeatures, rows: int) -> list[Batch]:
    """The first rows as batches."""
    table = SparkTable(df.limit(rows))
    columns = TrainingColumns.resolve(table, features, "label")
    return list(TableRows.of(table, columns).gathered().batches)


def compared(step: str, rows: int, repeats: int, **runs: Callable[[], Any]) -> None:
    """Run functions in turn, and print the least CPU seconds of each."""
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            start = cpu_seconds()
            run()
            best[name] = min(best[name], cpu_seconds() - start)
    first, second = best.values()
    printed = {f"{name}_cpu_s": round(value, 2) for name, value in best.items()}
    printed |= {f"{name}_us_a_row": round(1e6 * value / rows, 2) for name, value in best.items()}
    print(json.dumps({"step": step, "rows": rows, **printed, "ratio": round(first / second, 3)}))


def steps(spark: SparkSession, path: str, rows: int, dimension: int, args: Any) -> None:
    work = Path(tempfile.mkdtemp(dir=args.directory))
    df = layout_rows(spark, path, CRITEO)
    made = recipe(dimension).fit(df)
    table = SparkTable(df)
    features = made.input_features(table)
    pipeline = RankerPipeline([recipe(dimension), ranker(regParam=1e-4)])

    def prepared() -> DataFrame:
        target = str(work / "prepared")
        criteo(spark, path, dimension).write.mode("overwrite").parquet(target)
        return spark.read.parquet(target)

    if "csr" in args.only:
        compared(
            "csr",
            rows,
            args.repeats,
            recipe=lambda: mapped(df, features),
            hasher=lambda: (
                criteo(spark, path, dimension).write.format("noop").mode("overwrite").save()
            ),
        )
    if "moments" in args.only:
        columns = TrainingColumns.resolve(table, features, "label")
        some = in_memory(df, features, min(rows, _IN_MEMORY))
        slots = spark.sparkContext.defaultParallelism
        # As many rows as the text has, and as many folds at once as there are tasks at once.
        times = max(1, rows // (slots * sum(b.y.size for b in some)))

        def accumulated(_: int) -> None:
            PairMoments.fold(chain.from_iterable(repeat(some, times)), dimension)

        def accumulator() -> None:
            with ThreadPoolExecutor(slots) as pool:
                list(pool.map(accumulated, range(slots)))

        compared(
            "moments",
            rows,
            args.repeats,
            text=lambda: statistics(TableRows.of(table, columns)),
            accumulator=accumulator,
        )
    if "model" in args.only:
        compared(
            "model",
            rows,
            args.repeats,
            raw=lambda: pipeline.fit(df).write().overwrite().save(str(work / "raw")),
            prepared=lambda: (
                ranker(regParam=1e-4).fit(prepared()).write().overwrite().save(str(work / "model"))
            ),
        )
    if "score" in args.only:
        pipeline.fit(df).write().overwrite().save(str(work / "raw"))
        ranker(regParam=1e-4).fit(prepared()).write().overwrite().save(str(work / "model"))
        raw_model = RankerPipelineModel.load(str(work / "raw"))
        model = LinearRankerModel.load(str(work / "model"))

        def saved(scored: DataFrame, name: str) -> None:
            scored.select("rawPrediction").write.mode("overwrite").parquet(str(work / name))

        compared(
            "score",
            rows,
            args.repeats,
            raw=lambda: saved(raw_model.transform(df), "raw_scores"),
            prepared=lambda: saved(model.transform(prepared()), "scores"),
        )
    if "drift" in args.only:
        scoring = pipeline.fit(df)
        target = str(work / "scored")
        compared(
            "drift",
            rows,
            args.repeats,
            drift=lambda: made.drift_of(df),
            score=lambda: (
                scoring.transform(df)
                .select("rawPrediction", "prediction")
                .write.mode("overwrite")
                .parquet(target)
            ),
        )
    shutil.rmtree(work)


def whole(spark: SparkSession, path: str, held_out: str, dimension: int, args: Any) -> None:
    for name, params in {"given": {"regParam": 1e-4}, "chosen": {}}.items():
        if name not in args.penalty:
            continue
        start, begun = time.perf_counter(), cpu_seconds()
        with PeakMemory() as memory:
            df = layout_rows(spark, path, CRITEO)
            model = RankerPipeline([recipe(dimension), ranker(**params)]).fit(df)
            model.write().overwrite().save(f"{args.directory}/whole")
            fitted = time.perf_counter() - start
            model = RankerPipelineModel.load(f"{args.directory}/whole")
            report = evaluate(model.transform(layout_rows(spark, held_out, CRITEO)))
        summary = model.ranker.summary
        printed = {
            "step": "whole",
            "penalty": name,
            "rows": sum(summary.rows.values()),
            "fit_s": round(fitted, 1),
            "all_s": round(time.perf_counter() - start, 1),
            "cpu_s": round(cpu_seconds() - begun, 1),
            "phases": summary.seconds,
            "auc": report.auc,
            "certificate": summary.certificate,
            "driver_mib": round(memory.driver),
            "workers_mib": round(memory.workers),
        }
        print(json.dumps(printed, default=str), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--dimension", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--directory", default=tempfile.gettempdir())
    parser.add_argument("--only", nargs="*", default=["csr", "moments", "model", "score"])
    parser.add_argument("--penalty", nargs="*", default=["given", "chosen"])
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("py4j").setLevel(logging.ERROR)
    source = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")) / "criteo_80k.tsv"
    path = Path(args.directory) / f"criteo_{args.rows}"
    for name, rows in (("train", args.rows), ("test", min(args.rows // 4, 1_000_000))):
        if not (path / name).exists():
            written(source, path / name, rows)
    with session("raw rows", SETTINGS) as spark:
        if "whole" in args.only:
            whole(spark, str(path / "train"), str(path / "test"), args.dimension, args)
        else:
            steps(spark, str(path / "train"), args.rows, args.dimension, args)


if __name__ == "__main__":
    main()
