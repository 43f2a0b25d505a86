"""MBA, Figure 7: AUC against the penalty on click logs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import numpy as np

from experiments.experiment import Experiment, Row, Settings
from experiments.paper import FIGURE7_LEAD
from experiments.pictures import panels
from experiments.training import percent
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE
from spark_auc.core.batch import stacked
from spark_auc.core.moments.objective import ElasticNet
from spark_auc.core.moments.operator import pair_moments
from spark_auc.core.products import settled_scores
from spark_auc.solvers.path import path

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from spark_auc.tables.rows import TableRows

_log = logging.getLogger(__name__)

CRITEO, DIMENSION, TRAINING_ROWS = "criteo_80k.tsv", 4096, 64_000
# As in the paper, the elastic net halves the penalty between l1 and l2.
MIXES = {"l2": 0.0, "elastic net": 0.5, "l1": 1.0}
_COLOURS = dict(zip(MIXES, (NEGATIVE, GUIDE, POSITIVE), strict=True))
_STRONGEST, _WEAKEST, _STEPS = 1e-1, 1e-5, 9


def run(settings: Settings) -> list[Row]:
    """One row per penalty; all penalties are solved from the moments of one pass."""
    from spark_auc.spark.data.raw import criteo
    from spark_auc.spark.data.split import by_position

    assert settings.data is not None
    assert settings.spark is not None
    file = settings.data / CRITEO
    split = by_position(criteo(settings.spark, file.uri, DIMENSION), TRAINING_ROWS)
    train, test = (_rows(split.where(f"part = '{part}'")) for part in ("train", "test"))
    quadratic = pair_moments(train).quadratic()
    held_out = stacked(test.gathered().batches)
    rows: list[Row] = []
    for name, mix in MIXES.items():
        # From this penalty on, all weights are 0.
        ceiling = quadratic.lambda1_max / mix if mix else np.inf
        grid = [float(reg) for reg in np.geomspace(_STRONGEST, _WEAKEST, _STEPS) if reg < ceiling]
        penalties = [ElasticNet.of(reg, mix) for reg in grid]
        solutions = path(quadratic, penalties, tol=1e-5, max_iter=5000)
        for reg, solution in zip(grid, solutions, strict=True):
            w = solution.checked("raise").w
            auc = percent(settled_scores(held_out.X, w), held_out.y)
            nonzeros = int(np.count_nonzero(w))
            rows.append({"penalty": name, "regParam": reg, "auc": auc, "nonzeros": nonzeros})
            _log.info("%s", rows[-1])
    return rows


def _rows(frame: DataFrame) -> TableRows:
    from spark_auc.spark.data.spark_table import SparkTable
    from spark_auc.tables.columns import TrainingColumns
    from spark_auc.tables.features import PreparedFeatures
    from spark_auc.tables.rows import TableRows

    table = SparkTable(frame)
    features = PreparedFeatures.resolve(table, "features", DIMENSION)
    return TableRows.of(table, TrainingColumns.resolve(table, features, "label"))


def _best(rows: Sequence[Row], name: str) -> Row:
    return max((row for row in rows if row["penalty"] == name), key=lambda row: row["auc"])


def _finding(rows: Sequence[Row]) -> str:
    parts = [
        f"{name} {best['auc']:.2f} at {best['regParam']:.2g} with {best['nonzeros']} weights"
        for name, best in ((name, _best(rows, name)) for name in MIXES)
    ]
    return (
        f"Best AUC: {', '.join(parts)} (paper, on all of Criteo: all three equal, {FIGURE7_LEAD} "
        "points above the best other algorithm)."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    with panels(2) as (figure, axes):
        for name, colour in _COLOURS.items():
            of_penalty = [row for row in rows if row["penalty"] == name]
            x = [row["regParam"] for row in of_penalty]
            for panel, key in zip(axes, ("auc", "nonzeros"), strict=True):
                y = [cast(float, row[key]) for row in of_penalty]
                panel.plot(x, y, "o-", markersize=3, color=colour, label=name)
        axes[0].set(title="test AUC (%)", xscale="log", xlabel="regParam")
        axes[1].set(title="nonzero weights", xscale="log", xlabel="regParam")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Figure 7: penalties on click logs",
    about=(
        f"The Criteo sample {CRITEO}: the first {TRAINING_ROWS:,d} rows are training rows, the "
        f"others are test rows; one-hot rows hashed to {DIMENSION:,d} columns, of unit length. All "
        "penalties are solved from the moments of one pass. The paper uses all rows of Criteo and "
        "Avazu, and compares other algorithms, which are not run."
    ),
    run=run,
    columns={
        "penalty": ("penalty", ""),
        "regParam": ("regParam", ".2g"),
        "auc": ("AUC", ".2f"),
        "nonzeros": ("nonzero weights", ",d"),
    },
    finding=_finding,
    picture=_picture,
    files=(CRITEO,),
    needs_spark=True,
)
