"""Keys of the job train that contradict a choice among models."""

from __future__ import annotations

from collections.abc import Collection

from spark_auc.app.config.features import RecipeSection
from spark_auc.app.config.sections import Columns
from spark_auc.pipeline.ranker_settings import CONTRARY_TO_CHOICE

# Keys that say what the choice decides, or that need one model of all rows.
_CONTRARY = ("learner", "select", "embeddings", "prior", "moments", "saveMoments")


def check_method(
    method: str, keys: Collection[str], features: RecipeSection | None, columns: Columns
) -> None:
    """`ValueError` if keys contradict a choice among models.

    Parameters
    ----------
    method
        The choice.
    keys
        The keys that are set; those of training by their dotted names.
    features, columns
        Their sections.
    """
    of_training = (f"training.{name}" for name in CONTRARY_TO_CHOICE)
    contrary = [key for key in (*_CONTRARY, *of_training) if key in keys]
    contrary += ["columns.fold"] * bool(columns.fold)
    if contrary:
        raise ValueError(f"method: {method} without {', '.join(contrary)}; leave out one of both")
    if features is None:
        raise ValueError(f"method: {method} with features, whose blocks are compared; add features")
    if features.unit and "unit" in features.model_fields_set:
        raise ValueError(
            f"method: {method} with unit: false, as blocks are compared; leave out unit"
        )
    if features.trees and features.trees.grow and features.trees.grow.growShare == 1:
        raise ValueError(
            f"method: {method} with growShare below 1: trees that all rows grow are candidates of "
            "method: auto where features has none; leave out trees"
        )
