"""Names of the parts of a recipe in raw rows: columns, and the tokens of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from spark_auc.core.types import Int
from spark_auc.features.contributions import TREES, part_columns
from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.raw_columns import Columns, Text
from spark_auc.features.recipe import Recipe
from spark_auc.features.token_names import LENGTH, printable

_JOINT = pa.scalar(" x ", pa.large_string())
# Tokens that `printable` leaves as they are.
_PLAIN = f"^[ -~]{{0,{LENGTH}}}$"

# From parts ``(m,)`` and rows ``(m,)`` to the names of the parts in these rows.
Words: TypeAlias = Callable[[Int, Int], pa.Array]


def recipe_words(recipe: Recipe, columns: Columns) -> Words:
    """The names of a recipe's parts in rows of raw columns.

    A column with one token is named by it ("C3=68fd1e64"), others by their column ("age"), a cross
    by both columns ("C3=68fd1e64 x age"), and all leaves by "trees".

    Parameters
    ----------
    recipe, columns
        The recipe, and raw columns ``(n,)`` by name.
    """

    def named(chosen: Int, rows: Int) -> pa.Array:
        order = np.argsort(chosen, kind="stable")
        names = [pa.array([], pa.large_string())]
        columns_of = part_columns(recipe)
        bounds = np.searchsorted(chosen[order], np.arange(len(columns_of) + 1))
        for part, own in enumerate(columns_of):
            of_part = rows[order[bounds[part] : bounds[part + 1]]]
            if of_part.size:
                words = [_words(recipe, columns, name, of_part) for name in own]
                words = words or [_repeated(TREES, of_part.size)]
                names.append(pc.binary_join_element_wise(*words, _JOINT) if own[1:] else words[0])
        return placed(names, order)

    return named


def placed(pieces: Sequence[pa.Array], places: Int) -> pa.Array:
    """The values of all pieces, each in its place."""
    inverse = np.empty(places.size, np.int64)
    inverse[places] = np.arange(places.size)
    joined = pa.concat_arrays([piece.cast(pa.large_string()) for piece in pieces])
    return joined.take(pa.array(inverse))


def _words(recipe: Recipe, columns: Columns, name: str, rows: Int) -> pa.Array:
    """The name of a column, or its token in each of some rows ``(m,)`` if it is one token."""
    own = [column for column in recipe.own_columns if column.name == name]
    tokens = [column for column in recipe.hashed if column.name == name]
    if own != tokens[:1] or len(tokens[0].parts) > 1:
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
    if not hashed.OF_VALUES or hashed.words is not None:
        # Few values, such as bins of logarithms.
        if len(hashed.words or ()) == 1:
            # All values have the same token.
            is_text = isinstance(column, Text)
            values = pc.greater(pc.binary_length(values), 0) if is_text else values.is_valid()
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
