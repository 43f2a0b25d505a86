"""XGBoost models: the JSON and UBJ that `Booster.save_raw` returns and `save_model` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Float
from spark_auc.errors import ModelFormatError
from spark_auc.trees.column_names import check_categories
from spark_auc.trees.forest import (
    CATEGORICAL,
    NAN_LEFT,
    OTHERS_LEFT,
    CategorySets,
    Forest,
    Tree,
    damaged,
)
from spark_auc.trees.level_order import level_order
from spark_auc.trees.ubjson import OBJECTS, from_ubjson

# Objectives whose stored base score is a probability or a positive mean; that of others is added.
_PROBABILITIES = ("binary:logistic", "reg:logistic")
_MEANS = ("count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox")


def from_xgboost(model: str | bytes | bytearray) -> Forest:
    """The trees of an XGBoost model with one score per row.

    NaN is the missing value. A column of categories has the numbers that the model was trained
    with; for a pandas column of categories these are its codes. The leaf values of `dart` are
    multiplied by the weights of their trees.

    All trees are read, as `Booster.predict` uses them. After early stopping some are later than
    the best iteration, and `XGBClassifier` leaves these out: give the model
    ``booster[: booster.best_iteration + 1]``.

    Parameters
    ----------
    model
        The model in JSON or UBJ.

    Raises
    ------
    ModelFormatError
        The text is no XGBoost model in JSON or UBJ, is damaged, is linear, or has more than one
        score per row.
    """
    learner = _learner(model)
    try:
        booster, shape = learner["gradient_booster"], learner["learner_model_param"]
        kind, scores = booster["name"], [shape["num_class"], shape.get("num_target", "1")]
        if kind not in ("gbtree", "dart"):
            raise ModelFormatError(
                f"found an XGBoost model with booster={kind!r}"[:100] + ", expected trees; train "
                "it with gbtree or dart"
            )
        parts = booster["gbtree"] if kind == "dart" else booster
        trees = parts["model"]["trees"]
        vectors = {int(tree["tree_param"]["size_leaf_vector"]) for tree in trees}
        if not (int(scores[0]) <= 1 and int(scores[1]) == 1 and vectors <= {0, 1}):
            raise ModelFormatError(
                f"found an XGBoost model of {scores[0]} classes and {scores[1]} targets, expected "
                "one score per row; train it on two classes with binary:logistic"
            )
        sets = CategorySets()
        weights = booster["weight_drop"] if kind == "dart" else [1.0] * len(trees)
        return Forest.of(
            int(shape["num_feature"]),
            "float32",
            [_tree(tree, weight, sets) for tree, weight in zip(trees, weights, strict=True)],
            _offset(str(shape["base_score"]), learner["objective"]["name"]),
        )
    except (KeyError, ValueError, TypeError, IndexError, OverflowError, AttributeError) as error:
        raise damaged(f"{type(error).__name__} {error}"[:100]) from None


def xgboost_names(model: str | bytes | bytearray) -> list[str]:
    """Names of the columns of an XGBoost model in JSON or UBJ; none if it was trained without.

    Raises
    ------
    ModelFormatError
        The text is no XGBoost model, or has other than one name for each column.
    ConfigError
        Trees have other numbers than the values of a column of categories.
    """
    learner = _learner(model)
    names, columns = learner.get("feature_names", []), learner["learner_model_param"]
    is_list = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not is_list or (names and str(len(names)) != columns.get("num_feature")):
        raise damaged("it has not one name for each column")
    try:
        booster = learner["gradient_booster"]
        # Versions before 3.1 do not keep the values.
        kept = booster.get("gbtree", booster)["model"].get("cats", {}).get("enc", [])
        check_categories([_categories(entry) for entry in kept])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise damaged(f"{type(error).__name__} {error}"[:100]) from None
    return list(names)


def _categories(kept: Mapping[str, Any]) -> list[Any]:
    """The values of a column of categories; none of a column of numbers."""
    offsets = _whole(kept.get("offsets", [])).tolist()
    if not offsets:
        return list(np.array(kept["values"]).ravel().tolist())
    # Text is kept as bytes, some of which are below 0, and XGBoost 3.2 cuts text beyond ASCII.
    text = _whole(kept["values"]).astype(np.uint8).tobytes()
    return [text[begin:end].decode(errors="replace") for begin, end in pairwise(offsets)]


def _learner(model: str | bytes | bytearray) -> dict[str, Any]:
    """The learner of a stored model, with the parameters of the model."""
    try:
        if isinstance(model, str) or not model.startswith(OBJECTS):
            learner = json.loads(model)["learner"]
        else:
            learner = from_ubjson(model)["learner"]
        if isinstance(learner["learner_model_param"], dict):
            return dict(learner)
    except (ValueError, RecursionError, KeyError, TypeError):
        pass
    raise ModelFormatError(
        f"found data that begin with {model[:20]!r}, expected an XGBoost model in JSON or UBJ; "
        "give that of Booster.save_raw, or of the file NAME.json or NAME.ubj of save_model"
    )


def float32_threshold(threshold: NDArray[np.float32]) -> Float:
    """Doubles ``c`` such that ``x <= c`` if and only if ``float32(x) < threshold``.

    A double rounds to a smaller float32 if it is below the midpoint between the threshold and
    the float32 before it, or is the midpoint and that float32 is even. Doubles have enough
    digits for the midpoint. Infinity counts as 2^128, as it does in rounding.

    Parameters
    ----------
    threshold : (m,)
        Finite numbers or infinity.

    Raises
    ------
    ModelFormatError
        A threshold is NaN or minus infinity, below which there is no number.
    """
    if not (threshold > -np.inf).all():
        raise damaged("a threshold is NaN or minus infinity")
    with np.errstate(over="ignore"):
        before = np.nextafter(threshold, np.float32(-np.inf))
    ends = np.clip(np.stack([before, threshold]).astype(float), -(2.0**128), 2.0**128)
    middle: Float = ends.sum(axis=0) / 2
    is_even = before.view(np.uint32) % 2 == 0
    middle[~is_even] = np.nextafter(middle[~is_even], -np.inf)
    return middle


def _offset(base_score: str, objective: str) -> float:
    """The base score as it is added to leaf values."""
    base = float(base_score.strip("[]"))
    if objective in _PROBABILITIES:
        if not 0.0 < base < 1.0:
            raise ValueError("base_score")
        return float(np.log(base) - np.log1p(-base))
    return float(np.log(base)) if objective in _MEANS else base


@np.errstate(all="ignore")
def _tree(stored: Mapping[str, Any], weight: float, made: CategorySets) -> Tree:
    inner, leaf, left, right = level_order(
        _whole(stored["left_children"]), _whole(stored["right_children"])
    )
    count = len(stored["left_children"])
    number = np.array(stored["split_conditions"], np.float32).ravel()
    is_set = _whole(stored.get("split_type", [0] * count)) == 1
    column, default = _whole(stored["split_indices"]), _whole(stored["default_left"])
    if {number.size, is_set.size, column.size, default.size} != {count}:
        raise ValueError("arrays of unequal lengths")
    # Categories of a set go right.
    sets = [np.empty(0, np.uint32)] * count
    if is_set.any():
        categories = _whole(stored["categories"])
        segments = (stored[f"categories_{part}"] for part in ("nodes", "segments", "sizes"))
        for node, begin, size in zip(*map(_whole, segments), strict=True):
            if not (0 <= node < count and 0 <= begin <= begin + size <= categories.size):
                raise ValueError("categories_segments")
            sets[node] = made.of(categories[begin : begin + size], fill=1)
    rule = NAN_LEFT * (default[inner] != 0) + (CATEGORICAL + OTHERS_LEFT) * is_set[inner]
    return Tree(
        column[inner],
        np.where(is_set[inner], 0.0, float32_threshold(np.where(is_set, 0, number)[inner])),
        rule,
        left,
        right,
        [sets[node] if is_set[node] else np.empty(0, np.uint32) for node in inner],
        leaf,
        float(np.float32(weight)) * number[leaf].astype(float),
    )


def _whole(values: Any) -> NDArray[np.int64]:
    whole = np.array(values).ravel()
    if whole.size and whole.dtype.kind not in "bi":
        raise ValueError("a list of whole numbers")
    return whole.astype(np.int64)
