"""A learner of one row after another, with what it needs to learn later rows of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from spark_auc.core.batch import Batch, divided, shifted
from spark_auc.core.moments.column_moments import ColumnAccumulator, ColumnMoments
from spark_auc.core.sampling.sample_size import LargestNorm
from spark_auc.core.state.codec import kind_of
from spark_auc.core.state.schema import Part, Schema, Values, reals
from spark_auc.core.state.schema_state import SchemaState
from spark_auc.core.types import Float
from spark_auc.learners.blocks import blocks
from spark_auc.learners.opauc import OPAUC
from spark_auc.learners.opauc_low_rank import OPAUCr
from spark_auc.learners.solam import SOLAM

StreamedLearner: TypeAlias = OPAUC | OPAUCr | SOLAM
_KINDS: dict[str, type[StreamedLearner]] = {kind.__name__: kind for kind in (OPAUC, OPAUCr, SOLAM)}
# Rows that a learner takes at a time; SOLAM's bound rises before each of these blocks.
_BLOCK = 1 << 13


def _consistent(values: Values) -> str | None:
    d, columns = values["scale"].size, values["columns"].mean.shape[1]
    return None if d == columns else f"its scale is of {d} columns, and its means of {columns}"


@dataclass(frozen=True, eq=False)
class LearnedRows(SchemaState):
    """A learner after the rows of a stream so far.

    Parameters
    ----------
    learner
        Bytes of the learner, of shifted and scaled rows.
    shift, scale : (d,)
        What is subtracted from rows, and then divides them.
    columns
        Column moments of the rows as they are.
    scores
        Moments of scores, as one column: of the last rows that had both classes.
    """

    SCHEMA: ClassVar[Schema] = Schema(
        "LearnedRows",
        1,
        {
            "learner": Part(None),
            "shift": reals("d"),
            "scale": reals("d"),
            "columns": Part(ColumnMoments),
            "scores": Part(ColumnMoments),
        },
        _consistent,
    )

    learner: bytes
    shift: Float
    scale: Float
    columns: ColumnMoments
    scores: ColumnMoments

    @property
    def dimension(self) -> int:
        """Number of features ``d``."""
        return self.scale.size

    def restored(self) -> StreamedLearner:
        """The learner; `ModelFormatError` for one of another kind."""
        return _KINDS[kind_of(self.learner, _KINDS)].from_bytes(self.learner)

    @property
    def w(self) -> Float:
        """Weights ``(d,)`` of the rows as they are."""
        w: Float = self.restored().w / self.scale
        return w

    def after(self, batches: Iterable[Batch]) -> LearnedRows:
        """The learner after later rows, in order, with the column moments of these rows alone.

        SOLAM's bound ``kappa`` of the lengths rises to that of a longer row before it is learned.
        """
        learner, columns = self.restored(), ColumnAccumulator(self.dimension)

        def surveyed() -> Iterator[Batch]:
            for batch in batches:
                columns.add(batch)
                yield batch._replace(X=divided(shifted(batch.X, self.shift), self.scale))

        for block in blocks(surveyed(), _BLOCK):
            if isinstance(learner, SOLAM):
                longest = float(LargestNorm.of(block.X).squared) ** 0.5
                learner.kappa = max(learner.kappa, longest)
            learner.learn(block.X, block.y, block.weight)
        return replace(self, learner=learner.to_bytes(), columns=columns.finish())

    def merge(self, later: LearnedRows) -> LearnedRows:
        """The learner after later rows, which it learned from this one on."""
        scores = later.scores if later.scores.rows.all() else self.scores
        return replace(later, columns=self.columns.merge(later.columns), scores=scores)
