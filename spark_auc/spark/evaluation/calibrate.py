"""Probabilities from the scores of any ranker, by Platt scaling or isotonic regression."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Unpack

import numpy as np
import pyarrow as pa
from pyspark.ml import Estimator, Model
from pyspark.ml.classification import LogisticRegression
from pyspark.ml.feature import VectorAssembler
from pyspark.ml.param import shared
from pyspark.ml.regression import IsotonicRegression
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.core import html
from spark_auc.core.batch import WEIGHTS
from spark_auc.core.labels import LabelCounts
from spark_auc.errors import ConvergenceError, DataError
from spark_auc.pipeline.settings import LabelSettings, Range, Setting, WeightSettings
from spark_auc.serving.score_curves import Curve, Isotone, Sigmoid, restored, saved
from spark_auc.spark.data.checks import checked
from spark_auc.spark.data.failures import translated
from spark_auc.spark.data.row_columns import label_column, weight_column
from spark_auc.spark.evaluation.score_columns import score_column, vector_of_two
from spark_auc.spark.persistence import EstimatorStage, ModelStage, Stage

# Most points of a curve in a notebook.
_SHOWN = 20


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


class CalibrationColumns(
    Stage,
    shared.HasRawPredictionCol,
    shared.HasLabelCol,
    shared.HasWeightCol,
    shared.HasProbabilityCol,
):
    """The columns of `ScoreCalibrator` and `ScoreCalibrationModel`."""

    OUTPUTS = ("probabilityCol",)


class ScoreCalibrationModel(CalibrationColumns, ModelStage, Model, settings=CalibrationSettings):
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
        name = self.getRawPredictionCol()
        score = score_column(dataset, name)
        text = (
            "found the score %s in column %s, expected finite numbers; drop these rows or set "
            "rawPredictionCol"
        )
        values: CalibrationSettings = self.values()
        usable = _usable(F.abs(score))
        if values["handleInvalid"] == "error":
            fault = F.when(~usable, F.format_string(text, score.cast("string"), F.lit(repr(name))))
            probability = _probability(self.curve, checked(score, fault))
        else:
            probability = F.when(usable, _probability(self.curve, score))
        if values["handleInvalid"] == "skip":
            dataset = dataset.filter(usable)
        if values["vectorOutput"]:
            probability = vector_of_two(1 - probability, probability)
        return dataset.withColumn(self.getProbabilityCol(), probability)

    def _saved(self) -> tuple[pa.Table | None, dict[str, Any]]:
        return saved(self.curve), {}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._curve = restored(table)


class ScoreCalibrator(
    CalibrationColumns,
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
    TypeError
        A Param is unknown or of another type.
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

    def __init__(self, **params: Unpack[CalibrationSettings]) -> None:
        super().__init__(**params)

    def _fit(self, dataset: DataFrame) -> ScoreCalibrationModel:
        self.check_outputs(dataset)
        values: CalibrationSettings = self.values()
        method, rate = values["method"], values["negativeSamplingRate"]
        label, positive = label_column(dataset, values["labelCol"], values["positiveLabel"])
        weight = values["weightCol"]
        rows = dataset.select(
            score_column(dataset, values["rawPredictionCol"]).alias("score"),
            label.alias("label"),
            (weight_column(dataset, weight) if weight else F.lit(1.0)).alias("weight"),
        )
        rows = rows.filter(~F.col("weight").eqNullSafe(0.0))
        with translated():
            by_label = _by_label(rows)
            labels = LabelCounts({value: row["rows"] for value, row in by_label.items()})
            truth, untruth = labels.classes(positive)
            up, down = by_label[truth], by_label[untruth]
            if up["high"] <= down["low"]:
                raise _no_order(f"positives up to {up['high']} and negatives from {down['low']}")
            if up["low"] >= down["high"] and method == "platt":
                raise DataError(
                    f"found negatives up to {down['high']} and positives from {up['low']}: no "
                    "sigmoid is steep enough; expected an overlap; calibrate on rows not used for "
                    "training, or set method='isotonic'"
                )
            binary = rows.withColumn("label", (F.col("label") == truth).cast("double"))
            curve = (_sigmoid if method == "platt" else _isotone)(binary, rate)
        return self._copyValues(ScoreCalibrationModel(curve))


def _sigmoid(rows: DataFrame, rate: float) -> Curve:
    """Fit by maximum likelihood and correct for the share ``rate`` of negatives kept."""
    vectors = VectorAssembler(inputCols=["score"], outputCol="features").transform(rows)
    model = LogisticRegression(weightCol="weight", tol=1e-9, maxIter=100).fit(vectors)
    if model.summary.totalIterations >= 100:
        raise ConvergenceError(
            "found that Platt scaling did not converge in 100 iterations, expected about 10; "
            "rescale the scores"
        )
    slope = float(model.coefficients[0])
    if not slope > 0:
        raise _no_order(f"the best sigmoid to have the slope {slope}")
    return Sigmoid(slope, float(model.intercept) + float(np.log(rate)))


def _isotone(rows: DataFrame, rate: float) -> Curve:
    """Fit by least squares and correct for the share ``rate`` of negatives kept."""
    model = IsotonicRegression(featuresCol="score", weightCol="weight").fit(rows)
    share = model.predictions.toArray()
    if share[0] == share[-1]:
        raise _no_order(f"the best rising curve to be {share[0]} everywhere")
    # These are also the knots of a fit in which a negative row weighs 1 / rate.
    return Isotone(model.boundaries.toArray(), share * rate / (share * rate + 1 - share))


def _probability(curve: Curve, score: Column) -> Column:
    """The probability at each score."""
    if isinstance(curve, Sigmoid):
        # An exponential that overflows gives infinity, whose inverse is the 0 wanted.
        return 1 / (F.exp(-(score * curve.slope + curve.intercept)) + 1)

    def probabilities(scores: pa.Array) -> pa.Array:
        return pa.array(curve.at(scores.to_numpy()))

    # Spark reads the types themselves, which are but text under postponed annotations.
    probabilities.__annotations__ = {"scores": pa.Array, "return": pa.Array}
    column: Column = arrow_udf(probabilities, "double")(score)  # type: ignore[call-overload]
    return column


def _usable(number: Column) -> Column:
    """Whether a number >= 0 is neither null nor NaN, which Spark orders last, nor infinite."""
    return F.coalesce(number < float("inf"), F.lit(False))


def _no_order(found: str) -> DataError:
    return DataError(
        f"found {found}, expected more positives at higher scores; if scores rank backwards, "
        "negate them or check positiveLabel"
    )


def _by_label(rows: DataFrame) -> dict[Any, dict[str, Any]]:
    """Rows and range of scores of each label, up to a few; `DataError` if a value is unusable."""
    score, label, weight = F.col("score"), F.col("label"), F.col("weight")
    faults = {
        "scores that are null, NaN or infinite": ~_usable(F.abs(score)),
        "labels that are null or NaN": label.isNull() | (label.cast("string") == "NaN"),
        "weights that are not finite and positive": ~(_usable(weight) & weight.between(*WEIGHTS)),
    }
    found = rows.groupBy("label").agg(
        F.count(F.lit(1)).alias("rows"),
        F.min(score).alias("low"),
        F.max(score).alias("high"),
        *(F.count_if(wrong).alias(what) for what, wrong in faults.items()),
    )
    # Null sorts first, and more than two values are wrong however many.
    groups = found.orderBy("label").limit(11).collect()
    counts = {what: sum(row[what] for row in groups) for what in ["rows", *faults]}
    if bad := ", ".join(f"{counts[what]} {what}" for what in faults if counts[what]):
        raise DataError(f"found {bad} among {counts['rows']} rows, expected none; drop these rows")
    return {row["label"]: row.asDict() for row in groups}
