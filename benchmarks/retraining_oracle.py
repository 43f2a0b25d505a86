"""What the job ``retrain`` must compute, by numpy and scikit-learn from all rows of a window.

Nothing of spark_auc is imported. Features, folds, windows, penalties, weights, AUCs and tests are
computed from the raw rows of all days, which this program keeps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, stats
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import normalize
from sklearn.utils import murmurhash3_32

NUMBERS, TOKENS, KEY, LABEL = (
    ("price", "age", "position"),
    ("city", "device", "site"),
    "id",
    "click",
)
DIMENSION, FOLDS = 64, 5
LEVEL, OLDEST = 0.05, 7

# Constants of xxHash64 and of SplitMix64.
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(p)
    for p in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)


def _rotated(x: np.ndarray, bits: int) -> np.ndarray:
    return (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))


def xxhash64(numbers: np.ndarray, seed: int = 42) -> np.ndarray:
    """xxHash64 of 64-bit integers, as Spark's function of this name."""
    hashed = np.full(numbers.size, np.uint64(seed) + _P5 + np.uint64(8))
    hashed ^= _rotated(numbers.astype(np.uint64) * _P2, 31) * _P1
    hashed = _rotated(hashed, 27) * _P1 + _P4
    hashed = (hashed ^ (hashed >> np.uint64(33))) * _P2
    hashed = (hashed ^ (hashed >> np.uint64(29))) * _P3
    return hashed ^ (hashed >> np.uint64(32))


def _split_mix(x: np.ndarray) -> np.ndarray:
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def folds_of(keys: np.ndarray, seed: int = 0) -> np.ndarray:
    """The fold of each row by its key."""
    with np.errstate(over="ignore"):
        salted = _split_mix(np.array([seed], np.uint64) ^ np.uint64(0xF0))
        hashed = _split_mix(xxhash64(keys) ^ salted)
    return ((hashed >> np.uint64(11)) * 2.0**-53 * FOLDS).astype(int)


