"""Progressive validation of online learners, and the test whether a learner falls short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np

from spark_auc.core.batch import Batch, stacked
from spark_auc.core.evaluation.paired_auc import PairedAUC
from spark_auc.core.moments.column_moments import ColumnMoments
from spark_auc.core.moments.gaussian import estimated_auc
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.products import settled_product
from spark_auc.core.state.schema import COUNT, Fields, Values
from spark_auc.core.state.schema_state import FieldState
from spark_auc.core.types import Float
from spark_auc.learners.blocks import blocks
from spark_auc.learners.learner import LinearLearner
from spark_auc.learners.stages import joining_shares

# AUC gap to the reference ranker from which on a learner falls short.
TOLERATED = 0.01
# Largest number of features for a ridge reference, which costs more than the pass beyond it.
_RIDGE_FEATURES = 512
# Largest number of sampled rows of each part, and of their stored entries.
_ROWS, _ENTRIES = 10_000, 1 << 22
_LAST = 2
# Candidate ridge factors of the reference, in units of the mean of Sigma's diagonal.
_PENALTIES: Float = np.logspace(-4, 1, 6)


def _out_of_range(values: Values) -> str | None:
    aucs = [values[name] for name in ("auc", "before", "rival_auc")]
    # `mean` sums the squares of errors, which must not overflow.
    bounded = np.abs([values["gap"], values["error"]]) < 1e100
    valid = values["rows"] > 0 and all(0 <= auc <= 1 for auc in aucs) and bounded.all()
    return None if valid else "an AUC, gap, error or number of rows is out of range"


@dataclass(frozen=True)
class HeldOut(FieldState):
    """AUC of a learner and of a reference ranker on rows that the learner had not learned yet.

    These rows are the last third of a pass, or the new rows of the last stage.

    Parameters
    ----------
    rows
        Number of held-out rows.
    auc
        AUC of the learner after all rows before the held-out rows.
    before
        AUC of the learner after half as many rows.
    rival, rival_auc
        Reference ranker, trained on a sample of the rows before, and its AUC. ``"ridge"``, or
        ``"diagonal"`` for too many features: ``mu_j / (Sigma_jj + lambda)``.
    gap, error
        Estimated shortfall of the AUC at the end of the pass, and its standard error. The gap is
        the lead of the reference. With the diagonal reference it is the larger of this lead and
        the estimated gain of more rows: an average forgets its start as ``1 / t``, so that the
        remaining gain is about that of the last doubling of the rows.
    """

    FIELDS: ClassVar[Fields] = {"rows": COUNT}
    RELATIONS = (_out_of_range,)

    rows: int
    auc: float
    before: float
    rival: str
    rival_auc: float
    gap: float
    error: float

    @property
    def short(self) -> bool:
        """Whether the gap exceeds both the tolerated gap and its standard error."""
        return self.gap > max(TOLERATED, self.error)

    def as_dict(self) -> dict[str, Any]:
        """The fields and ``short``, as JSON types."""
        return asdict(self) | {"short": self.short}

    @classmethod
    def mean(cls, parts: Sequence[HeldOut]) -> HeldOut | None:
        """The mean over learners of different rows, weighted by their rows; None without parts."""
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


@dataclass
class Sample:
    """A sample of the rows before, between and after two states of a learner.

    Parameters
    ----------
    remaining
        Estimated gain from the later state to the end, relative to the gain from the earlier to
        the later state.
    parts
        Sampled rows before, between and after the states.
    """

    remaining: float
    parts: tuple[list[Batch], list[Batch], list[Batch]] = field(
        default_factory=lambda: ([], [], [])
    )

    def add(self, rows: Batch, part: int) -> None:
        """Add rows of a part, up to the sample's limits."""
        sampled = self.parts[part]
        room = _ROWS - sum(batch.y.size for batch in sampled)
        width = max(rows.X.size / max(rows.y.size, 1), 1.0)
        count = min(room, int(_ENTRIES / width), rows.y.size)
        if count > 0:
            sampled.append(rows.take(np.arange(count)))

    def compared(self, early: Float, late: Float) -> HeldOut | None:
        """AUC of two states and of a reference on the rows of the last part.

        Parameters
        ----------
        early, late : (d,)
            Weights of the earlier and of the later state.

        Returns
        -------
        HeldOut, optional
            None if a part has fewer than two rows of a class, or a weight is not finite.
        """
        if not all(self.parts):
            return None
        first, second, last = (stacked(part) for part in self.parts)
        enough = all(2 <= int(rows.y.sum()) <= rows.y.size - 2 for rows in (first, second, last))
        if not (enough and np.isfinite(early).all() and np.isfinite(late).all()):
            return None
        exact = late.size <= _RIDGE_FEATURES
        rival = _ridge(first, second) if exact else _diagonal(first, second)
        scores = settled_product(last.X, np.stack((early, late, rival), axis=1))
        paired = PairedAUC.of(scores, last.y, last.weight)
        gaps = [_difference(paired, 2, 1)]
        if not exact:
            gain, error = _difference(paired, 1, 0)
            gaps.append((self.remaining * gain, self.remaining * error))
        before, auc, best = (float(value) for value in paired.auc)
        name = "ridge" if exact else "diagonal"
        return HeldOut(last.y.size, auc, before, name, best, *max(gaps))


