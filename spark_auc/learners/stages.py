"""AdaDSG: doubling stages of DSGD on nested subsets of the rows (Gu et al., 2019)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from spark_auc.core.batch import Batch, hashed_shares, stacked
from spark_auc.core.sampling.repeats import distinct_keys
from spark_auc.core.types import Float
from spark_auc.core.validation import check_whole
from spark_auc.learners.dsgd import DSGD

# Separates these random numbers from other uses of the same seed.
_SUBSETS = 0x5B


class DoublingStage(NamedTuple):
    """The state after a stage.

    Parameters
    ----------
    rows
        Rows of the stage's subset.
    steps
        Number of steps in all stages so far.
    learner
        The learner; the next stage continues with the same object.
    """

    rows: int
    steps: int
    learner: DSGD


def subset(rows: Batch, share: float, seed: int) -> Batch:
    """The rows whose hash is below ``share``; subsets of growing shares are nested."""
    if share >= 1.0:
        return rows
    return rows.take(np.flatnonzero(joining_shares(rows, seed) < share))


def joining_shares(rows: Batch, seed: int) -> Float:
    """The share ``(n,)`` from which on the subset contains each row."""
    return hashed_shares(rows.keys(), seed, _SUBSETS)


def adadsg(
    rows: Batch, learner: DSGD, first: int = 256, stages: int = 20
) -> Iterator[DoublingStage]:
    """AdaDSG: stages on nested subsets that double in size, each with a warm start (Gu et al.).

    Parameters
    ----------
    rows
        All ``n`` rows, in memory.
    learner
        The learner; each stage makes as many steps as its subset has rows.
    first
        Expected number of rows of the first stage.
    stages
        Number of stages; once the subset is all rows, further stages use all rows. 20 in the
        paper, whose printed loop does not end.

    Yields
    ------
    DoublingStage
        The state after each stage.

    Raises
    ------
    ConfigError
        ``first`` or ``stages`` is not a whole number of at least 1.
    """
    check_whole("the rows of the first stage", first, 1)
    check_whole("the number of stages", stages, 1)
    rows = stacked(tuple(distinct_keys()(iter([rows]))))
    steps = 0
    for number in range(stages):
        part = subset(rows, first * 2.0**number / max(rows.y.size, 1), learner.seed)
        if part.y.size:
            learner.stage(part.y.size)
            learner.learn(part.X, part.y)
            steps += learner.steps
        yield DoublingStage(part.y.size, steps, learner)
