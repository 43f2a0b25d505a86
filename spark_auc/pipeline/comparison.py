"""Comparison of the AUCs of several models that scored the rows of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pyarrow as pa

from spark_auc.core import html
from spark_auc.core.evaluation.delong import AUCInterval, interval_of
from spark_auc.core.evaluation.paired_auc import AUCDifference, PairedAUC
from spark_auc.core.labels import Label
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError, DataError
from spark_auc.pipeline.evaluation import ranking_options
from spark_auc.pipeline.score_columns import ScoreColumns, check_score, score_values
from spark_auc.pipeline.score_tables import tabulated
from spark_auc.tables.columns import check_weights
from spark_auc.tables.decoders import as_doubles
from spark_auc.tables.labels import is_positive, label_values, positive_label
from spark_auc.tables.table import Batches, Table, field_of
from spark_auc.tables.types import is_text, of_values


@dataclass(frozen=True, eq=False)
class Comparison:
    """AUCs of several models on the same rows.

    Parameters
    ----------
    names
        Names of the score columns.
    paired
        AUCs, and DeLong's estimate of their covariance.
    intervals
        AUC and confidence interval of each score column.
    level
        Confidence level.
    """

    names: tuple[str, ...]
    paired: PairedAUC
    intervals: tuple[AUCInterval, ...]
    level: float

    def _repr_html_(self) -> str:
        rows = [
            (n, i.auc, i.lower, i.upper) for n, i in zip(self.names, self.intervals, strict=True)
        ]
        pairs = [
            (f"{first} - {second}", *self.difference(first, second))
            for first, second in combinations(self.names, 2)
        ]
        return html.page(
            f"AUC on the same rows, {self.level:.0%} intervals",
            html.table(["score", "AUC", "lower", "upper"], rows),
            html.table(["difference", "AUC", "lower", "upper", "z", "p-value"], pairs),
        )

    def difference(self, first: str, second: str) -> AUCDifference:
        """Difference of two AUCs with its confidence interval and test.

        Parameters
        ----------
        first, second
            Names of the score columns; the difference is AUC(first) - AUC(second).
        """
        i, j = (self.names.index(name) for name in (first, second))
        return self.paired.compare(i, j, self.level)


def compared(
    table: Table,
    scores: Sequence[str],
    label: str,
    positive: Label | bool | None = None,
    weight: str | None = None,
    level: float = 0.95,
) -> Comparison:
    """Compare models that scored the same rows; see `spark_auc.compare`.

    Parameters
    ----------
    table
        The rows. They are read once; scores, labels and weights are kept during the comparison.
    scores
        Names of two or more columns of scores.
    label, positive, weight, level
        Names of the columns of labels and weights, the positive label, and the confidence level.
    """
    if len(set(scores)) < max(2, len(scores)):
        raise ConfigError(
            f"found the score columns {list(scores)}, expected two or more different ones; "
            "set scoreCols"
        )
    options = ranking_options(1.0, 1.0, 0.0, level)
    names = [f"s{k}" for k in range(len(scores))]
    value = positive_label(table, label, positive)
    columns = [ScoreColumns(name, "label", positive, "weight") for name in names]
    # All passes read these rows: rows that are scored again can have other scores.
    with _chosen(table, scores, label, weight).kept(spill=True) as rows, ExitStack() as stack:
        placed, aucs = rows, list[float]()
        for name, model, what in zip(names, columns, scores, strict=True):
            scored = stack.enter_context(tabulated(rows, model, what=what))
            aucs.append(scored.ranking(options).auc)
            placements = scored.placements()
            schema = pa.schema([(name, pa.float64()) for name in _placed(name)])
            placed = placed.matched(name, placements.map(_renamed(schema), schema))
        sums = _products(placed, names, np.array(aucs), value)
    counts, products = sums[:, 0].astype(int), sums[:, 1:].reshape(2, len(names), len(names))
    if tuple(counts) != scored.table.rows:
        raise DataError(
            f"found {counts[0]} positive and {counts[1]} negative rows when their scores were read "
            "again, expected {} and {}; write the scored rows first, and compare the written "
            "rows".format(*scored.table.rows)
        )
    class_sums = scored.table.class_sums()
    paired = PairedAUC.from_sums(np.array(aucs), class_sums, products)
    intervals = tuple(
        interval_of(auc, float(paired.covariance[k, k]), class_sums, level)
        for k, auc in enumerate(aucs)
    )
    return Comparison(tuple(scores), paired, intervals, level)


def _chosen(table: Table, scores: Sequence[str], label: str, weight: str | None) -> Table:
    """Scores ``s0``, ``s1`` and so on, ``label`` and ``weight``."""
    for name in scores:
        check_score(table, name)
    if weight is not None:
        check_weights(table, weight)
    kind = pa.string() if is_text(of_values(field_of(table, label).type)) else pa.float64()
    count = len(scores)
    fields = [(f"s{k}", pa.float64()) for k in range(count)]
    schema = pa.schema([*fields, ("label", kind), ("weight", pa.float64())])

    def made(batches: Batches) -> Batches:
        for batch in batches:
            given = batch.columns
            values = [score_values(array).cast(pa.float64()) for array in given[:count]]
            labels = label_values(given[count]).cast(kind)
            weights = as_doubles(given[-1]) if weight else pa.array(np.ones(batch.num_rows))
            yield pa.RecordBatch.from_arrays([*values, labels, weights], schema=schema)

    return table.select([*scores, label, *([weight] if weight else [])]).map(made, schema)


def _placed(name: str) -> tuple[str, str, str]:
    """Names of a score and of the placement values of positive and negative rows."""
    return name, f"{name}_positive", f"{name}_negative"


def _renamed(schema: pa.Schema) -> Callable[[Batches], Batches]:
    def renamed(batches: Batches) -> Batches:
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return renamed


def _products(placed: Table, names: Sequence[str], aucs: Float, positive: Label | None) -> Float:
    """Of positive and of negative rows, their number and sums of products ``(2, 1 + k k)``.

    The products are those of the differences of placement values from the AUCs, with squared
    weights.
    """
    columns = ["label", "weight", *(of for name in names for of in _placed(name)[1:])]
    schema = pa.schema([(f"v{k}", pa.float64()) for k in range(2 * (1 + len(names) ** 2))])

    def summed(batches: Batches) -> Batches:
        for batch in batches:
            labels, weight, *values = batch.columns
            y, u = is_positive(labels, positive), weight.to_numpy(zero_copy_only=False)
            both = np.stack([value.to_numpy(zero_copy_only=False) for value in values], axis=1)
            sums = []
            for side, of_class in enumerate((y, ~y)):
                V = (both[of_class, side::2] - aucs) * u[of_class, None]
                sums += [float(np.count_nonzero(u[of_class])), *(V.T @ V).ravel()]
            yield pa.RecordBatch.from_arrays(
                [pa.array([value], pa.float64()) for value in sums], schema=schema
            )

    found = placed.select(columns).map(summed, schema).gathered()
    assert found is not None
    sums = np.stack([column.to_numpy() for column in found.columns], axis=1)
    return np.asarray(sums.sum(axis=0).reshape(2, -1), float)
