"""The section of the job score."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from spark_auc.app.config.outputs import ScoreOutput
from spark_auc.app.config.sections import DRIFT, Location, Section
from spark_auc.app.config.sources import Source


class Score(Section):
    """A model and rows to scores and predictions."""

    model: Location = Field(description="directory that the train job published")
    data: Source
    keep: list[str] = Field(default_factory=list, description="columns to keep with the scores")
    contributions: int = Field(
        0,
        ge=0,
        description="number of a row's largest contributions of raw columns, in the column "
        "output.contributionsCol; a model without embeddings alone",
    )
    threshold: float | Literal["f1", "classRatio", "cost", "fprBudget"] | None = Field(
        None,
        description="scores at or above it are predicted positive; a criterion takes the threshold "
        "of evaluation; default: that of the model",
    )
    evaluation: Location | None = Field(
        None,
        description="directory of the job evaluate, for the threshold of a criterion; default: the "
        "held-out rows of the model",
    )
    handleInvalid: Literal["error", "skip", "keep"] | None = Field(
        None,
        description="what happens to rows that cannot be scored, and to those with cells of text "
        "that do not fit their columns: 'error' fails the job, 'skip' leaves them out, 'keep' "
        "gives the former null and takes the cells as missing; default: 'error' for the former, "
        "'keep' for the cells",
    )
    drift: bool = Field(True, description=DRIFT)
    output: ScoreOutput

    @model_validator(mode="after")
    def _one_threshold(self) -> Score:
        if self.evaluation is not None and not isinstance(self.threshold, str):
            raise ValueError("evaluation with a criterion as threshold; leave out evaluation")
        return self
