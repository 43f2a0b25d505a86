"""Train on stored moments, with or without rows beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, Any

from spark_auc.app.config.jobs import Train
from spark_auc.app.jobs.raw_rows import features_by
from spark_auc.app.jobs.store_facts import recipe_of
from spark_auc.app.jobs.stored_moments import Stored, known_labels, same_facts, stored_moments
from spark_auc.core.labels import LabelCounts
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.token_names import FeatureNames
from spark_auc.pipeline.models import FittedRecipe, PipelineModel
from spark_auc.pipeline.pair_moments_fit import PairMomentsFit
from spark_auc.pipeline.recipe_ranker import suited
from spark_auc.pipeline.retraining import fold_moments
from spark_auc.retraining.choice import choose
from spark_auc.tables.columns import TrainingColumns
from spark_auc.training.segments import REST
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train_on_moments

if TYPE_CHECKING:
    from spark_auc.tables.table import Table


def trained_on_moments(
    config: Train, estimator: PairMomentsFit, rows: Table | None
) -> tuple[PipelineModel, list[dict[str, Any]]]:
    """The model of stored moments and rows, and what the moments are of.

    Without a single penalty, it is chosen on the stored folds: the candidates are trained on the
    other folds and measured by the AUC of Gaussian scores. Rows beside the moments are divided
    into folds as the stored rows were.

    Parameters
    ----------
    config
        The section.
    estimator
        Penalty, standardization, tolerance and names of columns.
    rows
        Rows beside the moments; None for moments alone.

    Raises
    ------
    ConfigError
        The moments are of other features or columns than each other, or have no folds to choose a
        penalty on.
    DataError
        There are not two classes, or a value of the rows cannot be used.
    ModelFormatError
        Stored moments are damaged.
    ConvergenceError
        The solver did not reach its tolerance.
    """
    start = time.perf_counter()
    with _all(config, rows) as parts:
        same_facts(parts)
        facts = parts[0].facts
        if recipe := recipe_of(facts):
            estimator = suited(estimator, recipe)
        names, features = _names(config, recipe)
        prior = estimator.prior_of(facts.dimension, features, recipe.recipe if recipe else None)
        settings, selection = replace(_settings(estimator), prior=prior), None
        if settings.candidate is None:
            settings, selection = _chosen(parts, settings)
        total = reduce(PairMoments.merge, (part.total() for part in parts))
        told = [part.told for part in parts]
    labels = known_labels(config, parts)
    counts = total.positive.rows, total.negative.rows
    if not min(counts):
        raise DataError(
            f"found {counts[0]} positive and {counts[1]} negative rows in the moments, expected "
            "both classes; name more periods or rows"
        )
    seconds = {"moments": time.perf_counter() - start}
    result = train_on_moments(total, LabelCounts(dict(zip(labels, counts, strict=True))), settings)
    kept = total if config.saveMoments else None
    seconds |= result.seconds
    result = replace(result, selection=selection, seconds=seconds, moments=kept)
    if prior and not settings.prior:
        result = replace(result, prior=prior.report(None))
    ranker = estimator.model_from(result, labels[0], names, features)
    return PipelineModel(ranker, recipe), told


@contextmanager
def _all(config: Train, rows: Table | None) -> Iterator[list[Stored]]:
    """The moments of the store, of published models and of the rows, in this order."""
    assert config.moments is not None
    with stored_moments(config.moments) as stored:
        beside = [] if rows is None else [_of_rows(config, rows, stored[0])]
        yield [*stored, *beside]


def _of_rows(config: Train, rows: Table, first: Stored) -> Stored:
    """The moments of rows, made as the stored ones were."""
    names, facts = config.columns, first.facts
    features = features_by(recipe_of(facts), names)(rows, facts.dimension)
    columns = TrainingColumns.resolve(
        rows, features, names.label, names.positiveLabel, names.weight, names.key
    )
    # Stored segments are merged: columns of training have none.
    by_segment, labels = fold_moments(rows, columns, Folds(facts.folds, facts.seed))
    moments = by_segment[REST]
    # One class, or none, may be among the rows: the stored moments can have the other.
    both = labels.classes(columns.positive) if len(labels.rows) > 1 else None
    if first.labels and (other := sorted(labels.rows.keys() - {*first.labels}, key=str)):
        raise DataError(
            f"found the label {other[0]!r} in the rows of train.data, expected the labels "
            f"(positive, negative) of {first.name}: {first.labels}; correct the rows"
        )
    positive = facts.positive_label if both is None else both[0]
    own = replace(
        facts,
        dimension=features.dimension,
        weight_column=names.weight,
        positive_label=positive,
    )
    told = {"rows": {str(label): count for label, count in labels.rows.items()}}
    return Stored("the rows of train.data", own, moments, both, features.names, told)


def _settings(estimator: PairMomentsFit) -> TrainingSettings:
    estimator.check()
    estimator.refuse("moments without rows", "maxFPR", "covariance", "smoothness")
    return estimator.settings_on_moments()


def _chosen(parts: list[Stored], settings: TrainingSettings) -> tuple[TrainingSettings, Any]:
    """The settings with the penalty that ranks held-out folds best, and its selection."""
    if without := [part.name for part in parts if len(part.folds) < 2]:
        raise ConfigError(
            f"found moments without folds in {without[0]}, expected folds to choose a penalty on; "
            "set train.training.regParam"
        )

    def merged(fold: int, *, complement: bool) -> PairMoments:
        moments = (part.complement(fold) if complement else part.folds[fold] for part in parts)
        return reduce(PairMoments.merge, moments)

    folds = [merged(k, complement=False) for k in range(len(parts[0].folds))]
    choice = choose(["all"], lambda _, k: merged(k, complement=True), folds, settings)
    candidate = choice.candidate
    fixed = replace(
        settings,
        reg_params=(candidate.regParam,),
        elastic_net_params=(candidate.elasticNetParam,),
        prior=settings.prior if candidate.prior else None,
    )
    return fixed, choice.selections["all"]


def _names(config: Train, recipe: FittedRecipe | None) -> tuple[tuple[str, ...] | None, Any]:
    """Names of the features for the model and for its summary; see `Features`."""
    if recipe is not None:
        return None, FeatureNames(recipe.recipe)
    columns = config.columns.features
    names = None if isinstance(columns, str) else tuple(columns)
    return names, names
