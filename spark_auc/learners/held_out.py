"""What the rows of a pass that are not learnt yet say of the learner: whether it falls short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import estimated_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_product
from spark_auc.core.state.schema import COUNT, REAL, TEXT, Schema, Values
from spark_auc.core.types import Float
from spark_auc.learners.blocks import blocks
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.stages import joining_shares

# What one pass may lose against ridge before it is said.
TOLERATED = 0.01
# More features than these, and ridge would cost more than the pass.
_RIDGE_FEATURES = 512
# Rows of each part, and their stored entries, from which the comparison is made.
_ROWS, _ENTRIES = 10_000, 1 << 22
_LAST = 2
# Ridge factors among which the comparison chooses, in units of the mean of Sigma's diagonal.
_PENALTIES: Float = np.logspace(-4, 1, 6)


@dataclass(frozen=True)
class HeldOut:
    """AUCs on rows before they are learnt: the last third of a pass, or the last stage's new ones.

    Parameters
    ----------
    rows
        Rows on which they are measured.
    auc
        Of the learner that has taken all rows but these.
    before
        Of the learner that has taken half as many.
    rival, rival_auc
        ``"ridge"``, or ``"diagonal"`` where a matrix of all features costs more than the pass:
        ``mu_j / (Sigma_jj + lambda)``. Made of some of the rows before; and its AUC.
    gap, error
        By how much the AUC at the end of the pass is estimated to fall short, and the standard
        error of that: the rival's lead, or, where ridge is not made, what more rows would bring
        if that is more. An average forgets its start as ``1 / t``, so that its last doubling of
        rows gained as much as is left.
    """

    rows: int
    auc: float
    before: float
    rival: str
    rival_auc: float
    gap: float
    error: float

    @property
    def short(self) -> bool:
        """Whether the gap is more than what is tolerated, and than its own standard error."""
        return self.gap > max(TOLERATED, self.error)

    def as_dict(self) -> dict[str, Any]:
        """The fields, and ``short``."""
        return asdict(self) | {"short": self.short}

    def to_bytes(self) -> bytes:
        """Versioned bytes."""
        return _SCHEMA.encode(vars(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> HeldOut:
        """What `to_bytes` stored; `ModelFormatError` if it is none."""
        return _SCHEMA.restore(data, cls)

    @classmethod
    def mean(cls, parts: Sequence[HeldOut]) -> HeldOut | None:
        """That of learners which saw different rows: averages by rows; None of none."""
        if not parts:
            return None
        rows = np.array([part.rows for part in parts], float)
        share = rows / rows.sum()
        values = {
            name: float(share @ [getattr(part, name) for part in parts])
            for name in ("auc", "before", "rival_auc", "gap")
        }
        error = float(np.sqrt((share**2) @ [part.error**2 for part in parts]))
        return cls(int(rows.sum()), rival=parts[0].rival, error=error, **values)


def _measured(values: Values) -> str | None:
    shares = [values[name] for name in ("auc", "before", "rival_auc")]
    # Squares of errors are summed.
    sizes = np.abs([values["gap"], values["error"]]) < 1e100
    fits = values["rows"] > 0 and all(0 <= share <= 1 for share in shares) and sizes.all()
    return None if fits else "its measures are not those of rows"


_SCHEMA = Schema(
    "HeldOut",
    1,
    {
        "rows": COUNT,
        "auc": REAL,
        "before": REAL,
        "rival": TEXT,
        "rival_auc": REAL,
        "gap": REAL,
        "error": REAL,
    },
    _measured,
)


@dataclass
class Sample:
    """Some of the rows that a learner took before, between and after two states of it.

    Parameters
    ----------
    left
        What the state at the end is estimated to have to gain still, as a share of what the
        later state gained on the earlier one.
    """

    left: float
    parts: tuple[list[Batch], list[Batch], list[Batch]] = field(
        default_factory=lambda: ([], [], [])
    )

    def add(self, rows: Batch, part: int) -> None:
        """Keep rows of a part, as far as there is room."""
        kept = self.parts[part]
        room = _ROWS - sum(batch.y.size for batch in kept)
        width = max(rows.X.size / max(rows.y.size, 1), 1.0)
        count = min(room, int(_ENTRIES / width), rows.y.size)
        if count > 0:
            kept.append(rows.take(np.arange(count)))

    def compared(self, early: Float, late: Float) -> HeldOut | None:
        """How two states' weights ``(d,)`` rank the rows of the last part, beside a rival.

        Returns
        -------
        HeldOut, optional
            None where a part lacks two rows of a class, or weights are not finite.
        """
        if not all(self.parts):
            return None
        first, second, last = (stacked(part) for part in self.parts)
        both = all(2 <= int(rows.y.sum()) <= rows.y.size - 2 for rows in (first, second, last))
        if not (both and np.isfinite(early).all() and np.isfinite(late).all()):
            return None
        exact = late.size <= _RIDGE_FEATURES
        rival = _ridge(first, second) if exact else _diagonal(first, second)
        scores = settled_product(last.X, np.stack((early, late, rival), axis=1))
        paired = PairedAUC.of(scores, last.y, last.weight)
        gaps = [_difference(paired, 2, 1)]
        if not exact:
            gain, error = _difference(paired, 1, 0)
            gaps.append((self.left * gain, self.left * error))
        before, auc, best = (float(value) for value in paired.auc)
        name = "ridge" if exact else "diagonal"
        return HeldOut(last.y.size, auc, before, name, best, *max(gaps))


@dataclass(frozen=True)
class Thirds:
    """Watches the first pass of a learner over a known number of rows.

    Parameters
    ----------
    rows
        How many rows there are, about.
    apart
        Whether a copy of the learner is watched, because the learner depends on the blocks in
        which it takes rows, which must not end where a third does.
    """

    rows: int
    apart: bool = False

    def learn(self, learner: LinearLearner, batches: Iterable[Batch], block: int) -> HeldOut | None:
        """Learn all rows, at most ``block`` at a time; what the last third says, if anything."""
        watched = deepcopy(learner) if self.apart else learner
        # Of an average, two thirds of a gain between n/3 and 2n/3 rows are left at n.
        sample, weights = Sample(2.0 / 3.0), list[Float]()
        seen = 0
        for some in blocks(batches, block):
            for part, piece in self._pieces(some, seen):
                while len(weights) < part:
                    weights.append(watched.w.copy())
                sample.add(piece, part)
                if part < _LAST or not self.apart:
                    watched.learn(piece.X, piece.y, piece.weight)
            if self.apart:
                learner.learn(some.X, some.y, some.weight)
            seen += some.y.size
        return sample.compared(*weights) if len(weights) == _LAST else None

    def _pieces(self, some: Batch, seen: int) -> Iterator[tuple[int, Batch]]:
        """Rows after ``seen`` others, by thirds."""
        numbers = np.arange(some.y.size)
        cuts = [self.rows // 3 - seen, 2 * self.rows // 3 - seen]
        for part, piece in enumerate(np.split(numbers, np.clip(cuts, 0, some.y.size))):
            if piece.size:
                yield part, some if piece.size == some.y.size else some.take(piece)


@dataclass(frozen=True)
class Doubling:
    """Watches a stage, whose new rows the learner of the stages before it has not seen.

    Parameters
    ----------
    early, late : (d,)
        Weights after the stage before the last one, and after the last one.
    last
        The share of all rows in the last one.
    seed
        Of the stages.
    doubled
        Whether there was a stage before the last one.
    """

    early: Float
    late: Float
    last: float
    seed: int
    doubled: bool = True

    def learn(self, learner: LinearLearner, batches: Iterable[Batch], block: int) -> HeldOut | None:
        """Learn the stage's rows, at most ``block`` at a time; what new ones say, if anything."""
        # Of an average, half of what one doubling gained is what the next one gains.
        sample = Sample(0.5 if self.doubled else 0.0)
        for some in blocks(batches, block):
            drawn = joining_shares(some, self.seed)
            parts = np.searchsorted([self.last / 2.0, self.last], drawn, "right")
            for part in range(3):
                sample.add(some.take(np.flatnonzero(parts == part)), part)
            learner.learn(some.X, some.y)
        return sample.compared(self.early, self.late)


