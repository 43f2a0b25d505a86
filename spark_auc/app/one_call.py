"""Training in one call: rows in, a model and its AUC on held-out rows out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Literal

import pyarrow as pa

from spark_auc.core.evaluation.report import AUCReport
from spark_auc.core.labels import Label
from spark_auc.errors import ConfigError
from spark_auc.pipeline.copies import warn_of_copies
from spark_auc.pipeline.estimators import (
    MBAEstimator,
    MethodEstimator,
    PipelineEstimator,
    RecipeEstimator,
)
from spark_auc.pipeline.method_fit import ADDED, DEFAULT
from spark_auc.pipeline.models import PipelineModel
from spark_auc.pipeline.pipeline_fit import default_recipe
from spark_auc.pipeline.tree_settings import grows_from_all
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.tables import is_table
from spark_auc.serving.tables import table_of as arrow_of
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.files import open_file
from spark_auc.tables.nested import with_fields
from spark_auc.tables.remembered import remembered
from spark_auc.tables.split import by_key
from spark_auc.tables.table import Table
from spark_auc.tables.text_types import inferred, typed

# Rows of a part of a table in memory.
_PART_ROWS = 1 << 17


@dataclass(frozen=True, eq=False)
class Trained:
    """A ranker of raw rows, and what it reached on rows that were held out.

    Parameters
    ----------
    model
        The recipe and the ranker, of all rows unless ``refit`` is False.
    evaluation
        Measures on the held-out rows, of the ranker of the other rows; None without such rows.

    Examples
    --------
    >>> import pandas as pd
    >>> from spark_auc import train
    >>> ages = [20 + k % 50 for k in range(400)]
    >>> trained = train(pd.DataFrame({"age": ages, "old": [age > 50 for age in ages]}), "old")
    >>> type(trained).__name__, trained.model.summary.certificate["reason"]
    ('Trained', 'converged')
    """

    model: PipelineModel
    evaluation: AUCReport | None = None

    @property
    def ranker(self) -> ServedRanker:
        """The ranker of single rows, pandas data frames and Arrow tables."""
        return self.model.served()

    def score(self, rows: Any) -> Any:
        """Scores of rows or of a file; see `ServedRanker.score` and `ServedRanker.read`."""
        ranker = self.ranker
        return ranker.score(ranker.read(rows) if isinstance(rows, str | PathLike) else rows)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model, for `spark_auc.load` and ``RankerPipelineModel.load`` to read."""
        self.model.save(path)

    def _repr_html_(self) -> str:
        summary = self.model.summary._repr_html_()
        return summary if self.evaluation is None else self.evaluation._repr_html_() + summary


