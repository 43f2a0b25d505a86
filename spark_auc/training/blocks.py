"""Blocks of a union of features, and the candidate models that are made of them.

The features of every candidate are some columns of one union, so that its moments are a principal
submatrix of the union's: all candidates share the passes over the rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Literal, TypeAlias

import numpy as np

from spark_auc.core.memory import MemoryBudget
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.types import Int
from spark_auc.errors import ResourceError

Loss: TypeAlias = Literal["squared", "hinge"]
# Numbers (f,) of the features of each block in the union, ascending, by the block's name.
Blocks: TypeAlias = Mapping[str, Int]

ADDITIVE, PAIRS, CROSSES, LEAVES = "additive", "pairs", "crosses", "leaves"
# Candidates from simple to complex. The last is a union of all blocks that there are.
_UNIONS = (
    (ADDITIVE,),
    (ADDITIVE, PAIRS),
    (ADDITIVE, CROSSES),
    (LEAVES,),
    (ADDITIVE, PAIRS, CROSSES),
    (ADDITIVE, LEAVES),
)


@dataclass(frozen=True)
class Method:
    """A candidate model: its blocks of features, and its loss.

    Parameters
    ----------
    blocks
        Names of the blocks.
    loss
        "squared" or "hinge": the loss of all pairs. The hinge is squared too, and is 0 for pairs
        that are ranked with margin 1.
    """

    blocks: tuple[str, ...]
    loss: Loss = "squared"

    @property
    def name(self) -> str:
        """The name in reports, such as "additive + pairs, hinge"."""
        return " + ".join(self.blocks) + (", hinge" if self.loss == "hinge" else "")

    def columns(self, blocks: Blocks) -> Int:
        """Numbers ``(d,)`` of its features in the union, ascending."""
        return np.sort(np.concatenate([blocks[name] for name in self.blocks]))


def unions(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The declared unions of some blocks, from simple to complex."""
    made = [union for union in _UNIONS if set(union) <= set(names)]
    is_new = ADDITIVE in names and set(names) not in map(set, made)
    return [*made, *([names] if is_new else [])]


def fitting(
    blocks: Blocks, memory: MemoryBudget, parts: int, largest: int
) -> tuple[dict[str, Int], dict[str, str]]:
    """The blocks whose moments fit in memory together: the largest are left out first.

    The additive block remains unless it does not fit alone, as all blocks but leaves need it.

    Parameters
    ----------
    blocks
        All blocks.
    memory
        The memory budget.
    parts
        Number of parts of the rows that have moments of their own.
    largest
        Greatest number of features.

    Returns
    -------
    kept
        The blocks that fit.
    left_out
        The reason why each other block was left out.
    """
    kept, left_out = dict(blocks), dict[str, str]()

    def leave_out(name: str, reason: str) -> None:
        left_out[name] = reason
        del kept[name]

    additive = {ADDITIVE: blocks[ADDITIVE]} if ADDITIVE in blocks else {}
    if additive and (reason := _too_large(additive, memory, parts, largest)):
        leave_out(ADDITIVE, reason)
        for name in kept.keys() - {LEAVES}:
            leave_out(name, f"the block {ADDITIVE} is left out, which it needs")
    while kept and (reason := _too_large(kept, memory, parts, largest)):
        others = [name for name in kept if name != ADDITIVE]
        name = max(others, key=lambda name: kept[name].size)
        leave_out(name, f"its {kept[name].size} features are the largest block: {reason}")
    return kept, left_out


def _too_large(blocks: Blocks, memory: MemoryBudget, parts: int, largest: int) -> str | None:
    size = reduce(int.__add__, (columns.size for columns in blocks.values()))
    if size > largest:
        return (
            f"found {size} features in {len(blocks)} blocks, expected at most {largest}; use fewer "
            "features"
        )
    nbytes, what = PairMoments.nbytes(size), f"moments of {size} features in {parts} parts"
    try:
        memory.check(nbytes, what)
        memory.check_folds(nbytes, parts, what)
    except ResourceError as error:
        return str(error)
    return None
