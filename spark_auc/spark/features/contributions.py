"""The largest contributions to the scores of raw rows, as a column of names and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql.pandas.functions import arrow_udf

from spark_auc.core.segments import SegmentWeights
from spark_auc.core.types import Float, Int
from spark_auc.features.contributions import TREES, contributions, largest, part_columns
from spark_auc.features.raw_columns import Columns, Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_tokens import Hashed, Tokens
from spark_auc.features.token_names import LENGTH, printable
from spark_auc.spark.data.raw_features import RawFeatures

_TYPE = "array<struct<feature: string, value: double>>"
_JOINT = pa.scalar(" x ", pa.large_string())
# Tokens that `printable` leaves as they are.
_PLAIN = f"^[ -~]{{0,{LENGTH}}}$"


def contribution_column(features: RawFeatures, w: Float, count: int) -> Column:
    """The largest contributions to the scores ``w'x`` of rows, as an array of names and values.

    Parameters
    ----------
    features
        The features of the rows.
    w : (F,)
        Weights of the features.
    count
        Largest number of contributions of a row.
    """
    recipe = features.recipe

    def shown(*arrays: pa.Array) -> pa.Array:
        columns = features.raw.decode(arrays)
        return listed(recipe, columns, contributions(recipe, w, columns), count)

    return _column(shown, features.expressions())


def segment_contribution_column(
    features: RawFeatures, weights: SegmentWeights, name: str, number: Column, count: int
) -> Column:
    """The largest contributions to the scores of rows by the rankers of their segments.

    The intercept of a segment is a contribution, too, such as "segment city=Oslo", or "no segment
    of city" for rows of no segment.

    Parameters
    ----------
    features
        The features of the rows.
    weights
        The rankers.
    name
        Name of the segment column.
    number
        Number of each row's segment.
    count
        Largest number of contributions of a row.
    """
    recipe = features.recipe
    words = [printable(f"segment {name}={value}") for value in weights.values]
    intercepts = pa.array([*words, printable(f"no segment of {name}")], pa.large_string())

    def shown(*arrays: pa.Array) -> pa.Array:
        segment = arrays[-1].to_numpy()
        values = np.zeros((segment.size, len(part_columns(recipe)) + 1))
        for s in np.unique(segment):
            rows = np.flatnonzero(segment == s)
            own = features.raw.decode([array.take(pa.array(rows)) for array in arrays[:-1]])
            values[rows, :-1] = contributions(recipe, weights.W[s], own)
            values[rows, -1] = weights.intercept[s]
        columns = features.raw.decode(arrays[:-1])
        return listed(recipe, columns, values, count, intercepts.take(pa.array(segment)))

    return _column(shown, [*features.expressions(), number])


def _column(shown: Callable[..., pa.Array], expressions: Sequence[Column]) -> Column:
    # Spark reads the types themselves, which are but text under postponed annotations.
    shown.__annotations__ = {"arrays": pa.Array, "return": pa.Array}
    column: Column = arrow_udf(shown, _TYPE)(*expressions)  # type: ignore[call-overload]
    return column


def listed(
    recipe: Recipe, columns: Columns, values: Float, count: int, last: pa.Array | None = None
) -> pa.ListArray:
    """The largest contributions of each row in absolute value, descending; those of 0 are left out.

    A column with one token is named by it ("C3=68fd1e64"), others by their column ("age"), a
    cross by both columns ("C3=68fd1e64 x age"), and all leaves by "trees".

    Parameters
    ----------
    recipe, columns
        The recipe, and raw columns ``(n,)`` by name.
    values : (n, p)
        Contributions of the parts of the recipe.
    count
        Largest number of contributions of a row.
    last : (n,)
        Names of the last values, if those are of no part of the recipe.
    """
    places = largest(values, count)
    rows, _ = np.nonzero(places >= 0)
    chosen = places[places >= 0]
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(values.shape[1] + 1))
    names = [pa.array([], pa.large_string())]
    for part, own in enumerate(part_columns(recipe)):
        of_part = rows[order[bounds[part] : bounds[part + 1]]]
        if of_part.size:
            words = [_words(recipe, columns, name, of_part) for name in own]
            words = words or [_repeated(TREES, of_part.size)]
            names.append(pc.binary_join_element_wise(*words, _JOINT) if own[1:] else words[0])
    if last is not None:
        names.append(last.take(pa.array(rows[order[bounds[-2] :]])))
    inverse = np.empty(order.size, np.int64)
    inverse[order] = np.arange(order.size)
    shown = pa.concat_arrays(names).take(pa.array(inverse)).cast(pa.string())
    pairs = pa.StructArray.from_arrays(
        [shown, pa.array(values[rows, chosen])], names=["feature", "value"]
    )
    offsets = np.append(0, np.cumsum((places >= 0).sum(axis=1))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pairs)


def _words(recipe: Recipe, columns: Columns, name: str, rows: Int) -> pa.Array:
    """The name of a column, or its token in each of some rows ``(m,)`` if it is one token."""
    own = [column for column in recipe.own_columns if column.name == name]
    tokens = [column for column in recipe.hashed if column.name == name]
    if own != tokens[:1]:
        return _repeated(name, rows.size)
    return _tokens(tokens[0], columns, rows)


def _repeated(name: str, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(name, pa.large_string()), rows)


def _tokens(hashed: Hashed, columns: Columns, rows: Int) -> pa.Array:
    column = columns[hashed.name]
    if isinstance(column, Text):
        values = _texts(column, rows)
    else:
        values = pa.array(column.values[rows])
        if column.validity is not None:
            values = pc.if_else(pa.array(column.validity[rows]), values, None)
    if not isinstance(hashed, Tokens):
        # Few values, such as bins of logarithms.
        return _by_value(values, lambda at: hashed.token(column, int(rows[at])))
    words = values if isinstance(column, Text) else values.cast(pa.large_string())
    words = pc.if_else(pc.equal(pc.binary_length(words), 0), None, words.cast(pa.large_binary()))
    named = pc.binary_join_element_wise(_binary(f"{hashed.name}="), words, _binary(""))
    named = named.fill_null(_binary(f"{hashed.name} missing"))
    is_plain = pc.match_substring_regex(named, _PLAIN)
    others = named.filter(pc.invert(is_plain))
    if len(others):
        made = _by_value(others, lambda at: others[at].as_py().decode(errors="replace"))
        named = pc.replace_with_mask(named, pc.invert(is_plain), made.cast(pa.large_binary()))
    return named.cast(pa.large_string())


def _texts(column: Text, rows: Int) -> pa.Array:
    """The bytes of some rows ``(m,)``; none where the value is missing."""
    starts = column.starts[rows].astype(np.int64)
    lengths = column.ends[rows] - starts
    if column.validity is not None:
        lengths = np.where(column.validity[rows], lengths, 0)
    offsets = np.append(0, np.cumsum(lengths))
    places = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
    data = np.ascontiguousarray(column.data[places])
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), rows.size, buffers)


def _by_value(values: pa.Array, token: Callable[[int], str]) -> pa.Array:
    """The printable token of each value ``(m,)``; ``token`` takes the place of a value."""
    encoded = values.dictionary_encode("encode")
    codes = encoded.indices.to_numpy(zero_copy_only=False)
    _, firsts = np.unique(codes, return_index=True)
    words = [printable(token(at)) for at in firsts.tolist()]
    return pa.array(words, pa.large_string()).take(pa.array(codes))


def _binary(text: str) -> pa.Scalar:
    return pa.scalar(text.encode(), pa.large_binary())
