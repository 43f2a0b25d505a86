"""Raw tables in memory with stratified splits, for experiments on recipes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from experiments.datasets import halves
from experiments.raw_tables import TABLES, raw, scaled
from spark_auc.core.types import Bool, Int
from spark_auc.features.raw_columns import Column, Numbers


@dataclass(frozen=True)
class Rows:
    """Rows of a raw table with their labels.

    Parameters
    ----------
    frame
        Columns of numbers (float64, NaN if missing) and of text (str, None if missing).
    y : (n,)
        True for positive rows.
    whole
        Numeric columns of integers, of more than two values.
    """

    frame: pd.DataFrame
    y: Bool
    whole: tuple[str, ...] = ()

    @cached_property
    def columns(self) -> Mapping[str, Column]:
        """The columns of recipes."""
        columns = raw(self.frame)
        for name in self.whole:
            values = self.frame[name].to_numpy()
            valid = ~np.isnan(values)
            columns[name] = Numbers(np.where(valid, values, 0).astype(np.int64), valid)
        return columns

    def take(self, rows: Int) -> Rows:
        """The rows of these numbers."""
        return Rows(self.frame.iloc[rows].reset_index(drop=True), self.y[rows], self.whole)

    def split(self, seed: int) -> tuple[Rows, Rows]:
        """The training and the test half of a stratified split."""
        train, test = halves(self.y, seed)
        return self.take(train), self.take(test)

    def folds(self, seed: int, count: int = 5) -> list[tuple[Int, Int]]:
        """Row numbers of stratified folds: the fitted and the held-out rows of each."""
        return stratified_folds(self.y, seed, count)


def stratified_folds(y: Bool, seed: int, count: int = 5) -> list[tuple[Int, Int]]:
    """Row numbers of folds of labels ``(n,)``: the fitted and the held-out rows of each."""
    rng = np.random.default_rng([seed, count])
    fold = np.empty(y.size, np.int64)
    for label in (False, True):
        rows = rng.permutation(np.flatnonzero(y == label))
        fold[rows] = np.arange(rows.size) % count
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(count)]


def _known(name: str) -> Callable[[Path], Rows]:
    def read(data: Path) -> Rows:
        table = TABLES[name](data)
        return _typed(table.frame, table.y)

    return read


def _typed(frame: pd.DataFrame, y: Bool) -> Rows:
    """The rows with numbers as float64, and text as str or None."""
    columns: dict[str, object] = {}
    whole = []
    for name, series in frame.items():
        if series.dtype == object:
            columns[str(name)] = series.where(series.notna(), None)
        else:
            columns[str(name)] = series.astype(float)
            values = series.dropna()
            if values.nunique() > 2 and not (values % 1).any():
                whole.append(str(name))
    return Rows(pd.DataFrame(columns), y, tuple(whole))


def _of_file(name: str) -> Callable[[Path], Rows]:
    def read(data: Path) -> Rows:
        table = scaled(name)(data)
        return _typed(table.frame, table.y)

    return read


# Small sets first: a run that is interrupted has most sets.
SETS: Mapping[str, Callable[[Path], Rows]] = {
    "magic04": _known("magic04"),
    "adult_raw": _known("adult_raw"),
    "a9a": _of_file("a9a"),
    "ijcnn1": _known("ijcnn1"),
    "criteo_80k": _known("criteo_80k"),
}
