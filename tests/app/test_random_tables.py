"""Random tables through both engines: the same decisions, and numbers up to rounding."""

import csv
import datetime as dt
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.app.config.sources import Source
from spark_auc.app.jobs.engines import LocalEngine, SparkEngine
from spark_auc.errors import SparkAUCError
from spark_auc.features.recipe_json import to_json
from spark_auc.pipeline.estimators import MBAEstimator, PipelineEstimator, RecipeEstimator

pytestmark = pytest.mark.slow

TABLES = int(os.environ.get("SPARK_AUC_RANDOM_TABLES", "60"))
ROWS = 160
WORDS = ["plain", "with, comma", 'a "quote"', "Köln", "two words", "x" * 300, "1e", "-"]
FIRST = dt.datetime(2024, 2, 27, 22, 30)
OPTIONS = {"header": True, "escape": '"', "mode": "FAILFAST", "enforceSchema": True}


def values(rng, kind):
    """A column of a kind, of which it has no missing values yet."""
    day, minutes = FIRST.date(), rng.integers(0, 90_000, ROWS).tolist()
    made = {
        "float": lambda: np.round(rng.normal(size=ROWS) * 10.0 ** rng.integers(-3, 7), 3).tolist(),
        "integer": lambda: rng.integers(-5, 10 ** rng.integers(1, 12), ROWS).tolist(),
        "few": lambda: rng.integers(0, 4, ROWS).tolist(),
        "boolean": lambda: rng.choice([True, False], ROWS).tolist(),
        "text": lambda: [WORDS[k] for k in rng.integers(0, len(WORDS), ROWS)],
        "code": lambda: [f"{k:04}" for k in rng.integers(0, 30, ROWS)],
        "date": lambda: [day + dt.timedelta(days=k // 200) for k in minutes],
        "time": lambda: [FIRST + dt.timedelta(minutes=k) for k in minutes],
        "constant": lambda: [7] * ROWS,
        "empty": lambda: [None] * ROWS,
    }
    return made[kind]()


KINDS = ["float", "integer", "few", "boolean", "text", "code", "date", "time", "constant", "empty"]


def random_table(rng):
    """Columns of random kinds and names, and those of labels, weights, folds and segments."""
    found = {}
    for number, kind in enumerate(rng.choice(KINDS, rng.integers(2, 6))):
        column = values(rng, kind)
        share = rng.choice([0.0, 0.1, 0.6])
        name = str(rng.choice([f"x{number}", f"a column, {number}", f"Größe{number}"]))
        found[name] = [None if rng.random() < share else value for value in column]
    first = next(iter(found.values()))
    ranks = np.argsort(np.argsort([str(value) for value in first])) / ROWS
    positive = rng.random(ROWS) < 0.15 + 0.5 * ranks
    found["label"] = [int(p) for p in positive]
    found["u"] = rng.integers(0, 4, ROWS).tolist()
    found["fold"] = rng.integers(0, 3, ROWS).tolist()
    found["part"] = [["north", "south", "east"][k] for k in rng.integers(0, 3, ROWS)]
    return found


def written(rng, found, place):
    """The table as Parquet or as text; a source of it."""
    if rng.random() < 0.4:
        pq.write_table(pa.table(found), f"{place}.parquet", row_group_size=70)
        return Source(path=f"{place}.parquet")
    separator = str(rng.choice([",", ";", "\t"]))
    quoting = csv.QUOTE_ALL if rng.random() < 0.3 else csv.QUOTE_MINIMAL
    with open(f"{place}.csv", "w", newline="") as file:
        out = csv.writer(file, delimiter=separator, quoting=quoting, lineterminator="\n")
        out.writerow(found)
        out.writerows(zip(*found.values(), strict=True))
    options = OPTIONS | {"sep": separator}
    return Source(format="csv", path=f"{place}.csv", options=options, types="auto")


def fitted(engine, source, ranker):
    """The model and its evaluation, or the class of the error."""
    recipe = RecipeEstimator(leaveOut=["fold"], dimension=64, numKnots=5)
    try:
        with engine.read(source) as table:
            model = PipelineEstimator([recipe, ranker]).fitted(table)
            return model, model.evaluate(table, groupCol="part"), list(table.schema)
    except SparkAUCError as error:
        return type(error)


@pytest.mark.parametrize("seed", range(TABLES))
def test_both_engines(spark, tmp_path, seed):
    rng = np.random.default_rng([7, seed])
    source = written(rng, random_table(rng), tmp_path / "rows")
    settings = {"labelCol": "label", "weightCol": "u"}
    if rng.random() < 0.3:
        settings |= {"foldCol": "fold"}
    else:
        settings |= {"regParam": 0.01}
    if rng.random() < 0.3:
        settings["segmentCol"] = "part"
    ranker = MBAEstimator(**settings)
    mine, theirs = (fitted(e, source, ranker) for e in (LocalEngine(), SparkEngine(spark)))
    if isinstance(mine, type) or isinstance(theirs, type):
        assert mine == theirs
        return
    assert [f.name for f in mine[2]] == [f.name for f in theirs[2]]
    a, b = mine[0], theirs[0]
    assert to_json(a.recipe) == to_json(b.recipe)
    assert a.summary.rows == b.summary.rows
    assert a.summary.reg_param == pytest.approx(b.summary.reg_param, rel=1e-9)
    assert a.summary.segments is None or {*a.summary.segments} == {*b.summary.segments}
    w, v = a.ranker.scorer.w, b.ranker.scorer.w
    np.testing.assert_allclose(w, v, rtol=1e-6, atol=1e-9 * np.abs(v).max())
    assert mine[1].auc == pytest.approx(theirs[1].auc, abs=1e-9)
    for one, other in zip(mine[1].groups.rows, theirs[1].groups.rows, strict=True):
        assert (one.value, one.positive, one.negative) == (
            other.value,
            other.positive,
            other.negative,
        )
        assert one.auc == pytest.approx(other.auc, abs=1e-9, nan_ok=True)
