"""The comparison of the blocks of features of a recipe, on held-out rows of a table."""

from __future__ import annotations

import math
from collections.abc import Collection

from spark_auc.features.recipe_blocks import entries_of
from spark_auc.pipeline.ranker_fit import FoldsFit
from spark_auc.tables.raw_features import RawFeatures
from spark_auc.tables.rows import TableRows
from spark_auc.tables.table import Table
from spark_auc.training.blocks import Blocks
from spark_auc.training.costs import CountedWork
from spark_auc.training.method_choice import compare_methods
from spark_auc.training.method_result import MethodComparison
from spark_auc.training.settings import MethodSettings


def compared(
    table: Table,
    ranker: FoldsFit,
    features: RawFeatures,
    blocks: Blocks,
    hinge: bool,
    *,
    knowing: Collection[str] = (),
    without_hinge: tuple[str, ...] | None = None,
    smoothness: float | None = None,
    budget: float = math.inf,
) -> MethodComparison:
    """Candidate models of blocks of features, measured on the same held-out folds.

    Parameters
    ----------
    table
        The rows.
    ranker
        Names the columns, the folds, and the factors of the roughness of curves.
    features
        The features of all blocks. Rows that chose some of them are never held out.
    blocks
        Numbers of the features of each block.
    hinge
        Whether the squared hinge is a candidate.
    knowing
        Blocks whose features know the labels of the rows that are never held out.
    without_hinge
        See `MethodSettings`.
    smoothness
        The only factor of the roughness of curves. Default: those of the ranker.
    budget
        Seconds of counted work for all candidates; see `spark_auc.training.costs.CountedWork`.
    """
    folds, column = ranker.folds(table)
    columns = ranker.resolved(table, features, ranker.values()["keyCol"], column)
    settings = MethodSettings(
        ranker.held_out(folds, columns),
        frozenset(knowing),
        curves=features.recipe.curves,
        smoothness=ranker.factors if smoothness is None else (smoothness,),
        hinge=hinge,
        without_hinge=without_hinge,
        work=CountedWork(entries=entries_of(features.recipe), budget=budget),
    )
    return compare_methods(TableRows.of(table, columns), blocks, settings)
