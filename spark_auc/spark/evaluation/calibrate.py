"""Probabilities from the scores of any ranker, by Platt scaling or isotonic regression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np
import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.sql import DataFrame

from spark_auc.core import html
from spark_auc.core.types import Bool
from spark_auc.errors import DataError
from spark_auc.pipeline.calibration_fit import CalibrationSettings, calibration_curve
from spark_auc.pipeline.score_columns import ScoreColumns, check_score, score_values
from spark_auc.serving.score_curves import Curve, restored, saved
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.persistence import EstimatorStage, ModelStage
from spark_auc.tables.encoders import VECTOR, encode_vectors

# Most points of a curve in a notebook.
_SHOWN = 20


class ScoreCalibrationModel(ModelStage, Model, settings=CalibrationSettings):
    """A map from scores to probabilities; made by `ScoreCalibrator.fit` or by ``load``.

    ``transform`` adds probabilityCol (double: the probability of the positive class).

    Parameters
    ----------
    curve
        Slope and intercept, or boundaries and probabilities; corrected for down-sampling.

    Examples
    --------
    >>> from spark_auc import ScoreCalibrator
    >>> model = ScoreCalibrator(rawPredictionCol="age").fit(rows)
    >>> model.curve.slope > 0
    True
    """

    OUTPUTS = ("probabilityCol",)

    def __init__(self, curve: Curve | None = None) -> None:
        super().__init__()
        self._curve = curve

    @property
    def curve(self) -> Curve:
        """Slope and intercept, or boundaries and probabilities; corrected for down-sampling."""
        assert self._curve is not None, "a ScoreCalibrationModel is made by fit() or load()"
        return self._curve

    def _repr_html_(self) -> str:
        stored = saved(self.curve)
        shown = np.unique(np.linspace(0, len(stored) - 1, _SHOWN).round().astype(int))
        stored = stored.take(shown)
        head, rows = stored.column_names, zip(*stored.to_pydict().values(), strict=True)
        return html.page(f"{self.uid}: scores to probabilities", html.table(head, rows))

    def _transform(self, dataset: DataFrame) -> DataFrame:
        self.check_outputs(dataset)
        table, name, curve = SparkTable(dataset), self.getRawPredictionCol(), self.curve
        check_score(table, name)
        values: CalibrationSettings = self.values()
        invalid, vectors = values["handleInvalid"], values["vectorOutput"]

        def usable(arrays: Sequence[pa.Array]) -> Bool:
            scores = score_values(arrays[0]).fill_null(np.nan)
            return np.asarray(np.isfinite(scores.to_numpy(zero_copy_only=False)), np.bool_)

        def probabilities(arrays: Sequence[pa.Array]) -> list[pa.Array]:
            kept = usable(arrays)
            if invalid == "error" and not kept.all():
                (found, *_) = score_values(arrays[0]).filter(pa.array(~kept)).to_pylist()
                shown = "null" if found is None else found
                raise DataError(
                    f"found the score {shown} in column {name!r}, expected finite numbers; drop "
                    "these rows or set rawPredictionCol"
                )
            scores = score_values(arrays[0]).filter(pa.array(kept))
            p = curve.at(scores.to_numpy(zero_copy_only=False))
            made = encode_vectors(np.c_[1 - p, p]) if vectors else pa.array(p)
            return [made.take(pa.array(np.cumsum(kept) - 1, mask=~kept))]

        if invalid == "skip":
            table = table.where([name], usable)
        field = pa.field(self.getProbabilityCol(), VECTOR if vectors else pa.float64())
        return table.extended([name], probabilities, [field]).frame

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        return saved(self.curve), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._curve = restored(table)


class ScoreCalibrator(
    EstimatorStage,
    Estimator[ScoreCalibrationModel],
    settings=CalibrationSettings,
):
    """Learns to map the scores of any ranker to probabilities of the positive class.

    Fit it on rows that the ranker was not trained on, cached, as they are read several times.
    Platt scaling keeps the order of scores and so the AUC, up to rounding (log odds above 36 are
    probability 1); isotonic regression assumes no shape but ties scores.

    Raises
    ------
    ConfigError
        A Param is out of range; by ``fit``, a column cannot serve.
    DataError
        By ``fit``: a value cannot be used, there are not two classes, scores rank backwards, or
        ("platt") a threshold separates the classes, so that no sigmoid is steep enough.
    ConvergenceError
        By ``fit``: the logistic regression stopped short of its optimum.

    Examples
    --------
    >>> from spark_auc import ScoreCalibrator
    >>> calibrator = ScoreCalibrator(rawPredictionCol="age")
    >>> calibrated = calibrator.fit(rows).transform(rows)
    >>> calibrated.filter("probability between 0 and 1").count()
    200
    """

    OUTPUTS = ScoreCalibrationModel.OUTPUTS

    def __init__(self, **params: Unpack[CalibrationSettings]) -> None:
        super().__init__(**params)

    def _fit(self, dataset: DataFrame) -> ScoreCalibrationModel:
        self.check_outputs(dataset)
        values: CalibrationSettings = self.values()
        columns = ScoreColumns(
            values["rawPredictionCol"],
            values["labelCol"],
            values["positiveLabel"],
            values["weightCol"],
        )
        curve = calibration_curve(
            SparkTable(dataset), columns, values["method"], values["negativeSamplingRate"]
        )
        return self._copyValues(ScoreCalibrationModel(curve))
