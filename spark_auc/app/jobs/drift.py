"""Drift of raw rows in the jobs: counts for the result, and warnings in the log."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_auc.pipeline.models import PipelineModel
    from spark_auc.pipeline.recipe_estimator import RecipeModel
    from spark_auc.tables.table import Table

_log = logging.getLogger(__name__)

# Rows whose tokens are compared with those of the training.
_FIRST_ROWS = 1_000


def drift_of(
    recipe: RecipeModel | None,
    rows: Table,
    others: Collection[str | None] = (),
) -> dict[str, Any]:
    """The key ``drift`` of a job's result, by one pass over the raw columns.

    Shares that exceed those of the recipe's fit are warnings in the log, a sentence each.

    Parameters
    ----------
    recipe
        The recipe. None: the result is empty.
    rows
        The rows.
    others
        Columns that the job knows, such as the label.

    Returns
    -------
    dict
        ``drift``: the values of `Drift.as_dict`, and ``excesses``, the shares that exceed those of
        the fit.
    """
    from spark_auc.pipeline.drift import drift_of as counted
    from spark_auc.tables.table import own_names

    if recipe is None:
        return {}
    drift = counted(rows, recipe.recipe)
    excesses = drift.excesses(recipe.drift) if recipe.drift else ()
    for excess in excesses:
        _log.warning("%s", excess)
    shares = drift.as_dict()
    known = own_names(rows, [name for name in others if name])
    shares["unknown"] = [name for name in shares["unknown"] if name not in known]
    return {"drift": shares | {"excesses": [excess._asdict() for excess in excesses]}}


def warn_of_new_tokens(model: PipelineModel, rows: Table) -> None:
    """Warn of columns of which no value among some first rows occurred in the training.

    Tokens are new if their features have no weight, as those that do not occur in a ridge have.

    Parameters
    ----------
    model
        The model.
    rows
        The rows to score.
    """
    from spark_auc.features.seen import Seen
    from spark_auc.pipeline.drift import drift_of as counted
    from spark_auc.tables.arrow_table import ArrowTable

    fitted = model.fitted_recipe
    if fitted is None or model.embeddings or model.ranker.summary.elastic_net_param:
        return
    names = fitted.input_features(rows).columns
    some = ArrowTable.of(rows.head(names, _FIRST_ROWS))
    seen = Seen.of_occurred(fitted.recipe, model.ranker.scorer.w != 0)
    for column in counted(some, fitted.recipe, seen=seen).as_dict()["columns"]:
        if column.get("unseen") == 1.0 and column["missing"] < 1.0:
            _log.warning(
                "no value of column %r in the first %d rows occurred in the training: check that "
                "it is written as there",
                column["column"],
                column["rows"],
            )


def log_unknown(drift: dict[str, Any]) -> None:
    """Say which columns the recipe does not know.

    Parameters
    ----------
    drift
        The result of `drift_of`.
    """
    if unknown := drift.get("drift", {}).get("unknown"):
        _log.info("ignored columns that the recipe does not know: %s", ", ".join(unknown))
