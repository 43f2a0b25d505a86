"""Settings that estimators share, and those that have a section of the configuration.

An estimator that the configuration names by ``train.learner`` alone declares its own beside itself.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from spark_auc.pipeline.prior_settings import PriorSettings
from spark_auc.pipeline.settings import (
    FEATURES,
    DimensionSettings,
    LabelSettings,
    Range,
    Setting,
    WeightSettings,
)

# Names of the Params of the columns that a ranker adds.
OUTPUTS = ("rawPredictionCol", "predictionCol")
# Params of a ranker that contradict a choice of methods.
CONTRARY_TO_CHOICE = (
    *("regParam", "elasticNetParam", "standardization", "selectionRule", "estimator", "prior"),
    *("foldCol", "segmentCol", "keepMoments", "maxFPR", "covariance", "tol", "maxIter"),
    "whenNotConverged",
)


class FeaturesSettings(TypedDict, total=False):
    """The feature columns."""

    featuresCol: Annotated[str | list[str], Setting(FEATURES, "features")]


class RankerSettings(FeaturesSettings, LabelSettings, DimensionSettings, total=False):
    """Settings of all estimators of a linear ranker."""

    rawPredictionCol: Annotated[
        str, Setting("Column of scores that the model adds.", "rawPrediction")
    ]
    predictionCol: Annotated[
        str, Setting("Column of predicted labels that the model adds.", "prediction")
    ]
    vectorOutput: Annotated[
        bool,
        Setting(
            "Whether scores are vectors of two, (-score, score), as those of Spark ML's "
            "classifiers.",
            False,
        ),
    ]
    handleInvalid: Annotated[
        Literal["error", "skip", "keep"],
        Setting(
            "What the model does with rows whose features are null, NaN or infinite: 'error' fails "
            "the job, 'skip' leaves them out, 'keep' gives them a null score and prediction. "
            "Training always fails.",
            "error",
        ),
    ]
    standardization: Annotated[
        bool,
        Setting(
            "Whether to train on columns in units of their standard deviation. The model's "
            "weights are those of the raw columns in either case.",
            True,
        ),
    ]


class ConvergenceSettings(TypedDict, total=False):
    """What to do where a solver does not converge."""

    whenNotConverged: Annotated[
        Literal["raise", "warn"],
        Setting("What to do if tol is not reached within maxIter.", "raise"),
    ]


class FoldSettings(TypedDict, total=False):
    """Held-out folds by which a penalty is chosen."""

    numFolds: Annotated[
        int,
        Setting(
            "Number of folds by which a penalty is chosen; fewer if a class has fewer groups of "
            "rows. Rows with equal features, or equal keyCol, are in one fold; each class is "
            "balanced over the folds.",
            5,
            Range(ge=2),
        ),
    ]
    foldCol: Annotated[
        str | None,
        Setting(
            "Column of folds of your own (by time, by user) instead of numFolds: whole numbers or "
            "strings, from 2 to 100 values, and rows of both classes with each."
        ),
    ]
    selectionRule: Annotated[
        Literal["best", "oneStandardError"],
        Setting(
            "Penalty to choose: 'best' has the best mean AUC on held-out folds, "
            "'oneStandardError' is the strongest within one standard error of it.",
            "best",
        ),
    ]


class PairMomentsSettings(
    RankerSettings, WeightSettings, ConvergenceSettings, FoldSettings, total=False
):
    """Settings of all estimators on pair moments."""

    estimator: Annotated[
        Literal["exact", "paired", "complete"],
        Setting(
            "Pairs to train on: 'exact', all of them; 'paired', the k-th positive with the k-th "
            "negative draw (MBA, Algorithm 1); 'complete', all pairs of the same draws, whose "
            "variance is never larger. Draws are with replacement, in proportion to the weights.",
            "exact",
        ),
    ]
    numPairs: Annotated[
        int | Literal["auto"],
        Setting(
            "Number of draws of each class; 'auto' draws until the estimated cost of sampling to "
            "the objective is below pairTol.",
            "auto",
            Range(ge=1),
        ),
    ]
    batchSize: Annotated[
        int,
        Setting("Draws of each class in one round; numPairs is rounded up.", 1024, Range(ge=1)),
    ]
    pairTol: Annotated[
        float,
        Setting(
            "Cost of sampling to the objective that numPairs='auto' accepts.", 1e-3, Range(gt=0)
        ),
    ]
    keyCol: Annotated[
        str | None,
        Setting(
            "Column whose equal values keep rows together in a fold, and distinguish equal rows "
            "when rows are drawn. By default rows with equal features are kept together; which "
            "copies of a row are drawn then depends on the partition or row group of each."
        ),
    ]
    tol: Annotated[
        float,
        Setting(
            "KKT residual to reach, relative to that of w = 0. The residual of a coordinate is in "
            "the unit sqrt(Sigma_jj + l2), so that units of columns do not matter.",
            1e-6,
            Range(gt=0),
        ),
    ]
    maxIter: Annotated[int, Setting("Most iterations of the solver.", 1000, Range(ge=1))]
    seed: Annotated[int, Setting("Seed of draws and folds.", 0)]
    segmentCol: Annotated[
        str | None,
        Setting(
            "Column whose most frequent values (segments, at most 16) have rankers of their own, "
            "if held-out folds show a better AUC within segments. Each is shrunk to the ranker of "
            "all rows, which ranks the rows of other values; rawPredictionCol is then the log odds."
        ),
    ]
    keepMoments: Annotated[
        bool, Setting("Whether the model holds the pair moments that it was made from.", False)
    ]


class SecondStepSettings(TypedDict, total=False):
    """A second step for low false positive rates."""

    maxFPR: Annotated[
        float | None,
        Setting(
            "Greatest false positive rate that matters. A second step trains again, with the same "
            "penalty, on rows of which the negatives that the first ranker scores highest, 5 "
            "maxFPR of them, count 4 times; it takes three more passes. It needs the estimator "
            "'exact', and no segmentCol. By default all rates matter.",
            None,
            Range(gt=0, lt=0.2),
        ),
    ]


class CovarianceSettings(TypedDict, total=False):
    """How covariances of many features are approximated."""

    covariance: Annotated[
        Literal["full", "head", "lowRank"],
        Setting(
            "'full': exact covariances. 'head': exact ones of the headSize columns with the "
            "largest second moments, and variances alone of all others; standardization then "
            "divides columns by at least the median deviation of the head. 'lowRank': random "
            "sketches of rank covarianceRank, as OPAUCr, which rank worse on reference data. Both "
            "take a few passes whatever the number of features. They need all pairs (estimator "
            "'exact'), and go with no prior, segmentCol, maxFPR or keepMoments.",
            "full",
        ),
    ]
    headSize: Annotated[
        int,
        Setting(
            "Most columns of the head, unless a fitted recipe names the columns of one.",
            4000,
            Range(ge=1, le=20_000),
        ),
    ]
    covarianceRank: Annotated[int, Setting("Rank of the sketches.", 50, Range(ge=1))]


class SmoothnessSettings(TypedDict, total=False):
    """The penalty of the roughness of curves."""

    smoothness: Annotated[
        float | Literal["auto"] | None,
        Setting(
            "Factor of the roughness of curves in the penalty, for rows of a recipe with splines: "
            "the squared second differences of the heights at the knots of a column, in a unit in "
            "which numbers of knots are alike; 'auto' chooses 0.1, 1, 10 or 100 by the AUC of "
            "held-out folds. It needs all pairs (estimator 'exact'), and goes with no l1, prior, "
            "segmentCol or approximate covariance; where no matrix of all features is made, "
            "roughness has no penalty. By default each height has a ridge of its own.",
            None,
            Range(gt=0, le=1e9),
        ),
    ]


class MBASettings(PairMomentsSettings, total=False):
    """Settings that `MBAClassifier` has in common with the model."""

    regParam: Annotated[
        float | None,
        Setting(
            "Strength of the penalty. By default it is chosen from a grid by the AUC of held-out "
            "folds; MBASelector takes a grid of your own.",
            None,
            Range(ge=0),
        ),
    ]
    elasticNetParam: Annotated[
        float,
        Setting(
            "Share of l1: its factor is regParam * elasticNetParam, that of l2 "
            "regParam * (1 - elasticNetParam).",
            0.0,
            Range(ge=0, le=1),
        ),
    ]


class LinearRankerSettings(MBASettings, total=False):
    """Settings of `LinearRankerModel`."""

    threshold: Annotated[
        float | None,
        Setting(
            "Scores at or above it are predicted positive. By default about as many rows of the "
            "training as were positive."
        ),
    ]


class MBAClassifierSettings(
    MBASettings,
    SecondStepSettings,
    PriorSettings,
    CovarianceSettings,
    SmoothnessSettings,
    total=False,
):
    """Settings of `MBAClassifier`."""


class MBASelectorSettings(
    PairMomentsSettings,
    SecondStepSettings,
    PriorSettings,
    CovarianceSettings,
    SmoothnessSettings,
    total=False,
):
    """Settings of `MBASelector`."""

    regParams: Annotated[
        list[float] | None,
        Setting("Values of regParam to try; by default 25 that suit the data.", None, Range(ge=0)),
    ]
    elasticNetParams: Annotated[
        list[float],
        Setting("Values of elasticNetParam to combine them with.", [0.0], Range(ge=0, le=1)),
    ]
