"""The base class of the rankers of arrays: validation, scores and fitted attributes."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from spark_auc.core.batch import WEIGHTS, Batch, mixed, usable_weights
from spark_auc.core.products import settled_scores
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Float, Keys, Rows
from spark_auc.errors import ConfigError, DataError
from spark_auc.training.result import TrainingResult

try:
    from sklearn.base import BaseEstimator, ClassifierMixin  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import (  # type: ignore[import-untyped]
        check_classification_targets,
    )
    from sklearn.utils.validation import (  # type: ignore[import-untyped]
        _check_sample_weight,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as missing:
    raise ImportError(
        "found no scikit-learn 1.7 or later, expected it for spark_auc.local; run pip install "
        "'spark-auc[local]'"
    ) from missing


# Stored entries of a block of rows.
_BLOCK = 1 << 20


class InputError(DataError, ValueError):
    """Arrays that cannot be used; a ValueError too, as scikit-learn's callers expect."""


class LinearRanker(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear ranker of arrays; subclasses implement the training.

    Attributes
    ----------
    classes_ : (2,)
        The label values in ascending order; the second value is positive.
    coef_ : (1, d)
        Weights of raw columns.
    intercept_ : (1,)
        Negated score threshold, chosen so that the share of rows predicted positive is about the
        share of positive rows in training. It does not affect the ranking.
    certificate_ : dict
        Evidence of optimality; see `spark_auc.solvers.solution.Certificate`.
    summary_ : TrainingSummary
        Statistics of the training run.
    n_features_in_, feature_names_in_
        Number of columns, and their names if ``X`` is a data frame.
    n_iter_ : int
        Number of solver iterations.
    """

    def _train(self, rows: ArrayRows) -> TrainingResult:
        """Train on rows of both classes."""
        raise NotImplementedError

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train the ranker.

        Parameters
        ----------
        X : (n, d), array, data frame or sparse matrix
            Features.
        y : (n,)
            Labels with two distinct values.
        sample_weight : (n,), optional
            Row weights >= 0; rows of weight 0 are ignored.
        groups : (n,), optional
            Groups of rows that stay in one fold when the penalty is chosen by cross-validation; by
            default, rows with equal features form a group.

        Returns
        -------
        self

        Raises
        ------
        ConfigError
            A parameter is out of range.
        DataError
            A value is unusable, or the labels do not have two values.
        ResourceError
            The moments do not fit in memory.
        ConvergenceError
            The solver did not reach its tolerance and whenNotConverged is "raise".
        """
        rows, labels = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        check_classification_targets(labels)
        labels = column_or_1d(labels, warn=True)
        weight: Float | None = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float64)
        group = None if groups is None else _hashed_groups(groups, labels.size)
        if weight is not None and not weight.all():
            used = np.flatnonzero(weight)
            rows, labels, weight = rows[used], labels[used], weight[used]
            group = None if group is None else group[used]
        classes = np.unique(labels)
        if classes.size != 2:
            raise InputError(_class_count_message(classes))
        if weight is not None:
            _check_weights(weight)
        result = self._train(_source(rows, labels == classes[1], weight, group))
        names = getattr(self, "feature_names_in_", None)
        self.classes_ = classes
        self.coef_ = result.w[None]
        self.intercept_ = np.array([-result.threshold])
        self.summary_ = result.summary(None if names is None else list(names))
        self.certificate_ = self.summary_.certificate
        self.n_iter_ = 0 if result.certificate is None else result.certificate.iterations
        return self

    def decision_function(self, X: ArrayLike) -> Float:
        """Scores ``(n,)`` of rows ``(n, d)``: ``X w`` plus the intercept; > 0 predicts positive."""
        check_is_fitted(self)
        rows = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores: Float = settled_scores(_canonical(rows), self.coef_[0]) + self.intercept_[0]
        return scores

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predicted label value ``(n,)`` of each row."""
        positive = self.decision_function(X) > 0
        return np.asarray(self.classes_[positive.astype(int)])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def check_choice(name: str, value: object, *choices: str) -> None:
    """`ConfigError` if the value of a parameter is not one of its choices."""
    if value not in choices:
        expected = " or ".join(map(repr, choices))
        raise ConfigError(
            f"found {name} {value!r}, expected {expected}; set {name} to one of these"
        )


def _source(
    X: Rows, positive: NDArray[np.bool_], weight: Float | None, group: Keys | None
) -> ArrayRows:
    """The rows as blocks; blocks of dense rows are views of ``X``."""
    n, d = X.shape
    X = _canonical(X)
    entries = X.size if isinstance(X, np.ndarray) else int(X.nnz)
    size = max(1, _BLOCK * n // max(entries, 1))
    all_rows = Batch(X, positive, weight, group=group)
    blocks = (slice(start, start + size) for start in range(0, n, size))
    batches = (
        Batch._make(None if part is None else part[rows] for part in all_rows) for rows in blocks
    )
    return ArrayRows(tuple(batches), d)


def _canonical(X: Any) -> Rows:
    """The rows as kernels require them: C-contiguous, or CSR with ascending, distinct columns."""
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X)
    rows = sparse.csr_matrix(X)
    if not rows.has_canonical_format:
        rows = rows.copy()
        rows.sum_duplicates()
    return rows


def _hashed_groups(groups: ArrayLike, count: int) -> Keys:
    values = column_or_1d(groups)
    if values.size != count:
        raise InputError(
            f"found {values.size} groups for {count} rows, expected a group for each row; pass as "
            "many groups as rows"
        )
    numbers: NDArray[np.int64] = np.unique(values, return_inverse=True)[1]
    return mixed(numbers.astype(np.uint64))


def _check_weights(weight: Float) -> None:
    bad = weight[~usable_weights(weight)]
    if bad.size:
        raise InputError(
            f"found {bad.size} weights that are negative or extreme (the first is {bad[0]}), "
            f"expected 0 or weights from {WEIGHTS[0]} to {WEIGHTS[1]}; drop, repair or rescale "
            "these rows"
        )


def _class_count_message(classes: NDArray[Any]) -> str:
    if classes.size < 2:
        return (
            f"found one class only: {classes.tolist()}; expected two; check the labels, the "
            "weights and how the rows were selected or split"
        )
    return (
        "Only binary classification is supported. The type of the target is multiclass: found "
        f"{classes.size} classes, expected two; keep the rows of two classes or train one ranker "
        "for each"
    )
