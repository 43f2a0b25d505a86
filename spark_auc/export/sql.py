"""A linear ranker as expressions of SQL."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Literal

import numpy as np

from spark_auc.errors import ConfigError
from spark_auc.export.refusals import check_columns, check_segments, read_columns, refused
from spark_auc.export.sql_dialect import Dialect, dialect_of, number
from spark_auc.export.sql_terms import Term, terms
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.score_curves import Curve, Sigmoid

_FORMAT = "SQL"
# Added to squared norms: a row without features has the score 0, not 0 / 0.
_NOTHING = 1e-300


@dataclass(frozen=True)
class SQLRanker:
    """A ranker as expressions of SQL; made by `to_sql`.

    Parameters
    ----------
    score
        The score of a row, an expression of the raw columns.
    prediction
        The predicted label, an expression of a column ``score``.
    probability
        The probability of the positive class, an expression of a column ``score``; None without a
        calibration.

    Examples
    --------
    >>> from spark_auc import SQLRanker
    >>> sql = SQLRanker("1E0 * `age`", "CASE WHEN score > 4E1 THEN 1E0 ELSE 0E0 END")
    >>> rows.createOrReplaceTempView("customers")
    >>> spark.sql(sql.select("customers")).select("score", "prediction").columns
    ['score', 'prediction']
    """

    score: str
    prediction: str
    probability: str | None = None

    def select(self, table: str) -> str:
        """A query of the rows of a table with score, prediction and probability.

        Parameters
        ----------
        table
            The table as it stands after FROM: a name, or a query in parentheses.
        """
        columns = f"{self.prediction} AS prediction"
        if self.probability:
            columns += f",\n  {self.probability} AS probability"
        inner = f"SELECT *,\n    {self.score} AS score\n  FROM {table} AS unscored"
        return f"SELECT *,\n  {columns}\nFROM (\n  {inner}\n) AS scored"


def to_sql(ranker: ServedRanker, dialect: Literal["spark", "ansi"] = "spark") -> SQLRanker:
    """Write a linear ranker of named columns as expressions of SQL.

    Splines, standardised columns, their pairs, trees, and tokens of booleans and of integers whose
    values the recipe lists become CASE expressions; rows of unit length are divided by their norm.
    Columns of booleans have to be booleans. The score of a row that is an error in Python is not
    defined: with an infinite value in a standardised column, or, without a recipe, a missing value.

    Parameters
    ----------
    ranker
        The ranker, with a recipe or with named features.
    dialect
        "spark"; or "ansi" for systems with quotes ``"``, CASE, POWER, SQRT, EXP, ABS and, for
        trees of text, TRIM of two arguments, such as SQLite. There, missing values are null: NaN
        is not looked for.

    Returns
    -------
    SQLRanker
        The expressions ``score``, ``prediction`` and ``probability``, and a query of them.

    Raises
    ------
    ConfigError
        The ranker has tokens of other columns, crosses, times, trees that split numbers by sets,
        embeddings, segments or features without names; or a column has the name of an output.

    Examples
    --------
    >>> import tempfile
    >>> from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, load, to_sql
    >>> recipe = FeatureRecipe(spline=["position", "age"], auto=False)
    >>> path = tempfile.mkdtemp() + "/ranker"
    >>> RankerPipeline([recipe, MBAClassifier(regParam=0.1)]).fit(rows).save(path)
    >>> rows.selectExpr(to_sql(load(path)).score + " as score").count()
    200
    """
    said = dialect_of(dialect)
    check_segments(ranker, _FORMAT)
    if ranker.embeddings:
        names = " and ".join(type(embedding).__name__ for embedding in ranker.embeddings)
        raise refused(names, _FORMAT, "no embeddings", "use spark_auc.to_onnx")
    if ranker.columns is None:
        raise refused(
            "features without names", _FORMAT, "columns", "train with names in featuresCol"
        )
    check_columns(ranker, _FORMAT)
    cases = Counter(name.casefold() for name in ranker.columns or ())
    if alike := [name for name in ranker.columns or () if cases[name.casefold()] > 1]:
        raise refused(
            f"columns {', '.join(map(repr, alike))}, whose names differ in case alone",
            *(_FORMAT, "names that differ otherwise", "rename columns and train again"),
        )
    positive, negative = (said.label(v) for v in (ranker.scorer.positive, ranker.scorer.negative))
    above = f"score >= {number(ranker.threshold)}"
    return SQLRanker(
        _score(ranker, said),
        f"CASE WHEN {above} THEN {positive} ELSE {negative} END",
        _probability(ranker.curve, said) if ranker.curve else None,
    )


def _score(ranker: ServedRanker, dialect: Dialect) -> str:
    w, recipe = ranker.scorer.w, ranker.recipe
    if recipe is None:
        names = ranker.columns or ()
        both = zip(names, w.tolist(), strict=True)
        return dialect.total([f"{number(weight)} * {dialect.name(name)}" for name, weight in both])
    if times := [name for name, kind in read_columns(recipe).items() if kind == "time"]:
        raise refused(
            f"times in column {', '.join(map(repr, times))}",
            *(_FORMAT, "columns of numbers", "train on days since 1970-01-01 as numbers"),
        )
    found: list[Term] = list(terms(recipe, w, dialect))
    score = dialect.total([term.score for term in found])
    if not recipe.unit:
        return score
    squares = dialect.total([*(term.square for term in found), number(_NOTHING)])
    return f"{dialect.grouped(score)} / SQRT({squares})"


def _probability(curve: Curve, dialect: Dialect) -> str:
    if isinstance(curve, Sigmoid):
        slope, intercept = number(curve.slope), number(curve.intercept)
        return f"1E0 / (1E0 + EXP(-({slope} * score + {intercept})))"
    boundaries = curve.boundaries
    if not (np.diff(boundaries) > 0).all():
        raise ConfigError(
            f"found the boundaries {boundaries.tolist()} of the curve, expected increasing ones; "
            "calibrate again"
        )
    return dialect.curve("score", boundaries.tolist(), curve.probabilities.tolist())