def _scale(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and deviation of each column, rounded to 20 bits of the deviation as a recipe is."""
    mean, deviation = np.nanmean(numbers, axis=0), np.nanstd(numbers, axis=0, ddof=1)
    unit = 2.0 ** (np.frexp(deviation)[1] - 20)
    return np.rint(mean / unit) * unit, np.rint(deviation / unit) * unit


class Day(NamedTuple):
    """The rows of a day."""

    X: sparse.csr_matrix
    y: np.ndarray
    fold: np.ndarray


class Model(NamedTuple):
    """A ranker and its choice."""

    day: int
    window: int
    penalty: float
    w: np.ndarray


def ridge(X: sparse.csr_matrix, y: np.ndarray, penalty: float | np.ndarray) -> np.ndarray:
    """Weights of the least squares over all pairs, for one penalty or several (columns)."""
    P, N = X[y].toarray(), X[~y].toarray()
    mu = P.mean(axis=0) - N.mean(axis=0)
    Sigma = np.cov(P.T, bias=True) + np.cov(N.T, bias=True) + np.outer(mu, mu)
    eye = np.eye(mu.size)
    return np.column_stack([np.linalg.solve(Sigma + p * eye, mu) for p in np.atleast_1d(penalty)])


def gaussian_auc(scores: np.ndarray, y: np.ndarray) -> np.ndarray:
    """AUC of Gaussian classes with the means and variances of the scores' columns."""
    difference = scores[y].mean(axis=0) - scores[~y].mean(axis=0)
    return stats.norm.cdf(difference / np.sqrt(scores[y].var(axis=0) + scores[~y].var(axis=0)))


def delong(scores: np.ndarray, y: np.ndarray) -> float:
    """The statistic of the AUC of the first column minus that of the second (DeLong et al.)."""
    m, n = int(y.sum()), int((~y).sum())
    parts = []
    for s in scores.T:
        both = stats.rankdata(np.concatenate([s[y], s[~y]]))
        own = stats.rankdata(s[y]), stats.rankdata(s[~y])
        parts.append(((both[:m] - own[0]) / n, 1 - (both[m:] - own[1]) / m))
    difference = parts[0][0].mean() - parts[1][0].mean()
    variance = sum(np.var(a - b, ddof=1) / size for a, b, size in zip(*parts, (m, n), strict=True))
    return float(difference / np.sqrt(variance)) if variance else 0.0


class Oracle:
    """All rows of all days, and the champion of the rule.

    Parameters
    ----------
    windows, penalties
        The choices.
    """

    def __init__(self, windows: list[int], penalties: list[float]) -> None:
        self.windows, self.penalties = windows, np.array(penalties)
        self.days: list[Day] = []
        self.champion: Model | None = None
        self.anchor: Model | None = None

    def _features(self, rows: dict[str, np.ndarray]) -> sparse.csr_matrix:
        numbers = np.column_stack([rows[name].astype(float) for name in NUMBERS])
        if not self.days:
            self._scale = _scale(numbers)
        scaled, missing = (numbers - self._scale[0]) / self._scale[1], np.isnan(numbers)
        dense = np.empty((len(numbers), 2 * len(NUMBERS)))
        dense[:, ::2], dense[:, 1::2] = np.where(missing, 0.0, scaled), missing
        place = np.arange(len(numbers))
        tokens = sparse.csr_matrix((len(numbers), DIMENSION))
        for name in TOKENS:
            values, inverse = np.unique(rows[name].astype(str), return_inverse=True)
            hashed = np.array([murmurhash3_32(f"{name}={v}", seed=42) for v in values]) % DIMENSION
            one = np.ones(len(numbers))
            tokens += sparse.csr_matrix((one, (place, hashed[inverse])), tokens.shape)
        return normalize(sparse.hstack([dense, tokens]).tocsr())

    def rows_of(self, first: int, last: int) -> Day:
        """The rows of some days, both ends included."""
        X, y, fold = zip(*self.days[first : last + 1], strict=True)
        return Day(sparse.vstack(X).tocsr(), np.concatenate(y), np.concatenate(fold))

    def challenger(self) -> Model:
        """Window, penalty and weights from the days so far: cross-validation, then all rows."""
        last = len(self.days) - 1
        newest = self.days[-1]
        best: tuple[float, int, float] | None = None
        for window in self.windows:
            rows = self.rows_of(max(0, last - window + 1), last)
            auc = []
            for k in range(FOLDS):
                W = ridge(rows.X[rows.fold != k], rows.y[rows.fold != k], self.penalties)
                held = newest.fold == k
                auc.append(gaussian_auc(newest.X[held] @ W, newest.y[held]))
            mean = np.mean(auc, axis=0)
            if best is None or mean.max() > best[0]:
                best = mean.max(), window, float(self.penalties[mean.argmax()])
            if window > last:
                break
        assert best is not None
        _, window, penalty = best
        rows = self.rows_of(max(0, last - window + 1), last)
        return Model(last + 1, window, penalty, ridge(rows.X, rows.y, penalty)[:, 0])

    def decide(self, rows: dict[str, np.ndarray], warned: set[int]) -> dict[str, Any]:
        """Judge the challenger of the days before on the rows of a day, then keep these rows.

        Parameters
        ----------
        rows
            Columns of raw rows.
        warned
            Days of which drift warned; it is not measured here.
        """
        day = Day(self._features(rows), rows[LABEL] > 0, folds_of(rows[KEY]))
        if not self.days:
            self.days.append(day)
            return {"outcome": "stored"}
        challenger = self.challenger()
        found: dict[str, Any] = {"model": challenger}
        others = [m for m in (self.champion, self.anchor) if m is not None]
        scores = np.column_stack([day.X @ m.w for m in (challenger, *others)])
        found["auc"] = [float(roc_auc_score(day.y, s)) for s in scores.T]
        bound = stats.norm.ppf(1 - LEVEL)
        if self.champion is None:
            # Half an interval of 95% of one AUC: all days of this benchmark are far above it.
            found["outcome"] = "promoted" if found["auc"][0] > 0.6 else "stored"
            won = True
        else:
            z = delong(scores[:, :2], day.y)
            to_anchor = delong(scores[:, [0, 2]], day.y) if self.anchor is not None else 0.0
            age = challenger.day - self.champion.day
            won = z > bound and to_anchor >= -bound
            used = {*range(challenger.day - challenger.window, challenger.day + 1)}
            can_age = age >= OLDEST and not used & warned
            by_age = abs(z) <= bound and can_age and to_anchor >= -bound
            found |= {"z": z, "outcome": "promoted" if won or by_age else "kept"}
        if found["outcome"] == "promoted":
            self.anchor = None if won else (self.anchor or self.champion)
            self.champion = challenger
        self.days.append(day)
        return found
