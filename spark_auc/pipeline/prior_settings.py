"""The setting of an earlier ranker as the centre of the penalty; imports no Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, NamedTuple, Protocol, TypedDict, runtime_checkable

from spark_auc.core.types import Float
from spark_auc.features.recipe import Recipe
from spark_auc.pipeline.settings import Setting


class NamedWeights(NamedTuple):
    """Weights of a ranker.

    Parameters
    ----------
    w : (d,)
        Weights of its features.
    names : (d,)
        Names of its features; None if they have no names.
    recipe
        The recipe of its features; None if they are columns.
    """

    w: Float
    names: Sequence[str] | None
    recipe: Recipe | None = None


@runtime_checkable
class FittedRanker(Protocol):
    """A `LinearRankerModel` or a `RankerPipelineModel`."""

    def named_weights(self) -> NamedWeights:
        """The weights of the ranker of all rows."""


class PriorSettings(TypedDict, total=False):
    """An earlier ranker as the centre of the penalty."""

    prior: Annotated[
        str | FittedRanker | None,
        Setting(
            "An earlier LinearRankerModel or RankerPipelineModel, or the path of a saved "
            "LinearRankerModel: the penalty is that of the difference from c times its weights, "
            "with the c >= 0 of least loss. Weights go by name where features have names. Held-out "
            "folds choose between it and 0 for each penalty; the rows that it was trained on must "
            "be others, or their AUC is too high. Learners of one row after another, without a "
            "penalty to centre, begin with its weights."
        ),
    ]
