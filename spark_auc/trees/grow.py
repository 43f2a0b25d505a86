"""Growing trees by LightGBM from arrays, on the driver."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from spark_auc.core.types import Bool, Float
from spark_auc.core.validation import check_above, check_whole
from spark_auc.errors import ConfigError, DataError, require
from spark_auc.trees.forest import MOST_WORDS, Forest
from spark_auc.trees.lightgbm_models import from_lightgbm

# Rows by which the values of categories shrink to the mean. LightGBM's default of 10 trusts rare
# categories: held-out AUC of tables with many categories is up to a point lower.
_SHRINKAGE = 50.0
# Fewer rows keep no thread busy: LightGBM's threads then wait for each other by spinning, which
# takes seconds where another process needs the processor.
_ROWS_OF_A_THREAD = 10_000


def grow(
    X: Float,
    y: Bool,
    weight: Float | None = None,
    *,
    categorical: Sequence[int] = (),
    numTrees: int = 100,
    numLeaves: int = 15,
    learningRate: float = 0.1,
    columnShare: float = 1.0,
    leafRows: int = 20,
    extraTrees: bool = False,
    seed: int = 0,
    threads: int = 1,
) -> Forest:
    """Trees that LightGBM boosts for the logistic loss.

    The values of categories shrink to the mean, as if of 50 rows more. Equal arguments give equal
    trees, whatever the number of threads.

    Parameters
    ----------
    X : (n, d)
        Rows; NaN is missing.
    y : (n,)
        True for positive rows.
    weight : (n,), optional
        Row weights of at least 0, which LightGBM rounds to float32. Default: 1.
    categorical
        Numbers of the columns of categories, which are whole numbers, best from 0 on without gaps.
        Negative ones count as missing.
    numTrees
        Number of trees, at least 1. There are fewer if no split helps any more.
    numLeaves
        Most leaves of a tree, at least 2.
    learningRate
        Factor of each tree's values, above 0.
    columnShare
        Share of the columns that a tree may split, drawn anew for each tree, above 0 and at most 1.
    leafRows
        Least number of rows of a leaf, at least 1; LightGBM estimates it from second derivatives.
    extraTrees
        Whether a split is the best of one random threshold of each column, as of extremely
        randomised trees (Geurts, Ernst & Wehenkel 2006), in place of all thresholds.
    seed
        Seed of LightGBM's random numbers, at least 0.
    threads
        Greatest number of threads, at least 1. Few rows take fewer.

    Raises
    ------
    ConfigError
        A setting is out of its range.
    DataError
        Lengths or weights are invalid, all rows with a weight are of one class, a column of
        categories is none of ``X``, or a category is so large that the sets of categories might
        take more than 64 MiB.
    MissingPackageError
        LightGBM is not installed.
    """
    for name, value, least in (
        ("numTrees", numTrees, 1),
        ("numLeaves", numLeaves, 2),
        ("leafRows", leafRows, 1),
        ("seed", seed, 0),
        ("threads", threads, 1),
    ):
        check_whole(name, value, least)
    check_above("learningRate", learningRate, 0.0)
    check_above("columnShare", columnShare, 0.0)
    if columnShare > 1.0:
        raise ConfigError(
            f"found columnShare = {columnShare}, expected at most 1; set a lower share"
        )
    _check_rows(X, y, weight, categorical)
    # LightGBM writes a bit for each number up to the largest category of a set.
    largest = np.nan_to_num(X[:, list(categorical)], posinf=np.inf).max(initial=0.0)
    most = 32 * (MOST_WORDS // (numTrees * (numLeaves - 1)))
    if largest > most:
        raise DataError(
            f"found category {largest:.0f}, expected at most {most} for {numTrees} trees of "
            f"{numLeaves} leaves; number the categories from 0, or take the column as numbers"
        )
    require("trees", "lightgbm")
    lightgbm: Any = import_module("lightgbm")
    settings = {
        "objective": "binary",
        "num_leaves": int(numLeaves),
        "learning_rate": float(learningRate),
        "feature_fraction": float(columnShare),
        "min_data_in_leaf": int(leafRows),
        "extra_trees": bool(extraTrees),
        "cat_smooth": _SHRINKAGE,
        "cat_l2": _SHRINKAGE,
        "seed": int(seed),
        "num_threads": min(int(threads), 1 + len(X) // _ROWS_OF_A_THREAD),
        # Histograms added in a fixed order; the choice of layout by timing would change them.
        "deterministic": True,
        "force_col_wise": True,
        "verbose": -1,
    }
    rows = lightgbm.Dataset(
        X, y.astype(float), weight=weight, categorical_feature=list(categorical)
    )
    return from_lightgbm(lightgbm.train(settings, rows, int(numTrees)).model_to_string())


def _check_rows(X: Float, y: Bool, weight: Float | None, categorical: Sequence[int]) -> None:
    """`DataError` for rows that LightGBM would refuse in its own way, or take silently."""
    shapes = [y.shape, *([] if weight is None else [weight.shape])]
    if X.ndim != 2 or set(shapes) != {X.shape[:1]}:
        raise DataError(
            f"found rows of shape {X.shape} with labels and weights of shapes {shapes}, expected "
            "(n, d), and (n,) for each; pass one label and one weight for each row"
        )
    if not X.shape[1]:
        raise DataError("found no columns to grow trees from, expected one or more; name some")
    most = float(np.finfo(np.float32).max)
    if weight is not None and not ((weight >= 0) & (weight <= most)).all():
        k = int(np.flatnonzero(~((weight >= 0) & (weight <= most)))[0])
        raise DataError(
            f"found weight {weight[k]} of row {k}, expected weights from 0 to {most:.1e}; repair "
            "or remove the row"
        )
    chosen = y if weight is None else y[weight > 0]
    if chosen.all() or not chosen.any():
        raise DataError(
            f"found {chosen.size} rows of one class to grow trees from, expected rows of both; "
            "grow them from more rows"
        )
    if outside := [k for k in categorical if not 0 <= k < X.shape[1]]:
        raise DataError(
            f"found column {outside[0]} of categories, expected numbers from 0 to "
            f"{X.shape[1] - 1}; name columns of the rows"
        )
