"""What all estimators of a linear ranker share."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from spark_auc.core.labels import Label
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError
from spark_auc.features.recipe import Recipe
from spark_auc.features.shared_names import names_beside
from spark_auc.pipeline.has_settings import HasSettings
from spark_auc.pipeline.prior_settings import FittedRanker, NamedWeights
from spark_auc.serving.linear_scorer import LinearScorer, SegmentScorer
from spark_auc.solvers.candidates import Candidate
from spark_auc.tables.columns import FoldColumn, TrainingColumns
from spark_auc.tables.features import Features, PreparedFeatures
from spark_auc.tables.raw_features import EmbeddedFeatures, RawFeatures
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.table import Table
from spark_auc.training.prior import Prior
from spark_auc.training.result import TrainingResult
from spark_auc.training.segments import SegmentRankers
from spark_auc.training.summary import TrainingSummary

_log = logging.getLogger(__name__)


class RankerModel:
    """A fitted linear ranker of any engine."""

    if TYPE_CHECKING:
        # What the class of an engine has.
        @property
        def scorer(self) -> LinearScorer:
            """Weights, threshold and labels."""

        @property
        def summary(self) -> TrainingSummary:
            """How it was made."""

        def values(self) -> Any:
            """Values of all settings by name."""

    def with_parts(self, scorer: LinearScorer, summary: TrainingSummary) -> Self:
        """The ranker with another scorer and summary."""
        raise NotImplementedError

    @property
    def numFeatures(self) -> int:
        """Number of features ``d``, as Spark ML's models name it."""
        return int(self.scorer.w.size)

    def getThreshold(self) -> float:
        """Scores at or above it are predicted positive: that of setThreshold or of the training."""
        chosen = self.values()["threshold"]
        return self.scorer.threshold if chosen is None else float(chosen)

    @property
    def segments(self) -> SegmentColumn | None:
        """The segments with rankers of their own, or else those that were measured."""
        made, own = self.summary.segments, self.scorer.segments
        if made is None:
            return None
        values = tuple(made["segments"]) if own is None else own.weights.values
        return SegmentColumn(made["column"], values)

    def named_weights(self) -> NamedWeights:
        """Weights of raw features, and their names; with segments, of the ranker of all rows."""
        return NamedWeights(self.scorer.w, self.scorer.names)

    def with_summary(self, summary: TrainingSummary) -> Self:
        """The same ranker with another summary."""
        return self.with_parts(self.scorer, summary)

    def renamed(self, names: Mapping[str, str]) -> Self:
        """The same ranker with other names of features among its largest weights."""
        return self.with_summary(self.summary.renamed(names))

    def with_segments(self, column: str, made: SegmentRankers) -> Self:
        """The ranker with rankers of segments, if there are any, and how they were chosen."""
        summary = replace(self.summary, segments={"column": column, **made.selection})
        scorer = self.scorer
        if made.weights is not None:
            segments = SegmentScorer(column, made.weights)
            scorer = replace(scorer, segments=segments, threshold=made.threshold)
        return self.with_parts(scorer, summary)


