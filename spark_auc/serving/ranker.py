"""A ranker in this process: scores of tables and of single rows, without Spark.

The recipe, the embeddings and the sums of a row's features are those of the Spark jobs, in the same
kernels: a row has the same score, to the bit, wherever it is computed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from scipy import sparse

from spark_auc.core.labels import Label
from spark_auc.core.products import settled_score, settled_scores
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.embedding import Embedding
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json
from spark_auc.features.restore import restore
from spark_auc.features.single_row import SingleRow
from spark_auc.serving.linear_scorer import LinearScorer
from spark_auc.serving.nested import row_with_fields
from spark_auc.serving.score_curves import Curve, restored
from spark_auc.serving.segments import segments_of
from spark_auc.serving.stored_stage import DAMAGES, StoredStage, damaged
from spark_auc.serving.tables import (
    columns_of,
    features_of,
    is_table,
    table_of,
    values_of_texts,
    with_values,
)
from spark_auc.tables.files import open_file
from spark_auc.tables.nested import with_fields
from spark_auc.tables.table import field_of

_KINDS = ("RankerPipelineModel", "LinearRankerModel")
_EMBEDDING = "embedding"


@dataclass(frozen=True, eq=False)
class ServedRanker:
    """A ranker that scores rows in this process; made by `spark_auc.load`.

    Rows are

    - a mapping of names to values, which is one row: numbers, text, booleans, times and None;
      fields of structs are in mappings of their own;
    - a pandas data frame, or an Arrow table or record batch;
    - without a recipe: an array ``(n, d)`` or a sparse matrix of features, or one row ``(d,)``;
      mappings and tables too if the features had names in training.

    Parameters
    ----------
    scorer
        Weights, threshold and labels.
    recipe
        The map of raw columns. Default: rows are features.
    embeddings
        The maps between the recipe and the ranker, in order.
    curve
        The map of scores to probabilities. Default: none.
    stage
        The saved stage that has these parts, with how it was trained. Default: none.

    Examples
    --------
    >>> import tempfile
    >>> import spark_auc
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> path = tempfile.mkdtemp() + "/ranker"
    >>> RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows).save(path)
    >>> ranker = spark_auc.load(path)
    >>> ranker.columns
    ('position', 'age')
    >>> first, last = ({"position": k, "age": 40} for k in (1, 7))
    >>> ranker.score(first) > ranker.score(last)
    True
    """

    scorer: LinearScorer
    recipe: Recipe | None = None
    embeddings: tuple[Embedding, ...] = ()
    curve: Curve | None = None
    stage: StoredStage | None = None

    @cached_property
    def _single(self) -> SingleRow:
        assert self.recipe is not None, "a ranker with a recipe"
        return SingleRow.of(self.recipe)

    @classmethod
    def of(cls, stage: StoredStage) -> Self:
        """The ranker of a saved `RankerPipelineModel` or `LinearRankerModel`.

        Raises
        ------
        ModelFormatError
            The stage is of another class, or its content is invalid.
        """
        if stage.kind not in _KINDS:
            raise ModelFormatError(
                f"found a saved {stage.kind[:60]!a} at {stage.uri!r}, expected a "
                f"{' or a '.join(_KINDS)}; save a ranker"
            )
        parts = dict(stage.parts) or {"ranker": stage}
        try:
            ranker, recipe = parts.pop("ranker"), parts.pop("recipe", None)
            calibration = parts.pop("calibration", None)
            names = [f"{_EMBEDDING}{k}" for k in range(1, 1 + len(parts))]
            return cls(
                LinearScorer.restored(_table(ranker), dict(ranker.facts) | _chosen(ranker)),
                from_json(_table(recipe)["recipe"][0].as_py()) if recipe else None,
                tuple(
                    restore(b"".join(_table(parts[name])["payload"].to_pylist())) for name in names
                ),
                restored(_table(calibration)) if calibration else None,
                stage,
            )
        except (*DAMAGES, pa.ArrowException) as failure:
            raise damaged(stage.uri, "a saved ranker", failure) from None

    @property
    def columns(self) -> tuple[str, ...] | None:
        """Names of the columns, with that of the segments; None if they have no names."""
        names = self._names
        if names is None:
            return None
        segments = self.scorer.segments
        return tuple(dict.fromkeys([*names, *([segments.column] if segments else [])]))

    @cached_property
    def _names(self) -> tuple[str, ...] | None:
        """Names of the raw columns, or of the features without a recipe."""
        if self.recipe is not None:
            return tuple(column.name for column in self.recipe.inputs)
        return None if self.embeddings else self.scorer.names

    @cached_property
    def _typed(self) -> tuple[str, ...]:
        """The raw columns of numbers, booleans and times."""
        columns = () if self.recipe is None else self.recipe.inputs
        return tuple(dict.fromkeys(c.name for c in columns if c.type != "text"))

    @cached_property
    def _paths(self) -> tuple[str, ...]:
        """The columns whose names may be paths of fields."""
        return tuple(name for name in self.columns or () if "." in name)

    @property
    def width(self) -> int:
        """Number of features of a row, as an array has them without a recipe."""
        return self.embeddings[0].input_dimension if self.embeddings else self.scorer.w.size

    @property
    def threshold(self) -> float:
        """Scores at or above it are predicted positive."""
        return self.scorer.threshold

    def score(self, rows: Any) -> Any:
        """Scores: a float for one row, ``(n,)`` for several.

        Raises
        ------
        DataError
            A column is missing or has another type, or a value cannot be used.
        ConfigError
            The rows are of a class that this ranker does not take.
        """
        one = isinstance(rows, Mapping)
        if one:
            rows = row_with_fields(rows, self._paths) if self._paths else rows
            if texts := {n: rows[n] for n in self._typed if isinstance(rows.get(n), str)}:
                assert self.recipe is not None, "a ranker with a recipe"
                rows = {**rows, **values_of_texts(texts, self.recipe)}
        elif self.recipe is not None or (self.columns and is_table(rows)):
            rows = table_of(rows, self.columns or ())
        if self.recipe is None:
            X, one = features_of(rows, self.width, self._names)
        elif one:
            data, indices = self._single(rows)
            if self.scorer.segments is None and not self.embeddings:
                return settled_score(data, indices, self.scorer.w)
            indptr = np.array([0, data.size], np.int32)
            X = sparse.csr_matrix((data, indices, indptr), (1, self.recipe.size))
        else:
            X = self.recipe.transform(columns_of(rows, self.recipe))
        for embedding in self.embeddings:
            X = embedding.transform(X)
        segments = self.scorer.segments
        if segments is None:
            scores = settled_scores(X, self.scorer.w)
        else:
            scores = segments.weights.scores(X, segments_of(rows, segments))
        return float(scores[0]) if one else scores

    def read(self, path: str | os.PathLike[str]) -> pa.Table:
        """The columns of this ranker in a file, for `score` and the others.

        Text has the values that it had in the training: of numbers and times in their formats, and
        of codes such as 007.

        Parameters
        ----------
        path
            A file, or a directory of files, of Parquet, CSV, TSV or JSON Lines.

        Raises
        ------
        ConfigError
            There are no such files, they lack a column, or the columns of this ranker have no
            names.
        DataError
            A file is malformed, or more than half of the values of a column do not fit.
        """
        if self.columns is None:
            raise ConfigError(
                "found a ranker of features without names, expected one of columns; read the "
                "features, and score their array"
            )
        rows = with_fields(open_file(path, trimmed=True), self.columns)
        table = rows.select([field_of(rows, name).name for name in self.columns]).gathered()
        assert table is not None
        table = table.rename_columns([*self.columns])
        return table if self.recipe is None else with_values(table, self.recipe)

    def probability(self, rows: Any) -> Any:
        """Probabilities of the positive class: a float for one row, ``(n,)`` for several.

        Raises
        ------
        ConfigError
            The ranker has no calibration, or the rows are of another class.
        DataError
            As of `score`.
        """
        if self.curve is None:
            raise ConfigError(
                "found a ranker without a calibration, expected one for probabilities; publish it "
                "with one (calibrated, or train.calibration), or use score"
            )
        scores = self.score(rows)
        if isinstance(scores, float):
            return float(self.curve.at(np.array([scores]))[0])
        return self.curve.at(scores)

    def predict(self, rows: Any) -> Any:
        """Predicted labels: one for one row, ``(n,)`` for several. Errors are those of `score`."""
        scores = self.score(rows)
        if isinstance(scores, float):
            return self._label(scores >= self.threshold)
        labels = np.array([self.scorer.negative, self.scorer.positive])
        return labels[(scores >= self.threshold).astype(int)]

    def _label(self, above: bool) -> Label:
        return self.scorer.positive if above else self.scorer.negative


def _chosen(stage: StoredStage) -> dict[str, Any]:
    """The threshold that was set, in place of that of the training."""
    return {name: value for name, value in stage.params.items() if name == "threshold"}


def _table(stage: StoredStage) -> pa.Table:
    if stage.table is None:
        raise ValueError(f"no table at {stage.uri!r}")
    return stage.table
