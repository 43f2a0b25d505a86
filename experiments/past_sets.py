"""The reference sets of `experiments.past_linear`: raw tables, generated tables and splits.

A table is a data frame: columns of float64, and columns of text (str or None). Codes of Avazu are
text; its row number ``id`` is left out. Every split is a stratified half of the rows.

Generated tables have 20,000 rows and are the same in each run:

- ``nine_categories``: nine columns of 4 to 60 categories; the log odds are a sum of effects of
  single columns and of six pairs of columns.
- ``ten_numbers``: ten numeric columns of several distributions, two with missing values; the log
  odds have curves of single columns and four interactions of two.
- ``mixed_columns``: six numeric columns and five of categories, with interactions of all kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.datasets import halves
from experiments.raw_tables import TABLES, raw, scaled
from spark_auc.core.types import Bool, Float, Int
from spark_auc.features.raw_columns import Column, Numbers

SPLITS = 20
ROWS = 20_000


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


def _avazu(data: Path) -> Rows:
    frame = pd.read_csv(data / "avazu_9k.csv", dtype=str).drop(columns="id")
    return _typed(frame, frame.pop("click").to_numpy() == "1")


def _drawn(logits: Float, rng: np.random.Generator) -> Bool:
    positive: Bool = rng.random(logits.size) < 1 / (1 + np.exp(-logits))
    return positive


def _categories(levels: tuple[int, ...], rng: np.random.Generator) -> list[Int]:
    """Columns of categories; the frequency of category k is proportional to 1 / (k + 2)."""
    columns = []
    for count in levels:
        frequency = 1 / np.arange(2, count + 2)
        columns.append(rng.choice(count, ROWS, p=frequency / frequency.sum()))
    return columns


def _texts(codes: Int) -> Any:
    return np.array([f"c{code}" for code in codes], object)


def _nine_categories(data: Path) -> Rows:
    rng = np.random.default_rng(1)
    levels = (4, 6, 8, 12, 16, 20, 30, 40, 60)
    codes = _categories(levels, rng)
    logits = np.full(ROWS, -1.0)
    for count, column in zip(levels, codes, strict=True):
        logits += rng.normal(0, 0.3, count)[column]
    for a, b in ((0, 8), (1, 5), (2, 7), (3, 4), (4, 6), (5, 7)):
        logits += rng.normal(0, 0.8, (levels[a], levels[b]))[codes[a], codes[b]]
    frame = pd.DataFrame({f"c{j}": _texts(column) for j, column in enumerate(codes)})
    return _typed(frame, _drawn(logits, rng))


def _ten_numbers(data: Path) -> Rows:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(10, ROWS))
    logits = -1.0 + 0.5 * x[0] + 0.5 * np.abs(x[2]) - 0.4 * x[8] ** 2 + 0.8 * np.sin(2 * x[9])
    logits += 0.8 * x[0] * x[1] + 0.8 * np.sign(x[2]) * x[3] + np.sin(2 * x[4]) * x[5]
    logits += 1.5 * ((np.abs(x[6]) > 1) & (x[7] > 0))
    x[1], x[5] = np.exp(x[1]), np.exp(2 * x[5])
    x[3] = np.where(x[3] < -0.5, -0.5, x[3])
    x[8] = np.round(3 * x[8])
    for column in (0, 4):
        x[column, rng.random(ROWS) < 0.05] = np.nan
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(x)})
    return _typed(frame, _drawn(logits, rng))


def _mixed_columns(data: Path) -> Rows:
    rng = np.random.default_rng(3)
    levels = (3, 8, 20, 40, 80)
    codes = _categories(levels, rng)
    x = rng.normal(size=(6, ROWS))
    logits = -1.2 + 0.5 * x[0] + 0.6 * np.abs(x[1]) + 0.7 * x[2] * x[3]
    for count, column in zip(levels, codes, strict=True):
        logits += rng.normal(0, 0.4, count)[column]
    logits += rng.normal(0, 0.8, (levels[1], levels[2]))[codes[1], codes[2]]
    logits += rng.normal(0, 0.6, (levels[0], levels[3]))[codes[0], codes[3]]
    logits += rng.normal(0, 0.7, levels[2])[codes[2]] * x[4]
    x[2], x[5] = np.exp(x[2]), np.round(x[5])
    x[1, rng.random(ROWS) < 0.1] = np.nan
    frame = pd.DataFrame({f"x{j}": column for j, column in enumerate(x)})
    texts = {f"c{j}": _texts(column) for j, column in enumerate(codes)}
    texts["c4"] = np.where(rng.random(ROWS) < 0.1, None, texts["c4"])
    return _typed(frame.assign(**texts), _drawn(logits, rng))


# Small sets first: a run that is interrupted has most sets.
SETS: Mapping[str, Callable[[Path], Rows]] = {
    "german.numer_scale": _known("german.numer_scale"),
    "diabetes_scale": _of_file("diabetes_scale"),
    "avazu_9k": _avazu,
    "magic04": _known("magic04"),
    "nine_categories": _nine_categories,
    "ten_numbers": _ten_numbers,
    "mixed_columns": _mixed_columns,
    "adult_raw": _known("adult_raw"),
    "a9a": _of_file("a9a"),
    "ijcnn1": _known("ijcnn1"),
    "criteo_80k": _known("criteo_80k"),
}
# Those whose columns are mostly or all categories.
CATEGORICAL = ("avazu_9k", "nine_categories")
