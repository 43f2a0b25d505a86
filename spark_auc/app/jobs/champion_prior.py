"""The champion as the centre of a challenger's penalty, and what a champion owes to such priors.

The champion was trained on periods that the challenger's window shares. Held-out folds of these
periods are not held out from the champion. It is therefore a prior only if all periods on which
window and penalty are measured are later than those that the champion was trained on. The champion
owes its weights to the periods of its own prior, too, and of that one's prior: ``from`` of
``prior`` in a challenger's record is the first of all these periods.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from spark_auc.app.jobs.champion import Champion
from spark_auc.errors import ConfigError
from spark_auc.solvers.candidates import Candidate
from spark_auc.training.prior import Prior

if TYPE_CHECKING:
    from spark_auc.pipeline.models import FittedRecipe
    from spark_auc.tables.columns import TrainingColumns

_log = logging.getLogger(__name__)


def champion_prior(
    champion: Champion, measured: str, recipe: FittedRecipe | None, columns: TrainingColumns
) -> Prior | None:
    """The weights of the champion by the names of the features.

    Parameters
    ----------
    champion
        The champion.
    measured
        The first period on which window and penalty are measured.
    recipe
        The fitted recipe; None for prepared features.
    columns
        Columns of the rows.

    Returns
    -------
    Prior, optional
        None if the champion was trained on the measured period or a later one, or has none of the
        features.
    """
    from spark_auc.pipeline.estimators import MBAEstimator

    trained_to = champion.record["challenger"]["to"]
    if trained_to >= measured:
        _log.info(
            "the champion of %s is no prior: it was trained on periods up to %s, and penalties are "
            "measured on those from %s on",
            *(champion.period, trained_to, measured),
        )
        return None
    features = columns.features
    try:
        return MBAEstimator(prior=champion.model).prior_of(
            features.dimension, features.labels(), recipe.recipe if recipe else None
        )
    except ConfigError as error:
        _log.warning("the champion of %s is no prior: %s", champion.period, error)
        return None


def prior_facts(champion: Champion) -> dict[str, Any]:
    """The champion as a prior, for the record of a challenger."""
    return {"champion": champion.period, "from": first_seen(champion.record)}


def first_seen(record: dict[str, Any]) -> str:
    """The first period to which a champion owes its weights, by its window or by priors."""
    made = record["challenger"]
    return min(str(made["from"]), str(made.get("prior", made)["from"]))


def without_prior(made: dict[str, Any]) -> Candidate | None:
    """The penalty of a challenger, or the best one with the centre 0 if it has a prior.

    Parameters
    ----------
    made
        The record of the challenger.

    Returns
    -------
    Candidate, optional
        None if no penalty with the centre 0 was solved.
    """
    if "prior" not in made:
        return Candidate(made["regParam"], made["elasticNetParam"])
    others = [
        candidate
        for candidate in made["selections"][made["window"]]
        if not candidate["prior"] and candidate["auc"] is not None
    ]
    if not others:
        return None
    best = max(others, key=lambda candidate: float(candidate["auc"]))
    return Candidate(best["regParam"], best["elasticNetParam"])