@dataclass(frozen=True)
class Thirds:
    """Progressive validation of the first pass: states after each third are held out on the next.

    Parameters
    ----------
    rows
        Approximate number of rows.
    apart
        Whether to validate a copy of the learner. Learners that depend on the blocks need it,
        because the thirds cut blocks.
    """

    rows: int
    apart: bool = False

    def learn(self, learner: LinearLearner, batches: Iterable[Batch], block: int) -> HeldOut | None:
        """Learn all rows, at most ``block`` at once, and validate on the last third.

        Returns None if the rows do not suffice for a validation.
        """
        validated = deepcopy(learner) if self.apart else learner
        # An average's gain after 2n/3 rows is about two thirds of its gain from n/3 to 2n/3.
        sample, weights = Sample(2.0 / 3.0), list[Float]()
        learned = 0
        for rows in blocks(batches, block):
            for part, piece in self._thirds(rows, learned):
                while len(weights) < part:
                    weights.append(validated.w.copy())
                sample.add(piece, part)
                if part < _LAST or not self.apart:
                    validated.learn(piece.X, piece.y, piece.weight)
            if self.apart:
                learner.learn(rows.X, rows.y, rows.weight)
            learned += rows.y.size
        return sample.compared(*weights) if len(weights) == _LAST else None

    def _thirds(self, rows: Batch, learned: int) -> Iterator[tuple[int, Batch]]:
        """The rows, which follow ``learned`` rows, with the number of their third."""
        numbers = np.arange(rows.y.size)
        cuts = [self.rows // 3 - learned, 2 * self.rows // 3 - learned]
        for part, piece in enumerate(np.split(numbers, np.clip(cuts, 0, rows.y.size))):
            if piece.size:
                yield part, rows if piece.size == rows.y.size else rows.take(piece)


@dataclass(frozen=True)
class Doubling:
    """Progressive validation on the new rows of a doubling stage.

    Parameters
    ----------
    early, late : (d,)
        Weights after the stage before the last one, and after the last one.
    last
        Share of all rows in the last stage.
    seed
        Seed of the stages.
    doubled
        Whether there was a stage before the last one.
    """

    early: Float
    late: Float
    last: float
    seed: int
    doubled: bool = True

    def learn(self, learner: LinearLearner, batches: Iterable[Batch], block: int) -> HeldOut | None:
        """Learn the stage's rows and validate on its new rows; see `Thirds.learn`."""
        # An average gains in the next doubling half of its gain in the last one.
        sample = Sample(0.5 if self.doubled else 0.0)
        for rows in blocks(batches, block):
            drawn = joining_shares(rows, self.seed)
            parts = np.searchsorted([self.last / 2.0, self.last], drawn, "right")
            for part in range(3):
                sample.add(rows.take(np.flatnonzero(parts == part)), part)
            learner.learn(rows.X, rows.y)
        return sample.compared(self.early, self.late)


def _diagonal(first: Batch, second: Batch) -> Float:
    """Weights ``mu_j / (Sigma_jj + lambda)`` ``(d,)``; ``lambda`` is the mean of the diagonal."""
    columns = ColumnMoments.of(first).merge(ColumnMoments.of(second))
    diagonal = columns.squares
    return np.asarray(columns.delta / (diagonal + (diagonal.mean() or 1.0)))


def _ridge(first: Batch, second: Batch) -> Float:
    """Ridge weights ``(d,)`` of both parts; the penalty has the best AUC on the second part."""
    training, validation = (PairMoments.of(part.X, part.y, part.weight) for part in (first, second))
    # The AUC on training rows would always choose the weakest penalty.
    aucs = [estimated_auc(validation.along(w)) for w in _ridges(training, _PENALTIES)]
    best = _PENALTIES[[int(np.argmax(aucs))]]
    return next(_ridges(training.merge(validation), best))


def _ridges(moments: PairMoments, penalties: Float) -> Iterator[Float]:
    """Ridge weights ``(d,)`` of each penalty."""
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