def train(
    rows: Any,
    label: str,
    *,
    positive: Label | bool | None = None,
    weight: str | None = None,
    key: str | None = None,
    test: float = 0.2,
    method: Literal["auto"] | None = None,
    budget: float | None = None,
    refit: bool = True,
    seed: int = 0,
    features: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> Trained:
    """Train a ranker of raw rows for AUC, and measure it on rows that are held out.

    Columns become features by a recipe whose kinds the training rows choose, as they choose the
    penalty and the smoothness of curves. Columns that may contain the label are left out, which the
    log says. Fields of structs are columns of the names of their paths, such as ``user.age``. Rows
    of a file or in memory are trained on in this process, those of a Spark DataFrame by Spark's
    tasks.

    Parameters
    ----------
    rows
        The path of a file of Parquet, CSV, TSV or JSON Lines, or of a directory of such files; a
        pandas data frame; an Arrow table; or a Spark DataFrame.
    label
        Name of the label column.
    positive
        Label of the positive class; labels 0/1 and -1/+1 do not need it.
    weight
        Name of a column of row weights. Default: 1.
    key
        Name of a column whose equal values keep rows together, in the held-out part and in folds.
        Default: rows are together whose columns are equal, but for the label, the weight, the fold
        and those under ``leaveOut``.
    test
        Share of the rows to hold out, in [0, 1).
    method
        "auto" chooses among models of single columns, pairs, crosses and trees. Default: among the
        same without trees, of at most 250,000 rows and unless a setting contradicts the choice.
    budget
        Seconds of counted work for this choice: candidates that it has no room for are left out.
        Numbers of rows and features decide, so that every machine chooses alike; the seconds are
        about those of one processor. Default: no limit.
    refit
        Whether the rows that were held out train too, after they have measured the model: the model
        is then that of all rows, with the recipe and the penalty that were chosen. False: the
        model is the one that was measured.
    seed
        Seed of the held-out part and of the folds.
    features
        Further settings of `spark_auc.FeatureRecipe`, such as ``{"leaveOut": ["id"]}``.
    training
        Further settings of `spark_auc.MBAClassifier`, such as ``{"regParam": 1e-3}``.

    Returns
    -------
    Trained
        The model, and its AUC with a confidence interval on the held-out rows.

    Raises
    ------
    ConfigError
        A column or setting cannot serve, or the rows are of a class that is not known.
    TypeError
        A setting is unknown, or has a value of another class.
    DataError
        A value cannot be used, or there are not two classes.
    ResourceError
        Memory does not suffice.
    ConvergenceError
        A solver did not reach its tolerance.

    Examples
    --------
    >>> import pandas as pd
    >>> from spark_auc import train
    >>> ages = [20 + k % 50 for k in range(400)]
    >>> people = pd.DataFrame({"age": ages, "bought": [age > 50 for age in ages]})
    >>> trained = train(people, "bought")
    >>> trained.evaluation.auc
    1.0
    >>> scores = trained.score(people)
    >>> bool(scores[45] > scores[5])
    True
    """
    if not isinstance(test, int | float) or not 0 <= test < 1:
        raise ConfigError(f"found test {test!r}, expected a share in [0, 1); set test")
    if method not in (None, "auto"):
        raise ConfigError(f"found method {method!r}, expected None or 'auto'; set method")
    # Names of a data frame may be numbers.
    label, weight, key = str(label), weight and str(weight), key and str(key)
    whole = table = table_of(rows, [label] if isinstance(positive, str) else [])
    held_out = None
    for name, section in (("features", features), ("training", training)):
        if not isinstance(section, Mapping | None):
            raise ConfigError(
                f"found {name} {section!r}, expected a mapping of settings to values, such as "
                f"{{'leaveOut': ['id']}}; set {name}"
            )
    given, settings = dict(features or {}), {"weightCol": weight, **(training or {})}
    left_out = list(RecipeEstimator(**given).values()["leaveOut"] or ())
    key = key or settings.get("keyCol")
    unused = [name for name in (settings["weightCol"], settings.get("foldCol"), *left_out) if name]
    if test:
        table, held_out = by_key(whole, 1 - test, seed, key, (label, positive), unused)
    ranker = MBAEstimator(labelCol=label, positiveLabel=positive, **settings)
    if ranker.has_folds:
        ranker = ranker.with_values(**{"keyCol": key, "seed": seed, **(training or {})})
    if key is not None:
        given["leaveOut"] = [*left_out, key]
    estimator = _estimator(method, budget, given, ranker, settings)
    model = estimator.fitted(table)
    if held_out is None:
        return Trained(model)
    if key is None:
        warn_of_copies(table, held_out, model, (label, positive), unused)
    evaluation = model.evaluate(held_out)
    return Trained(estimator.fitted_again(model, whole) if refit else model, evaluation)


def _estimator(
    method: str | None,
    budget: float | None,
    given: dict[str, Any],
    ranker: MBAEstimator,
    settings: Mapping[str, Any],
) -> Any:
    """The choice of a model, or one model where a setting of the recipe contradicts the choice."""
    added = [n for n in ADDED if n not in (settings if n == "smoothness" else given)]
    if method is None:
        added = [name for name in added if name in DEFAULT]
    estimator = MethodEstimator(RecipeEstimator(**given), ranker, added, budget)
    if method is not None or estimator.can_choose:
        return estimator
    if budget is not None:
        raise ConfigError(
            f"found budget {budget:g} and a setting that contradicts a choice of models, whose "
            "candidates it limits; leave out one of both"
        )
    if ranker.selects:
        given = {**default_recipe(given.get("trees")), **given}
        if "smoothness" not in settings and not grows_from_all(given.get("trees")):
            ranker = ranker.smooth
    return PipelineEstimator([RecipeEstimator(**given), ranker])


def table_of(rows: Any, exact: Sequence[str] = ()) -> Table:
    """The table of rows of any class that `train` takes; `ConfigError` for others.

    Text of the columns ``exact`` is a number or stays text; see `inferred`.
    """
    if type(rows).__module__.partition(".")[0] == "pyspark":
        from spark_auc.spark.data import nested
        from spark_auc.spark.data.spark_table import SparkTable

        return SparkTable(nested.with_fields(rows, None))
    if isinstance(rows, str | PathLike):
        table = open_file(rows, trimmed=True)
    elif is_table(rows):
        is_arrow = isinstance(rows, pa.Table | pa.RecordBatch)
        names = rows.schema.names if is_arrow else [str(name) for name in rows.columns]
        table = ArrowTable.of(arrow_of(rows, list(dict.fromkeys(names))), _PART_ROWS)
    else:
        raise ConfigError(
            f"found rows of class {type(rows).__name__}, expected the path of a file, a pandas "
            "data frame, an Arrow table or a Spark DataFrame; convert them"
        )
    found = with_fields(table, None)
    readings = [one.reading for one in inferred(found, exact).values()]
    return remembered(typed(found, readings)) if readings or not is_table(rows) else found
