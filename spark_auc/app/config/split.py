"""The section of a split of rows into the parts train and test."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field, model_validator

from spark_auc.app.config.sections import Section


class Split(Section):
    """How rows are divided into the parts train and test."""

    by: Literal["key", "position", "time"] = Field(description="what decides a row's part")
    train: int | float = Field(0.8, gt=0, description="share, or number of first rows (position)")
    column: str | None = Field(
        None, description="key or time column; default of a key in train: columns.key"
    )
    before: datetime | None = Field(None, description="moment before which rows train (time)")
    seed: int = Field(0, description="seed of the hash (key)")

    @model_validator(mode="after")
    def _complete(self) -> Split:
        if self.by == "time" and not (self.column and self.before):
            raise ValueError("a split by time needs column and before")
        if self.by == "key" and not 0 < self.train < 1:
            raise ValueError("a split by key needs train between 0 and 1")
        return self
