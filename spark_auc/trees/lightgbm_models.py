"""LightGBM models: the text that `Booster.model_to_string` returns and `save_model` writes.

The text has all digits of thresholds. The JSON of `Booster.dump_model` does not: it writes every
threshold above 1e300 as 1e300.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np

from spark_auc.core.types import Float, Int
from spark_auc.errors import ModelFormatError
from spark_auc.trees.column_names import check_categories
from spark_auc.trees.forest import CATEGORICAL, NAN_LEFT, ZERO, ZERO_MISSING, Forest, Tree, damaged

# Bits of LightGBM's decision types. Bits 2 and 3 are the missing type.
_CATEGORICAL, _DEFAULT_LEFT = 1, 2
_ZERO, _NAN = 1, 2


def from_lightgbm(text: str) -> Forest:
    """The trees of a LightGBM model with one score per row.

    A column of categories has the numbers that the model was trained with; for a pandas column
    of categories these are its codes.

    Parameters
    ----------
    text
        Text of the model.

    Raises
    ------
    ModelFormatError
        The text is no LightGBM model, is damaged, has linear trees, or has more than one score
        per row.
    """
    head, *rest = text.split("\nTree=")
    model = _fields(head)
    if head.splitlines()[:1] != ["tree"] or "max_feature_idx" not in model:
        raise ModelFormatError(
            f"found text that begins with {text[:20]!r}, expected that of a LightGBM model; give "
            "the text of Booster.model_to_string or of the file of Booster.save_model"
        )
    if (scores := model.get("num_tree_per_iteration", "")) != "1":
        raise ModelFormatError(
            f"found a LightGBM model with num_tree_per_iteration={scores[:20]}, expected 1; "
            "train it on two classes, or with one score per row"
        )
    if rest and "\nend of trees" not in rest[-1]:
        raise damaged("its text ends within a tree")
    try:
        columns = int(model["max_feature_idx"]) + 1
        trees = [_tree(_fields(part.partition("\nend of trees")[0])) for part in rest]
    except (KeyError, ValueError, OverflowError, IndexError) as error:
        raise damaged(f"{type(error).__name__} {error}"[:100]) from None
    return Forest.of(columns, "truncated", trees)


def lightgbm_names(text: str) -> list[str]:
    """Names of the columns of a LightGBM model as it writes them, with `_` for a space.

    Raises
    ------
    ModelFormatError
        The text has other than one name for each column.
    ConfigError
        Trees have other numbers than the values of a column of categories.
    """
    model = _fields(text.partition("\nTree=")[0])
    names = model.get("feature_names", "").split(" ")
    if str(len(names) - 1) != model.get("max_feature_idx"):
        raise damaged("it has not one name for each column")
    stored = text.rpartition("\npandas_categorical:")[2].partition("\n")[0]
    try:
        check_categories(json.loads(stored) or () if stored.startswith("[") else ())
    except (ValueError, TypeError, RecursionError):
        raise damaged("pandas_categorical") from None
    return names


def _fields(text: str) -> dict[str, str]:
    parts = (line.partition("=") for line in text.splitlines())
    return {name: value for name, sign, value in parts if sign}


def _tree(fields: Mapping[str, str]) -> Tree:
    if fields.get("is_linear", "0") != "0":
        raise ModelFormatError(
            "found a LightGBM model with linear trees, expected constant leaves; train it with "
            "linear_tree=False"
        )
    values = _reals(fields["leaf_value"])
    if fields["num_leaves"] == "1":
        none = np.empty(0, np.int64)
        return Tree(none, np.empty(0), none, none, none, [], np.arange(values.size), values)
    decision = _whole(fields["decision_type"])
    threshold = _reals(fields["threshold"])
    is_set = (decision & _CATEGORICAL) != 0
    sets = [np.empty(0, np.uint32)] * decision.size
    if is_set.any():
        words = np.array(fields["cat_threshold"].split(), np.uint32)
        bounds = _whole(fields["cat_boundaries"])
        if bounds[0] != 0 or bounds[-1] != words.size or (np.diff(bounds) < 0).any():
            raise ValueError("cat_boundaries")
        nodes = np.flatnonzero(is_set)
        places = [int(place) for place in threshold[nodes]]
        # LightGBM makes a set for each node. Shared sets would take far more memory than the text.
        if len(set(places)) < len(places):
            raise ValueError("threshold of a set that another node has")
        for node, place in zip(nodes, places, strict=True):
            if not 0 <= place < bounds.size - 1:
                raise ValueError("threshold of a set")
            sets[node] = words[bounds[place] : bounds[place + 1]]
    cut, rule = _numeric(threshold, decision)
    return Tree(
        _whole(fields["split_feature"]),
        np.where(is_set, 0.0, cut),
        np.where(is_set, CATEGORICAL, rule),
        _whole(fields["left_child"]),
        _whole(fields["right_child"]),
        sets,
        np.arange(values.size),
        values,
    )


def _numeric(threshold: Float, decision: Int) -> tuple[Float, Int]:
    """Thresholds and rules of numeric nodes.

    LightGBM takes values from -1e-35 to 1e-35 for 0, and NaN for 0 unless NaN is the missing
    value. A threshold among these values moves to the end of their range, so that all are on
    the side of 0.
    """
    missing, default = (decision >> 2) & 3, (decision & _DEFAULT_LEFT) != 0
    if (missing > _NAN).any():
        raise ValueError("decision_type")
    is_zero_left = threshold >= 0.0
    is_small = (threshold >= -ZERO) & (threshold < ZERO)
    cut = np.where(is_small, np.where(is_zero_left, ZERO, np.nextafter(-ZERO, -np.inf)), threshold)
    nan_left = np.where(missing == 0, is_zero_left, default)
    return cut, NAN_LEFT * nan_left + ZERO_MISSING * (missing == _ZERO)


def _reals(text: str) -> Float:
    return np.array(text.split(), float)


def _whole(text: str) -> Int:
    return np.array(text.split(), np.int64)
