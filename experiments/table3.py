"""MBA, Table III: AUC on benchmark data, with the penalty chosen on the training rows."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.datasets import SETS, DataSet, frame, load, present
from experiments.experiment import Experiment, Row, Settings
from experiments.paper import TABLE3
from experiments.pictures import panels
from spark_auc.app.report.pictures import GUIDE, NEGATIVE

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

    from spark_auc.spark.estimators.linear_ranker import LinearRankerModel

_log = logging.getLogger(__name__)

# With fewer training rows, the choice of the penalty depends strongly on the folds.
_FEW_ROWS = 5000


def run(settings: Settings) -> list[Row]:
    """One row per available data set."""
    from spark_auc.spark.evaluation.evaluate import evaluate

    assert settings.data is not None
    assert settings.spark is not None
    rows: list[Row] = []
    for name, data_set in present(settings.data).items():
        parts = load(settings.data, name)
        train, test = (frame(settings.spark, part) for part in parts)
        repeats = settings.repeats if parts[0].y.size <= _FEW_ROWS else 1
        model, seconds = _trained(train, data_set, settings.seed, repeats)
        report = evaluate(model.transform(test))
        paper, deviation = TABLE3.get(name, (None, None))
        auc = 100 * report.auc
        row = {
            "set": name,
            "rows": parts[0].y.size,
            "features": data_set.dimension,
            "auc": auc,
            "lower": 100 * report.interval.lower,
            "upper": 100 * report.interval.upper,
            "regParam": model.summary.reg_param,
            "seconds": seconds,
            "paper": paper,
            "deviation": deviation,
            "difference": None if paper is None else auc - paper,
            "note": data_set.note,
        }
        rows.append(row)
        _log.info("%s: %s", name, row)
    return rows


def _trained(
    train: DataFrame, data_set: DataSet, seed: int, repeats: int
) -> tuple[LinearRankerModel, float]:
    """The model of the penalty with the best mean AUC over repeats, and seconds per selection."""
    from spark_auc.spark.estimators.mba import MBAClassifier
    from spark_auc.spark.estimators.selector import MBASelector

    options: dict[str, Any] = {
        "featuresCol": ["indices", "values"],
        "numFeatures": data_set.dimension,
        "standardization": data_set.standardization,
    }
    start = time.perf_counter()
    tables = []
    for repeat in range(repeats):
        selection = MBASelector(**options, seed=seed + repeat).fit(train).summary.selection
        assert selection is not None
        # Candidates that were left out have no AUC.
        penalties_and_aucs = [(c["auc"], c["regParam"]) for c in selection["candidates"]]
        tables.append(np.array(penalties_and_aucs, dtype=float))
    seconds = (time.perf_counter() - start) / repeats
    auc, penalties = np.mean(tables, axis=0).T
    return MBAClassifier(**options, regParam=float(penalties[np.nanargmax(auc)])).fit(
        train
    ), seconds


def _finding(rows: Sequence[Row]) -> str:
    same = [row for row in rows if row["paper"] and not row["note"]]
    close = [row for row in same if row["difference"] >= -2 * row["deviation"] - 0.005]
    return (
        f"The AUC is at least the paper's minus two standard deviations on {len(close)} of the "
        f"{len(same)} sets with the paper's training and test rows."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    with panels(1) as (figure, (axes,)):
        figure.set_size_inches(5.0, 1.4 + 0.25 * len(rows))
        places = np.arange(len(rows))
        auc, lower, upper = (np.array([r[k] for r in rows]) for k in ("auc", "lower", "upper"))
        bounds = np.maximum([auc - lower, upper - auc], 0)
        axes.errorbar(auc, places, xerr=bounds, fmt="o", color=NEGATIVE, label="ours, 95%")
        known = [(k, row) for k, row in enumerate(rows) if row["paper"]]
        axes.errorbar(
            [row["paper"] for _, row in known],
            [k for k, _ in known],
            xerr=[2 * row["deviation"] for _, row in known],
            fmt="s",
            mfc="none",
            color=GUIDE,
            label="paper, 2 sd",
        )
        axes.set_yticks(places, [row["set"] for row in rows])
        axes.invert_yaxis()
        axes.set(title="MBA-l2", xlabel="test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Table III: benchmark data",
    about=(
        "Ridge on all pairs with the penalty chosen by 5-fold cross-validation on the training "
        f"rows (MBASelector); for up to {_FEW_ROWS:,d} rows, by the mean AUC over as many choices "
        "of folds as repeats. Test AUC with its 95% interval (DeLong). Columns are scaled to unit "
        "variance; reuters_earn and 20news.binary have rows of unit length instead. Seconds: per "
        "selection. Deviation: the paper's standard deviation over its repeats."
    ),
    run=run,
    columns={
        "set": ("data", ""),
        "rows": ("training rows", ",d"),
        "features": ("features", ",d"),
        "auc": ("AUC", ".2f"),
        "lower": ("from", ".2f"),
        "upper": ("to", ".2f"),
        "paper": ("paper's", ".2f"),
        "deviation": ("deviation", ".2f"),
        "difference": ("difference", "+.2f"),
        "regParam": ("penalty", ".3g"),
        "seconds": ("seconds", ".1f"),
        "note": ("differs in", ""),
    },
    finding=_finding,
    picture=_picture,
    files=SETS,
    needs_spark=True,
)