def _diagonal(first: Batch, second: Batch) -> Float:
    """Weights ``mu_j / (Sigma_jj + lambda)`` with ``lambda`` the mean of the diagonal."""
    columns = ColumnMoments.of(first).merge(ColumnMoments.of(second))
    diagonal = columns.variance.sum(axis=0) + columns.delta**2
    return np.asarray(columns.delta / (diagonal + (diagonal.mean() or 1.0)))


def _ridge(first: Batch, second: Batch) -> Float:
    """Weights of ridge on both, at the penalty by which the first ranks the second best."""
    one, two = (PairMoments.of(part.X, part.y, part.weight) for part in (first, second))
    # Training rows would always choose the weakest penalty.
    aucs = [estimated_auc(two.along(w)) for w in _ridges(one, _PENALTIES)]
    best = _PENALTIES[[int(np.argmax(aucs))]]
    return next(_ridges(one.merge(two), best))


def _ridges(moments: PairMoments, penalties: Float) -> Iterator[Float]:
    """Weights ``(d,)`` of each penalty."""
    quadratic = moments.quadratic()
    Sigma = quadratic.Sigma.restricted(np.arange(moments.dimension)).toarray()
    values, vectors = np.linalg.eigh(Sigma)
    along = vectors.T @ quadratic.mu
    mean = float(np.trace(Sigma)) / moments.dimension or 1.0
    for penalty in penalties:
        yield vectors @ (along / (np.maximum(values, 0.0) + penalty * mean))


def _difference(paired: PairedAUC, first: int, second: int) -> tuple[float, float]:
    """The difference of two AUCs and its standard error."""
    own = paired.covariance[first, first] + paired.covariance[second, second]
    variance = float(own - 2.0 * paired.covariance[first, second])
    return float(paired.auc[first] - paired.auc[second]), float(np.sqrt(max(variance, 0.0)))