class RankerFit(HasSettings):
    """Fits a linear ranker; its settings extend `RankerSettings`."""

    @property
    def selects(self) -> bool:
        """Whether ``fit`` chooses a penalty on held-out folds."""
        return False

    @property
    def factors(self) -> tuple[float, ...]:
        """Factors of the roughness of curves to choose from; none without a penalty of it."""
        return ()

    def fitted(self, table: Table, features: Features | None = None) -> Any:
        """Train on the rows of a table.

        Parameters
        ----------
        table
            The rows.
        features
            The features of its rows. Default: the columns that the settings name.

        Returns
        -------
        RankerModel
            The ranker.
        """
        raise NotImplementedError

    def ranker_model(
        self, scorer: LinearScorer, summary: TrainingSummary, moments: PairMoments | None
    ) -> Any:
        """The model of a training run, with the values of these settings."""
        raise NotImplementedError

    def loaded_prior(self, path: str) -> FittedRanker:
        """The ranker that is saved at a path."""
        raise NotImplementedError

    def resolved(
        self,
        table: Table,
        features: Features | None = None,
        key: str | None = None,
        folds: FoldColumn | None = None,
        placed: bool = False,
    ) -> TrainingColumns:
        """The columns of training; `ConfigError` if they cannot serve.

        Parameters
        ----------
        table
            The rows.
        features
            See `fitted`.
        key, folds, placed
            See `TrainingColumns`.
        """
        values = self.values()
        if features is None:
            features = PreparedFeatures.resolve(table, values["featuresCol"], values["numFeatures"])
        return TrainingColumns.resolve(
            table,
            features,
            values["labelCol"],
            values["positiveLabel"],
            values.get("weightCol"),
            key,
            folds,
            placed,
        )

    @property
    def has_prior(self) -> bool:
        """Whether prior is set."""
        return self.values().get("prior") is not None

    def prior_of(
        self, dimension: int, labels: Sequence[str] | None, recipe: Recipe | None
    ) -> Prior | None:
        """The weights of the prior, if one is set, in the order of the features trained on.

        Parameters
        ----------
        dimension
            Number of features.
        labels
            Their names; None if they have no names.
        recipe
            Their recipe; None if they are columns.

        Raises
        ------
        ConfigError
            The prior cannot be read, has a recipe where the features have none, or the features
            do not correspond; see `Prior.of`.
        """
        if not self.has_prior:
            return None
        given = self.values()["prior"]
        prior = self.loaded_prior(given) if isinstance(given, str) else given
        w, names, before = prior.named_weights()
        if before is not None:
            if recipe is None:
                raise ConfigError(
                    "found a prior with a recipe for features without one, expected features of "
                    "raw columns; train in a RankerPipeline"
                )
            names, labels = names_beside(before, recipe), list(labels or ())
        elif recipe is not None and names is not None:
            raise ConfigError(
                f"found a prior of columns ({', '.join(names[:5])}) for the features of a recipe, "
                "expected a RankerPipelineModel with a recipe; name another prior"
            )
        return Prior.of(w, names, dimension, labels)

    def prior_for(self, features: Features) -> Prior | None:
        """The prior of features; see `prior_of`."""
        if self.has_prior and isinstance(features, EmbeddedFeatures):
            raise ConfigError(
                "found prior with embeddings, expected none: features of two embeddings do not "
                "correspond; leave out one of them"
            )
        recipe = features.recipe if isinstance(features, RawFeatures) else None
        return self.prior_of(features.dimension, features.labels(), recipe)

    def made(self, result: TrainingResult, columns: TrainingColumns) -> Any:
        """The model of a training run on rows of these columns."""
        features = columns.features
        return self.model_from(result, columns.positive, features.names, features.labels())

    def model_from(
        self,
        result: TrainingResult,
        positive: Label | None,
        names: tuple[str, ...] | None,
        labels: Sequence[str] | None,
    ) -> Any:
        """The model of a training run.

        Parameters
        ----------
        result
            The run.
        positive
            The positive label; None for 0/1 or -1/+1.
        names, labels
            See `Features`.
        """
        scorer = LinearScorer(result.w, result.threshold, *result.labels.classes(positive), names)
        return self.ranker_model(scorer, result.summary(labels), result.moments)


class FoldsFit(RankerFit):
    """An estimator that can choose a penalty on held-out folds.

    Its settings extend `FoldSettings`, and have a keyCol and a seed.
    """

    def fitted(
        self, table: Table, features: Features | None = None, penalty: Candidate | None = None
    ) -> Any:
        """Train on the rows of a table; see `RankerFit.fitted`.

        Parameters
        ----------
        table, features
            See `RankerFit.fitted`.
        penalty
            The penalty. Default: that of the settings, or the one that the folds choose.
        """
        raise NotImplementedError

    @property
    def uses_key(self) -> bool:
        """Whether keyCol and seed have an effect."""
        return self.has_folds

    @property
    def has_folds(self) -> bool:
        """Whether ``fit`` divides the rows into folds."""
        return self.selects

    def check(self) -> None:
        """See `HasSettings.check`."""
        values = self.values()
        if not self.selects:
            of_folds = () if self.has_folds else ("numFolds", "foldCol")
            self.refuse("a single penalty", *of_folds, "selectionRule")
        if values["foldCol"] is not None and self.isSet("numFolds"):
            raise ConfigError(
                f"found foldCol {values['foldCol']!r} and numFolds {values['numFolds']}, expected "
                "one of them; leave out numFolds to use folds of your own"
            )

    def folds(self, table: Table) -> tuple[Folds, FoldColumn | None]:
        """The folds of a table's rows, and their column if the user has one."""
        values = self.values()
        if values["foldCol"] is None:
            return Folds(values["numFolds"], values["seed"]), None
        column = FoldColumn.of(table, values["foldCol"])
        return Folds.named(tuple(map(str, column.values))), column

    def held_out(self, folds: Folds, columns: TrainingColumns) -> Folds:
        """The folds without the rows that chose features, unless the user has folds."""
        chose = columns.features.never_held_out
        if folds.names and chose:
            _log.warning(
                "foldCol holds out rows whose labels chose pairs or crosses of columns: the AUC of "
                "folds is too high; name the pairs and crosses, or leave out foldCol"
            )
        return folds if folds.names else replace(folds, never_held_out=chose)
