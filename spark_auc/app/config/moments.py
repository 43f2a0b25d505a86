"""The section of stored moments to train on."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Location, Name, Section, store_location
from spark_auc.app.config.sources import Source

_DRAWN = (
    *("estimator", "numPairs", "batchSize", "pairTol", "numFolds", "seed", "segmentCol", "maxFPR"),
    *("covariance", "headSize", "covarianceRank", "smoothness"),
)


class MomentsSection(Section):
    """Moments of a store, of published models, or of both."""

    store: Location | None = Field(
        None, description="store of the job retrain or of opauc.stream.store"
    )
    schemaId: str | None = Field(
        None, description="schema id of the moments, in a store of several recipes or settings"
    )
    newest: Name | None = Field(None, description="last period; default: the last stored one")
    window: int | None = Field(
        None, ge=1, description="number of periods up to the last; default: all"
    )
    halfLife: float | None = Field(
        None, gt=0, description="age in periods at which rows count half; default: all count alike"
    )
    exclude: list[Name] = Field(default_factory=list, description="periods to leave out")
    models: list[Location] = Field(
        default_factory=list, description="published models that were trained with saveMoments"
    )
    negativeLabel: float | str | None = Field(
        None,
        description="label of negative rows; needed for a store alone in which no job stored it",
    )

    @model_validator(mode="after")
    def _complete(self) -> MomentsSection:
        of_store = ("schemaId", "newest", "window", "halfLife", "exclude")
        if self.store is None:
            if not self.models:
                raise ValueError("a store, or models; add one")
            if unused := [name for name in of_store if name in self.model_fields_set]:
                raise ValueError(f"{', '.join(unused)} with a store only; leave it out")
        return self

    def store_location(self) -> str:
        """The path of a local store, and the URI of another."""
        assert self.store is not None
        return store_location(self.store)


class RowsAndMoments(Section):
    """What a training is on."""

    data: Source | None = Field(None, description="the rows; needed unless moments are named")
    moments: MomentsSection | None = Field(
        None, description="stored moments to train on, with or without rows beside them"
    )

    @property
    def rows(self) -> Source:
        """The source of the rows, which moments alone do not have."""
        assert self.data is not None
        return self.data

    @model_validator(mode="after")
    def _rows_or_moments(self) -> Self:
        if self.moments is not None:
            _check_with_moments(self)
        elif self.data is None:
            raise ValueError("data, or moments; add one")
        return self


def _check_with_moments(train: Any) -> None:
    """`ValueError` for keys of the section train that stored moments cannot serve."""
    refused = {
        "features": train.features,
        "embeddings": train.embeddings,
        "learner": train.learner != "MBAClassifier",
        "holdout": train.holdout and train.data is None,
        "columns.fold": train.columns.fold,
        "select.numFolds": train.select and "numFolds" in train.select.model_fields_set,
        **{f"training.{name}": name in train.training.model_fields_set for name in _DRAWN},
    }
    if names := [name for name, is_set in refused.items() if is_set]:
        raise ValueError(
            f"no {', '.join(names)} with moments, which have a recipe and folds; leave it out"
        )
