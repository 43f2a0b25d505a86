"""Settings of estimators that take rows one after another."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from spark_auc.pipeline.ranker_settings import RankerSettings
from spark_auc.pipeline.settings import Range, Setting


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
            "'sequential': one task takes all rows in order; 'distributed': each task slot takes "
            "a sample of the rows, drawn by seed, and the weights are averaged after each pass, "
            "which is an approximation.",
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
    loss: Annotated[
        Literal["squared", "squaredHinge", "logistic", "exponential"],
        Setting(
            "Loss of a pair of rows with different labels by the margin z of their scores: "
            "(1 - z)^2, max(0, 1 - z)^2, log(1 + e^-z) or e^-z.",
            "squared",
        ),
    ]
    pairs: Annotated[
        Literal["mixed", "uniform"],
        Setting(
            "'uniform': pairs of any two rows, as published, of which equal labels add nothing. "
            "'mixed': pairs of a positive and a negative row, whose loss is multiplied by their "
            "share of all pairs; the objective is the same.",
            "mixed",
        ),
    ]
    schedule: Annotated[
        Literal["averaged", "published", "theory"] | None,
        Setting(
            "Steps t = 0, 1, .. of a stage. 'published': stepSize / (t + 1), as in the paper's "
            "experiments. 'theory': 1 / (mu (t + 1)) with mu = penalty / sqrt(m), as in its "
            "Algorithm 2; the first step forgets the stage before. 'averaged': all of length "
            "stepSize, and the stage's iterates are averaged; those of the exponential loss are "
            "implicit. By default 'published' with a stepSize and 'averaged' without one."
        ),
    ]
    stepSize: Annotated[
        float | None,
        Setting(
            "Length of a stage's first step. By default 1 / (4 h P R^2) with the greatest "
            "curvature h of the loss (2, 2, 1/4, and 1 for the exponential loss), P the share of "
            "mixed pairs, 2 p (1 - p), or 1 for uniform pairs, and R^2 of learners.steps.Lengths, "
            "which takes one more pass.",
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
