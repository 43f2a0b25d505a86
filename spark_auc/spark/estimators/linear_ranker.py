"""The linear ranker that all estimators return."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa
from pyspark.ml import Model
from pyspark.ml.classification import LogisticRegressionModel
from pyspark.ml.linalg import DenseVector, SparseVector, Vector, Vectors
from pyspark.sql import DataFrame
from pyspark.sql.utils import is_remote
from scipy import sparse

from spark_auc.core import html
from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Rows
from spark_auc.errors import ConfigError
from spark_auc.pipeline.ranker_fit import RankerModel
from spark_auc.pipeline.ranker_settings import OUTPUTS, LinearRankerSettings
from spark_auc.pipeline.scored_rows import scored_rows
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Curve
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.spark.evaluation.evaluate import evaluate
from spark_auc.spark.persistence import ModelStage
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.table import Table
from spark_auc.training.summary import TrainingSummary


class LinearRankerModel(
    RankerModel,
    ModelStage,
    Model,
    settings=LinearRankerSettings,
):
    """A linear ranker; made by the ``fit`` of an estimator or by ``load``.

    ``transform`` adds rawPredictionCol (double: the score ``w'x``, an uncalibrated ranking score;
    use `ScoreCalibrator` for probabilities) and predictionCol (one of the two label values, of the
    label's type if it is boolean or string, else double).

    Parameters
    ----------
    scorer
        Weights, threshold and labels.
    summary
        How the model was made.
    moments
        The pair moments it was made from.

    Attributes
    ----------
    moments
        The pair moments, directly after a fit with keepMoments; None otherwise.

    Examples
    --------
    >>> from spark_auc import MBAClassifier
    >>> model = MBAClassifier(featuresCol=["position", "age"], regParam=0.1).fit(rows)
    >>> [bool(weight > 0) for weight in model.coefficients]
    [False, True]
    >>> model.transform(rows).select("rawPrediction", "prediction").columns
    ['rawPrediction', 'prediction']
    """

    OUTPUTS = OUTPUTS

    def __init__(
        self,
        scorer: LinearScorer | None = None,
        summary: TrainingSummary | None = None,
        moments: PairMoments | None = None,
    ) -> None:
        super().__init__()
        self._scorer = scorer
        self._summary = summary
        self.moments = moments

    @property
    def scorer(self) -> LinearScorer:
        """Weights, threshold and labels."""
        assert self._scorer is not None, "a LinearRankerModel is made by fit() or load()"
        return self._scorer

    @property
    def summary(self) -> TrainingSummary:
        """How the model was made."""
        assert self._summary is not None, "a LinearRankerModel is made by fit() or load()"
        return self._summary

    def _repr_html_(self) -> str:
        return html.page(f"{self.uid}: {self.numFeatures} features", self.summary._repr_html_())

    def with_parts(self, scorer: LinearScorer, summary: TrainingSummary) -> LinearRankerModel:
        """See `RankerModel.with_parts`."""
        return self._copyValues(LinearRankerModel(scorer, summary, self.moments))

    @property
    def coefficients(self) -> DenseVector:
        """Weights ``(d,)`` for raw feature values; with segments, of the ranker of all rows."""
        return Vectors.dense(self.scorer.w)

    @property
    def numFeatures(self) -> int:
        """Number of features ``d``, as Spark ML's models name it."""
        # Here, too: a setting has this name, and a class's own members go before its settings.
        return super().numFeatures

    @property
    def intercept(self) -> float:
        """0: the score is ``w'x``, and the threshold stands beside it."""
        return 0.0

    def predictRaw(self, value: Vector) -> DenseVector:
        """The score of one row and its negation, ``[-w'x, w'x]``, without a Spark job.

        Parameters
        ----------
        value
            The features of the row.

        Raises
        ------
        ConfigError
            The model has rankers of segments.
        DataError
            The row has another number of features, or one that is NaN or infinite.
        """
        if self.scorer.segments is not None:
            raise ConfigError(
                "found a vector for rankers of segments, expected the row with its segment; use "
                "transform, or load the model by spark_auc.load"
            )
        score = float(ServedRanker(self.scorer).score(_row(value))[0])
        return Vectors.dense([-score, score])

    def predict(self, value: Vector) -> Label:
        """The predicted label of one row; see `predictRaw`."""
        above = self.predictRaw(value)[1] >= self.getThreshold()
        return self.scorer.positive if above else self.scorer.negative

    def toLogisticRegressionModel(self, curve: Curve | None = None) -> LogisticRegressionModel:
        """The ranker as Spark ML's model, with the columns of this one.

        Parameters
        ----------
        curve
            The curve of a `ScoreCalibrationModel` of Platt scaling. Default: scores are taken for
            log odds; see `spark_auc.to_logistic_regression`, also for the errors.

        Raises
        ------
        ConfigError
            The session is one of Spark Connect, or featuresCol names several columns.

        Notes
        -----
        It passes through the temporary directory of the driver, which on a cluster the executors
        must reach too. Elsewhere, write it by `spark_auc.to_logistic_regression` to a path that all
        reach, and load it from there.
        """
        # Executors import this file, and have no pydantic.
        from spark_auc.export.logistic import to_logistic_regression

        if is_remote():
            raise ConfigError(
                "found a session of Spark Connect, whose server need not reach this directory, "
                "expected classic Spark; write the model by spark_auc.to_logistic_regression to a "
                "path that the server reaches, and load it by LogisticRegressionModel.load"
            )
        values = self.values()
        names = "featuresCol", "labelCol", "predictionCol", "rawPredictionCol"
        columns = {name: values[name] for name in names}
        if not isinstance(values["featuresCol"], str):
            raise ConfigError(
                f"found featuresCol {values['featuresCol']}, expected one column of vectors for "
                "Spark ML's model; assemble them by VectorAssembler, and set featuresCol of a copy "
                "to its output"
            )
        ranker = ServedRanker(replace(self.scorer, threshold=self.getThreshold()), curve=curve)
        with tempfile.TemporaryDirectory() as directory:
            path = f"file://{directory}/model"
            to_logistic_regression(ranker, path, **columns)
            return LogisticRegressionModel.load(path)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        return self.scored(dataset, self.input_features(SparkTable(dataset)))

    def input_features(self, table: Table) -> Features:
        """The features of a table's rows, in the columns that featuresCol names."""
        return PreparedFeatures.resolve(table, self.getFeaturesCol(), self.numFeatures)

    def evaluate(self, dataset: DataFrame, **measures: Any) -> AUCReport:
        """Score labelled rows, and measure the scores.

        Parameters
        ----------
        dataset
            The rows, with the label and weight columns of the training.
        measures
            Further arguments of `spark_auc.evaluate`, such as maxFPR or groupCol.

        Returns
        -------
        AUCReport
            The AUC with its interval, curves and thresholds.

        Errors are those of ``transform`` and `spark_auc.evaluate`.
        """
        model = self.beside(dataset)
        return model.measured(model.transform(dataset), **measures)

    def measured(self, scored: DataFrame, **measures: Any) -> AUCReport:
        """The evaluation of rows that have this model's scores; see `evaluate`."""
        columns = {
            "scoreCol": self.getRawPredictionCol(),
            "labelCol": self.getLabelCol(),
            "positiveLabel": self.scorer.positive,
            "weightCol": self.values()["weightCol"],
        }
        return evaluate(scored, **(columns | measures))

    def scored(self, dataset: DataFrame, features: Features) -> DataFrame:
        """Add the columns of scores and predictions.

        Parameters
        ----------
        dataset
            The rows.
        features
            The features of its rows.

        Raises
        ------
        ConfigError
            The rows have a column of these names already.
        """
        self.check_outputs(dataset)
        values, threshold = self.values(), self.getThreshold()
        table = scored_rows(SparkTable(dataset), self.scorer, features, values, threshold=threshold)
        return cast(SparkTable, table).frame

    def _saved(self) -> tuple[pa.Table, dict[str, Any]]:
        table, facts = self.scorer.saved()
        return table, facts | {"summary": self.summary.as_dict()}

    def _loaded(self, table: pa.Table, facts: dict[str, Any]) -> None:
        self._scorer = LinearScorer.restored(table, facts)
        self._summary = TrainingSummary.from_dict(facts["summary"])


def _row(value: Vector) -> Rows:
    """A vector as one row of features."""
    if not isinstance(value, SparseVector):
        return np.asarray(value.toArray(), float)[None]
    indptr = np.array([0, value.indices.size], np.int32)
    return sparse.csr_matrix((value.values, value.indices, indptr), (1, value.size))
