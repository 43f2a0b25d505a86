"""Maps of scores to probabilities, fitted to scored rows: Platt scaling and isotonic regression."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import numpy as np
import pyarrow as pa

from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.types import Float
from spark_auc.errors import ConvergenceError, DataError
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.pipeline.score_tables import Scored, tabulated
from spark_auc.pipeline.settings import LabelSettings, Range, Setting, WeightSettings
from spark_auc.serving.score_curves import Curve, Isotone, Sigmoid
from spark_auc.tables.table import Batches, Table

_MOST_STEPS, _MOST_HALVINGS = 100, 40
# Newton's steps end where the next would lower the loss by less than this share of it.
_DECREMENT = 1e-15
_BLOCKS = pa.schema([(name, pa.float64()) for name in ("low", "high", "positive", "weight")])


class CalibrationSettings(LabelSettings, WeightSettings, total=False):
    """Settings of `ScoreCalibrator`, and of its model."""

    rawPredictionCol: Annotated[
        str,
        Setting(
            "Scores: numbers, or vectors of two as Spark ML's classifiers give, of which the last "
            "counts.",
            "rawPrediction",
        ),
    ]
    probabilityCol: Annotated[str, Setting("Column that the model adds.", "probability")]
    vectorOutput: Annotated[
        bool,
        Setting(
            "Whether probabilities are vectors of two, (negative, positive), as those of Spark "
            "ML's classifiers.",
            False,
        ),
    ]
    handleInvalid: Annotated[
        Literal["error", "skip", "keep"],
        Setting(
            "What the model does with scores that are null, NaN or infinite: 'error' fails the "
            "job, 'skip' leaves the rows out, 'keep' gives them a null probability.",
            "error",
        ),
    ]
    method: Annotated[
        Literal["platt", "isotonic"],
        Setting(
            "'platt': logistic regression on the score, without penalty (Platt 1999, but with the "
            "labels as they are); 'isotonic' (Zadrozny and Elkan 2002).",
            "platt",
        ),
    ]
    negativeSamplingRate: Annotated[
        float,
        Setting(
            "Share of negatives kept, at random. True odds are those of the rows times the rate "
            "(Elkan 2001, Theorem 2; prior correction of King and Zeng 2001): intercept + "
            "log(rate), or p rate / (p rate + 1 - p).",
            1.0,
            Range(gt=0, le=1),
        ),
    ]


def calibration_curve(
    table: Table, columns: ScoreColumns, method: str, negative_sampling_rate: float = 1.0
) -> Curve:
    """The map from scores to probabilities of the positive class.

    Parameters
    ----------
    table
        Scored rows that the ranker was not trained on.
    columns
        Names of their columns.
    method
        "platt": the maximum of the likelihood of a sigmoid, without penalty; "isotonic": the
        rising curve of least squares (Zadrozny and Elkan 2002).
    negative_sampling_rate
        Share of negatives that were kept; the curve is corrected for it (Elkan 2001, Theorem 2).

    Raises
    ------
    ConfigError
        A column is unknown or of an unsupported type.
    DataError
        A value cannot be used, there are not two classes, scores rank backwards, or ("platt") a
        threshold separates the classes, so that no sigmoid is steep enough.
    ConvergenceError
        ("platt") Newton's method stopped short of the optimum.
    """
    with tabulated(table, columns) as scored:
        (low, down), (up, high) = _spans(scored)
        if high <= low:
            raise _no_order(f"positives up to {high} and negatives from {low}")
        if up >= down and method == "platt":
            raise DataError(
                f"found negatives up to {down} and positives from {up}: no sigmoid is steep "
                "enough; expected an overlap; calibrate on rows not used for training, or set "
                "method='isotonic'"
            )
        rate = negative_sampling_rate
        return _sigmoid(scored, rate) if method == "platt" else _isotone(scored, rate)


def _spans(scored: Scored) -> list[tuple[float, float]]:
    """The least and the greatest score of the negative and of the positive rows."""

    def spans(table: ScoreTable) -> list[float]:
        found = []
        for side in (1, 0):
            own = table.score[table.weight[side] > 0]
            found += [own.min(initial=np.inf), own.max(initial=-np.inf)]
        return found

    values = _of_tables(scored, spans, 4)
    return [(values[:, k].min(), values[:, k + 1].max()) for k in (0, 2)]


def _sigmoid(scored: Scored, rate: float) -> Sigmoid:
    """Newton's method for the likelihood, on scores of mean 0 and deviation 1."""

    def moments(table: ScoreTable) -> list[float]:
        weight, score = table.weight.sum(axis=0), table.score
        return [weight.sum(), weight @ score, weight @ score**2]

    total, first, second = _of_tables(scored, moments, 3).sum(axis=0)
    mean = first / total
    spread = float(np.sqrt(max(second / total - mean**2, 0.0))) or 1.0

    def sums(point: Float) -> Float:
        slope, shift = point

        def of(table: ScoreTable) -> list[float]:
            z, (up, down) = (table.score - mean) / spread, table.weight
            logit = slope * z + shift
            loss = up @ np.logaddexp(0, -logit) + down @ np.logaddexp(0, logit)
            p = np.exp(-np.logaddexp(0, -logit))
            error, curvature = (up + down) * p - up, (up + down) * p * (1 - p)
            return [
                loss,
                *(error @ z, error.sum()),
                *(curvature @ z**2, curvature @ z, curvature.sum()),
            ]

        return np.asarray(_of_tables(scored, of, 6).sum(axis=0))

    share = scored.table.weight.sum(axis=1)[0] / total
    point = np.array([0.0, np.log(share / (1 - share))])
    now = sums(point)
    for _ in range(_MOST_STEPS):
        gradient, (a, b, c) = now[1:3], now[3:]
        step = np.linalg.solve(np.array([[a, b], [b, c]]), gradient)
        if gradient @ step <= _DECREMENT * now[0]:
            break
        for halving in range(_MOST_HALVINGS):
            there = point - step / 2**halving
            if (found := sums(there))[0] < now[0]:
                break
        else:
            # Rounding hides what the step would gain.
            break
        point, now = there, found
    else:
        raise ConvergenceError(
            f"found that Platt scaling did not converge in {_MOST_STEPS} steps, expected about 10; "
            "rescale the scores"
        )
    slope = float(point[0] / spread)
    if not slope > 0:
        raise _no_order(f"the best sigmoid to have the slope {slope}")
    return Sigmoid(slope, float(point[1] - slope * mean + np.log(rate)))


