"""Settings of estimators that take rows one after another."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from spark_auc.spark.estimators.settings import RankerSettings
from spark_auc.spark.settings import Range, Setting


class OnlineSettings(RankerSettings, total=False):
    """Settings of all estimators that take rows one after another."""

    orderCol: Annotated[
        str | None,
        Setting(
            "Column by which rows are taken in sequence. By default they are taken in an order "
            "drawn by seed, a function of seed and rows alone."
        ),
    ]
    seed: Annotated[
        int, Setting("Seed of the order of rows, and of what the learner draws.", 0, Range(ge=0))
    ]


class RoundsSettings(OnlineSettings, total=False):
    """Settings of estimators that take all rows in one or more rounds."""

    rounds: Annotated[
        int,
        Setting(
            "Number of passes over all rows, each in another order unless orderCol is set. After "
            "a single pass, the summary's held_out compares the learner with ridge on rows "
            "before they were learnt, and a warning tells if it falls short.",
            1,
            Range(ge=1),
        ),
    ]


class ParallelSettings(TypedDict, total=False):
    """How the rows of a learner are distributed."""

    parallelism: Annotated[
        Literal["sequential", "distributed"],
        Setting(
            "'sequential': one task takes all rows in order, exactly as the algorithm is "
            "published; 'distributed': each task slot takes a sample of the rows, drawn by seed, "
            "and the weights are averaged after each pass, which is an approximation.",
            "sequential",
        ),
    ]


class AdaDSGSettings(OnlineSettings, ParallelSettings, total=False):
    """Settings of `AdaDSGClassifier`."""

    keyCol: Annotated[
        str | None,
        Setting(
            "Column by whose hash rows belong to stages; by default a hash of label and features."
        ),
    ]
    stepSize: Annotated[
        float | None,
        Setting(
            "Length gamma of a stage's first step; later steps shrink as published. By default "
            "all steps are 1 / (8 P R^2) long and each stage averages its iterates, with P the "
            "share of mixed pairs, 2 p (1 - p), and R^2 of learners.steps.Lengths, which takes "
            "one more pass.",
            None,
            Range(gt=0),
        ),
    ]
    penalty: Annotated[
        float | None,
        Setting(
            "The objective has penalty / (2 sqrt(m)) |w|^2 for m rows. By default the mean square "
            "of an entry of the rows that are learnt: 1 for standardised columns, and as strong "
            "in any unit.",
            None,
            Range(ge=0),
        ),
    ]
    firstStage: Annotated[int, Setting("Rows of the first stage, on average.", 256, Range(ge=1))]
    stages: Annotated[
        int | None,
        Setting(
            "Number of stages; the last ones take all rows. By default as many as it takes to "
            "reach all rows.",
            None,
            Range(ge=1),
        ),
    ]
    blockSize: Annotated[
        int,
        Setting("Rows of a block in memory; pairs are of rows of one block.", 65_536, Range(ge=1)),
    ]
