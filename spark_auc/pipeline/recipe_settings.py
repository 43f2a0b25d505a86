"""Settings of a recipe: Params of `FeatureRecipe`, and keys of the configuration.

This module does not import pyspark: a configuration is checked before Spark is loaded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from spark_auc.pipeline.settings import Range, Setting


class RecipeSettings(TypedDict, total=False):
    """The columns of a recipe and their kinds."""

    spline: Annotated[
        list[str] | None,
        Setting("Columns of numbers or times as piecewise linear functions on knots."),
    ]
    standard: Annotated[
        list[str] | None,
        Setting("Columns of numbers in units of their standard deviation from their mean."),
    ]
    log: Annotated[
        list[str] | None,
        Setting("Columns of integers as hashed tokens, binned by floor(log(v)^2) above 2."),
    ]
    tokens: Annotated[
        list[str] | None,
        Setting("Columns of text, integers or booleans as hashed tokens, as FeatureHasher hashes."),
    ]
    words: Annotated[
        list[str] | None,
        Setting(
            "Columns of text as hashed tokens of their first 16 words, in lower case. With auto, "
            "text of words that repeat in other rows, where the texts do not."
        ),
    ]
    presence: Annotated[
        list[str] | None,
        Setting(
            "Columns of text or integers as hashed tokens of whether they have a value. With auto, "
            "identifiers that at least 1% of the rows have and at least 1% lack."
        ),
    ]
    hour: Annotated[list[str] | None, Setting("Columns of times as tokens of their hour, UTC.")]
    weekday: Annotated[list[str] | None, Setting("Columns of times as tokens of their weekday.")]
    auto: Annotated[
        bool,
        Setting(
            "Whether columns that no list names are used too: numbers as splines, text "
            "and booleans as tokens, times as hour, weekday and spline. Constant columns and "
            "identifiers are left out.",
            True,
        ),
    ]
    leaveOut: Annotated[list[str] | None, Setting("Columns that auto does not use.")]
    numKnots: Annotated[
        int | Literal["auto"],
        Setting(
            "Most knots of a spline. With a penalty of the roughness of curves (smoothness of "
            "MBAClassifier) more of them do no harm. 'auto': at most 20, 2,000 of all columns "
            "together, and rows per column; without that penalty at most 16, one for 30 rows per "
            "column; 2 at least.",
            16,
            Range(ge=2),
        ),
    ]
    dimension: Annotated[
        int | None,
        Setting(
            "Number of features of the tokens. Default: 262144; with columns that auto chooses, a "
            "power of 2 above 1.5 times the number of distinct tokens, from 256 to 262144. Where "
            "smoothness is chosen on up to 250,000 rows, it is above 48 times their number up to "
            "65536, so that fewer tokens share a weight.",
            None,
            Range(ge=1),
        ),
    ]
    pairs: Annotated[
        int | list[list[str]] | Literal["auto"] | None,
        Setting(
            "Pairs of columns of numbers whose interactions are features too, products of hats on "
            "at most 8 knots each. A number: at most so many, chosen from a sample of the rows if "
            "they lower the loss beyond noise, possibly none, of 2 to 500 columns. 'auto': at most "
            "20, of a RankerPipeline whose ranker chooses its penalty, kept where the AUC of "
            "held-out folds is higher by more than its standard error; none of more than 250,000 "
            "rows. A list: these.",
            None,
            Range(ge=1),
        ),
    ]
    crosses: Annotated[
        list[list[str]] | Literal["all", "auto"] | None,
        Setting(
            "Pairs of columns whose products are features too, hashed. 'all': each pair; 'auto': "
            "pairs of columns with tokens of their values, of tables with 2 to 16 such columns, "
            "which a sample of the rows chooses if they add to single columns beyond noise, at "
            "most 64. A RankerPipeline whose ranker chooses its penalty keeps them where the AUC "
            "of held-out folds is higher by more than its standard error."
        ),
    ]
    crossBits: Annotated[
        int,
        Setting(
            "Logarithm of the number of features of crosses; the largest one with 'auto', which "
            "takes less for fewer pairs of values.",
            18,
            Range(ge=1, le=30),
        ),
    ]
    trees: Annotated[
        dict[str, Any] | None,
        Setting(
            "Leaves of trees as features. {'grow': {...}}: LightGBM grows trees from a sample of "
            "the rows, by the keys numTrees, numLeaves, learningRate, growShare, maxGrowRows and "
            "seed; training leaves these rows out, unless growShare is 1. {'path': ..., 'columns': "
            "[...]}: those of a model of LightGBM, XGBoost or Spark ML. Without auto and named "
            "columns, leaves alone."
        ),
    ]
    missing: Annotated[
        Literal["indicator", "ignore"],
        Setting(
            "'indicator': missing numbers have a feature of their column, missing and empty values "
            "of tokens the token 'name='; 'ignore': they have no feature.",
            "indicator",
        ),
    ]
    unit: Annotated[bool, Setting("Whether rows are divided by their Euclidean norm.", True)]
    tokenNames: Annotated[
        bool,
        Setting(
            "Whether hashed features among the largest weights of a pipeline are named by their "
            "most frequent tokens. Tokens of less than 10 rows of a sample are never shown.",
            True,
        ),
    ]


def are_pairs(names: Sequence[Sequence[str]]) -> bool:
    """Whether these are different pairs of two different columns."""
    sets = [frozenset(pair) for pair in names]
    return len(set(sets)) == len(sets) and all(len(pair) == 2 for pair in (*sets, *names))