def _isotone(scored: Scored, rate: float) -> Isotone:
    """Pool the violators of each range of scores, and then those of all ranges."""

    def blocks(_: int, table: ScoreTable) -> pa.RecordBatch:
        positive, negative = table.weight
        return _pooled(table.score, table.score, positive, positive + negative)

    found = scored.by_range(blocks, _BLOCKS).gathered()
    assert found is not None
    found = found.sort_by("low")
    low, high, positive, weight = (column.to_numpy() for column in found.columns)
    low, high, positive, weight = (
        column.to_numpy() for column in _pooled(low, high, positive, weight).columns
    )
    share = positive / weight
    if share[0] == share[-1]:
        raise _no_order(f"the best rising curve to be {share[0]} everywhere")
    # These are also the knots of a fit in which a negative row weighs 1 / rate.
    probabilities = share * rate / (share * rate + 1 - share)
    bounds, both = np.c_[low, high].ravel(), np.repeat(probabilities, 2)
    kept = np.append(True, np.diff(bounds) > 0)
    return Isotone(bounds[kept], both[kept])


def _pooled(low: Float, high: Float, positive: Float, weight: Float) -> pa.RecordBatch:
    """Adjacent blocks of scores, pooled where the share of positives would fall."""
    # The import takes a quarter of a second, for isotonic curves alone.
    from scipy.optimize import isotonic_regression

    some = weight > 0
    low, high, positive, weight = low[some], high[some], positive[some], weight[some]
    if not weight.size:
        return pa.RecordBatch.from_pylist([], _BLOCKS)
    ends = isotonic_regression(positive / weight, weights=weight).blocks
    first, last = ends[:-1], ends[1:] - 1
    made = low[first], high[last], np.add.reduceat(positive, first), np.add.reduceat(weight, first)
    return pa.RecordBatch.from_arrays([pa.array(values) for values in made], schema=_BLOCKS)


def _of_tables(scored: Scored, function: Callable[[ScoreTable], list[Any]], size: int) -> Float:
    """What a function makes of each score table, ``(t, size)``."""
    schema = pa.schema([(f"v{k}", pa.float64()) for k in range(size)])

    def run(batches: Batches) -> Batches:
        for batch in batches:
            tables = (ScoreTable.from_bytes(v) for v in batch.column(0).to_pylist() if v)
            rows = [function(table) for table in tables if table.score.size]
            if rows:
                arrays = [pa.array(column, pa.float64()) for column in zip(*rows, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    found = scored.tables.map(run, schema).gathered()
    assert found is not None
    return np.stack([column.to_numpy() for column in found.columns], axis=1)


def _no_order(found: str) -> DataError:
    return DataError(
        f"found {found}, expected more positives at higher scores; if scores rank backwards, "
        "negate them or check positiveLabel"
    )
