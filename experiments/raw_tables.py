"""AUC of automatic recipes on raw tables, next to pipelines made by hand.

Linear rankers of features of single columns, without Spark, on one core. The pipelines made by
hand are scikit-learn's transformers followed by exact all-pairs ridge (`ridge`, 25 penalties, 5
folds) or by logistic regression (`logistic`, 6 values of C, 5 folds). They were fixed before any
of them was measured. Hashed tokens are those of `spark_auc.features.recipe.Recipe`, because the
AUC at 4,096 features differs by 0.6 points between hash functions.

Splits: magic04, adult_raw, ijcnn1 and german.numer_scale (both already scaled) are halved by
scikit-learn's stratified split with ``random_state=0``; of criteo_80k the first 64,000 rows are
training rows, of avazu_9k the first 80%.

Numbers are standardised, splined (12 quantile knots of degree 1, or 12 knots of degree 3) or binned
(20 quantile bins); missing numbers are the median and an indicator. Categories are one-hot or
hashed, with the missing value as a category. "unit" rows have length 1; "scaled" columns have unit
variance.

    python -m experiments.raw_tables --data DIR [--table NAME]

prints one JSON object per table and pipeline. Test AUC in percent of exact pairwise ridge (RankSVM
with the penalty chosen for ridge), rows of unit length, columns unscaled, missing indicators:

    table                 best by hand    auto (16 knots)    knots 2, 16 or 48 by folds
    magic04               90.50           90.41 (90.63)      90.41
    adult_raw             90.99           92.23 (92.60)      92.23
    criteo_80k, 4,096     75.70           75.82
    criteo_80k, 2^20      77.43           77.37
    avazu_9k              71.73           71.35 (71.34)      71.54
    ijcnn1                95.77           95.75 (96.50)      95.75
    german.numer_scale    78.29           76.71 (76.57)      77.84

With products of hats (8 x 8) of the best pairs of numeric columns beside the single columns:

    table                 auto     10 pairs    20 pairs
    magic04               90.41    92.08       92.74
    adult_raw             92.23    92.32       92.32
    ijcnn1                95.75    98.52       99.00
    german.numer_scale    76.71    76.71       76.71

Of adult_raw, 8 pairs lower the loss beyond noise, of german.numer_scale none. The rows that choose
the pairs choose the penalty here too.

The 500 test rows of german.numer_scale have 150 of the smaller class: the standard error of an AUC
is about 2 points. ``--splits N`` draws N random splits, and prints the mean test AUC of each
pipeline, its mean difference from knots by folds on the same splits, and the standard error of this
difference, in which splits overlap (Nadeau and Bengio, Machine Learning 52, 2003). Of 40 splits
with 80% training rows:

    standardised, logistic    80.28    0.17 (0.44)
    standardised, ridge       80.27    0.16 (0.39)
    auto, knots by folds      80.11
    cubic splines, logistic   79.00   -1.11 (0.75)
    splines, logistic         78.97   -1.13 (0.87)
    splines, ridge            78.91   -1.20 (0.75)
    bins, logistic            77.97   -2.14 (1.00)
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin  # type: ignore[import-untyped]
from sklearn.compose import ColumnTransformer  # type: ignore[import-untyped]
from sklearn.datasets import load_svmlight_file  # type: ignore[import-untyped]
from sklearn.feature_selection import VarianceThreshold  # type: ignore[import-untyped]
from sklearn.impute import SimpleImputer  # type: ignore[import-untyped]
from sklearn.linear_model import LogisticRegressionCV  # type: ignore[import-untyped]
from sklearn.metrics import roc_auc_score  # type: ignore[import-untyped]
from sklearn.model_selection import StratifiedShuffleSplit  # type: ignore[import-untyped]
from sklearn.pipeline import make_pipeline  # type: ignore[import-untyped]
from sklearn.preprocessing import (  # type: ignore[import-untyped]
    FunctionTransformer,
    KBinsDiscretizer,
    Normalizer,
    OneHotEncoder,
    SplineTransformer,
    StandardScaler,
)

from experiments.datasets import halves
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.operator import column_moments
from spark_auc.core.row_source import ArrayRows
from spark_auc.core.types import Bool, Float, Int
from spark_auc.errors import ResourceError
from spark_auc.features.kinds.hashed import Hashed
from spark_auc.features.kinds.log import Log
from spark_auc.features.kinds.tokens import Tokens
from spark_auc.features.pair_choice import PairCandidates
from spark_auc.features.raw_columns import Column, Numbers, Text, type_of
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_fit import Planned, RecipePlan
from spark_auc.features.splines import Splines
from spark_auc.local import RankSVMClassifier
from spark_auc.local.ranker import LinearRanker
from spark_auc.solvers.ridge import LARGEST_DIRECT
from spark_auc.training.result import TrainingResult
from spark_auc.training.settings import TrainingSettings
from spark_auc.training.train import train

SHARE = 0.8
# Most values of an integer column whose values are tokens too.
FEW = 256


@dataclass(frozen=True)
class Table:
    """A raw table with its labels and its training and test rows.

    Parameters
    ----------
    frame
        The columns; those of text hold str or None.
    y : (n,)
        True for positive rows.
    train, test
        Numbers of the rows.
    """

    frame: pd.DataFrame
    y: Bool
    train: Int
    test: Int

    @property
    def numbers(self) -> list[str]:
        """Names of the numeric columns."""
        return [str(c) for c in self.frame.select_dtypes("number").columns]

    @property
    def words(self) -> list[str]:
        """Names of the columns of text."""
        return [str(c) for c in self.frame.columns if c not in self.numbers]


def _halved(frame: pd.DataFrame, y: Bool) -> Table:
    return Table(frame, y, *halves(y))


def _in_order(frame: pd.DataFrame, y: Bool) -> Table:
    first = int(SHARE * y.size)
    return Table(frame, y, np.arange(first), np.arange(first, y.size))


def _magic(data: Path) -> Table:
    frame = pd.read_csv(data / "magic04.csv", header=None).rename(columns=str)
    return _halved(frame, frame.pop("10").to_numpy() == "h")


def _adult(data: Path) -> Table:
    frame = pd.read_csv(data / "adult_raw.csv", skipinitialspace=True)
    return _halved(frame, frame.pop("Salary").to_numpy() == ">50K")


def _criteo(data: Path) -> Table:
    names = ["y", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
    types = {name: str for name in names if name.startswith("C")}
    frame = pd.read_csv(data / "criteo_80k.tsv", sep="\t", names=names, dtype=types)
    return _in_order(frame, frame.pop("y").to_numpy() == 1)


def _avazu(data: Path) -> Table:
    frame = pd.read_csv(data / "avazu_9k.csv", dtype={"id": str})
    return _in_order(frame, frame.pop("click").to_numpy() == 1)


def scaled(name: str) -> Callable[[Path], Table]:
    """A reader of a LIBSVM file as a table of numbers."""

    def read(data: Path) -> Table:
        X, y = load_svmlight_file(str(data / name))
        frame = pd.DataFrame(X.toarray(), columns=[f"x{j}" for j in range(1, X.shape[1] + 1)])
        return _halved(frame, y == y.max())

    return read


TABLES: Mapping[str, Callable[[Path], Table]] = {
    "magic04": _magic,
    "adult_raw": _adult,
    "criteo_80k": _criteo,
    "avazu_9k": _avazu,
    "ijcnn1": scaled("ijcnn1"),
    "german.numer_scale": scaled("german.numer_scale"),
}


class _Limited(ProcessMemory):
    """A budget in which a matrix of 1 GiB fits; above it, rows in memory are faster."""

    def check(self, state_bytes: int, what: str) -> None:
        """See `MemoryBudget.check`."""
        if state_bytes > 2**30:
            raise ResourceError(f"found {what}, expected at most 1 GiB; use the rows")


class Ridge(LinearRanker):
    """Exact all-pairs ridge; the penalty is chosen in 5 folds.

    Of many features, 9 penalties are tried instead of 25: the weakest ones need most of the time
    and were never chosen.
    """

    def __init__(self, standardization: bool = False) -> None:
        self.standardization = standardization

    def _train(self, rows: ArrayRows) -> TrainingResult:
        penalties = None
        if rows.dimension > LARGEST_DIRECT:
            variance = column_moments(rows).standard_deviation() ** 2
            total = rows.dimension if self.standardization else variance.sum()
            penalties = tuple(2 * total * np.logspace(-5, -1, 9))
        settings = TrainingSettings(
            reg_params=penalties, standardize=self.standardization, tol=1e-5, on_failure="warn"
        )
        return train(replace(rows, memory=_Limited()), settings)


def ridge(*, scaled: bool) -> Any:
    """Exact all-pairs ridge, of columns of unit variance if ``scaled``."""
    return make_pipeline(VarianceThreshold(), Ridge(standardization=scaled))


def logistic() -> Any:
    """Logistic regression; C is chosen by AUC in 5 folds."""
    settings = {"scoring": "roc_auc", "cv": 5, "max_iter": 300, "tol": 1e-4}
    values = list(np.logspace(-2, 3, 6))
    learner = LogisticRegressionCV(
        Cs=values, l1_ratios=(0.0,), use_legacy_attributes=False, **settings
    )
    return make_pipeline(VarianceThreshold(), learner)


def standardised() -> Any:
    """Standardised numbers."""
    return make_pipeline(SimpleImputer(strategy="median", add_indicator=True), StandardScaler())


def logarithms() -> Any:
    """Standardised numbers, after ``sign(v) log(1 + |v|)``."""
    log = FunctionTransformer(lambda v: np.sign(v) * np.log1p(np.abs(v)))
    imputer = SimpleImputer(strategy="median", add_indicator=True)
    return make_pipeline(imputer, log, StandardScaler())


class QuantileSplines(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Splines of degree 1 with 12 knots at plain quantiles; equal quantiles make one knot."""

    def fit(self, X: pd.DataFrame, y: object = None) -> QuantileSplines:
        """Compute the knots."""
        at, columns = np.linspace(0, 1, 12), np.asarray(X, float).T
        knots = [np.nanquantile(column, at, method="inverted_cdf") for column in columns]
        self.splines_ = Splines.of_knots([np.unique(k[np.isfinite(k)]) for k in knots])
        return self

    def transform(self, X: pd.DataFrame) -> sparse.csr_matrix:
        """The hats, and indicators of missing values."""
        return self.splines_.transform(np.asarray(X, float))


def cubic(knots: str) -> Any:
    """B-splines of degree 3 with 12 knots."""
    return SplineTransformer(12, degree=3, knots=knots, sparse_output=True)


def bins() -> Any:
    """One-hot bins of 20 quantiles."""
    cut = KBinsDiscretizer(20, encode="onehot", quantile_method="averaged_inverted_cdf")
    return make_pipeline(SimpleImputer(strategy="median", add_indicator=True), cut)


def one_hot() -> Any:
    """One-hot categories; those absent from the training rows have no feature."""
    return OneHotEncoder(handle_unknown="ignore")


def hashed(dimension: int, *, log: bool = False) -> Any:
    """Hashed tokens; numbers are binned by logarithms if ``log``."""

    def rows(frame: pd.DataFrame) -> sparse.csr_matrix:
        columns = raw(frame)
        made: list[Hashed] = []
        for name, column in columns.items():
            binned = log and isinstance(column, Numbers)
            kind = "integer" if isinstance(column, Numbers) else "text"
            made.append((Log if binned else Tokens)(name, kind))
        return Recipe((), tuple(made), dimension, unit=False).transform(columns)

    return FunctionTransformer(rows)


def raw(frame: pd.DataFrame) -> dict[str, Column]:
    """The columns of a recipe."""
    columns: dict[str, Column] = {}
    for name, series in frame.items():
        missing = series.isna().to_numpy()
        if series.dtype == object:
            texts = [b"" if m else str(v).encode() for v, m in zip(series, missing, strict=True)]
            offsets = np.cumsum([0, *map(len, texts)], dtype=np.int64)
            data = np.frombuffer(b"".join(texts), np.uint8)
            columns[str(name)] = Text.of_offsets(offsets, data, ~missing)
        else:
            values = series.to_numpy()
            if missing.any() and not (values[~missing] % 1).any():
                values = np.where(missing, 0, values).astype(np.int64)
            columns[str(name)] = Numbers(values, ~missing)
    return columns


def together(table: Table, numbers: Any, words: Any, *, without: tuple[str, ...] = ()) -> Any:
    """Features of the numbers, then those of the words."""
    columns = [c for c in table.numbers if c not in without]
    texts = [c for c in table.words if c not in without]
    return ColumnTransformer([("numbers", numbers, columns), ("words", words, texts)])


def by_hand(name: str, table: Table) -> Iterator[tuple[str, Any]]:
    """The list: names and pipelines."""
    if name in {"magic04", "ijcnn1", "german.numer_scale"}:
        # Quantiles of columns with few values are equal, which scikit-learn refuses.
        knots = "quantile" if name == "magic04" else "uniform"
        yield "standardised, ridge", make_pipeline(standardised(), ridge(scaled=False))
        yield "standardised, logistic", make_pipeline(standardised(), logistic())
        yield "splines, ridge", make_pipeline(QuantileSplines(), ridge(scaled=False))
        yield "splines, logistic", make_pipeline(QuantileSplines(), logistic())
        yield "cubic splines, logistic", make_pipeline(cubic(knots), logistic())
        yield "bins, logistic", make_pipeline(bins(), logistic())
    if name == "adult_raw":
        for text, numbers in (
            ("standardised", standardised),
            ("splines", QuantileSplines),
            ("logarithms", logarithms),
            ("bins", bins),
        ):
            features = together(table, numbers(), one_hot())
            if text in {"standardised", "splines"}:
                yield f"{text} + one-hot, ridge", make_pipeline(features, ridge(scaled=False))
            yield f"{text} + one-hot, logistic", make_pipeline(features, logistic())
    if name == "criteo_80k":
        for text, dimension in (("4096", 2**12), ("2^20", 2**20)):
            tokens, unit = hashed(dimension, log=True), Normalizer()
            yield f"hashed {text}, unit, ridge", make_pipeline(tokens, unit, ridge(scaled=False))
            yield f"hashed {text}, unit, logistic", make_pipeline(tokens, unit, logistic())
            features = together(table, logarithms(), hashed(dimension))
            yield f"logarithms + hashed {text}, logistic", make_pipeline(features, logistic())
            features = together(table, QuantileSplines(), hashed(dimension))
            yield f"splines + hashed {text}, logistic", make_pipeline(features, logistic())
        yield (
            "hashed 4096, scaled, ridge",
            make_pipeline(hashed(2**12, log=True), ridge(scaled=True)),
        )
    if name == "avazu_9k":
        tokens = hashed(2**20)
        yield "hashed, unit, ridge", make_pipeline(tokens, Normalizer(), ridge(scaled=False))
        yield "hashed, scaled, ridge", make_pipeline(tokens, ridge(scaled=True))
        every = ColumnTransformer([("all", one_hot(), [c for c in table.frame if c != "id"])])
        yield "one-hot without id, logistic", make_pipeline(every, logistic())
        few = [c for c in table.frame if c not in {"id", "device_ip"}]
        fewer = ColumnTransformer([("all", one_hot(), few)])
        yield "one-hot without id and device_ip, logistic", make_pipeline(fewer, logistic())
        left_out = {"without": ("id", "device_ip")}
        features = together(table, standardised(), one_hot(), **left_out)
        yield "standardised + one-hot, logistic", make_pipeline(features, logistic())
        features = together(table, QuantileSplines(), one_hot(), **left_out)
        yield "splines + one-hot, ridge", make_pipeline(features, ridge(scaled=False))


def planned_columns(
    columns: Mapping[str, Column], distinct: Any, rows: int, integers: str = "tokens"
) -> list[Planned]:
    """The columns of an automatic recipe, without identifiers; see `Auto`.

    Parameters
    ----------
    columns
        The columns of ``rows`` rows.
    distinct
        Number of distinct values of each column, by name.
    integers
        See `Auto`.
    """
    integer_kind = "log" if integers == "log" else "spline"
    planned = []
    for name, column in columns.items():
        kind = type_of(name, column)
        if kind == "float" or 2 * distinct[name] <= rows:
            features = {"text": "tokens", "integer": integer_kind}.get(kind, "spline")
            planned.append(Planned(name, kind, features))
            if kind == "integer" and distinct[name] <= FEW and integers == "tokens":
                planned.append(Planned(name, kind, "tokens"))
    return planned


class Auto:
    """A ranker on an automatic recipe.

    Text is tokens, floats are splines, and integers are splines, tokens too if they have few
    values. Text and integers of more distinct values than half the rows are identifiers and left
    out.

    Parameters
    ----------
    knots
        Numbers of knots; the one with the best held-out AUC is chosen.
    integers
        "spline" or "log"; "tokens": splines, and tokens of columns of at most `FEW` values.
    dimension
        Number of features of the tokens.
    missing, unit
        See `Recipe`.
    scaled
        Whether the penalty applies to columns of unit variance.
    hinge
        Whether to train by the squared hinge, with the penalty chosen for the squared loss.
    pairs
        Largest number of pairs of numeric columns, which are chosen by the scores without them.
    """

    def __init__(
        self,
        *knots: int,
        integers: str = "tokens",
        dimension: int = 2**18,
        missing: str = "indicator",
        unit: bool = True,
        scaled: bool = False,
        hinge: bool = False,
        pairs: int = 0,
    ) -> None:
        self.knots, self.integers, self.unit, self.scaled = knots, integers, unit, scaled
        self.dimension, self.missing, self.hinge, self.pairs = dimension, missing, hinge, pairs

    def fit(self, frame: pd.DataFrame, y: Bool) -> None:
        """Fit the recipe and the ranker."""
        columns = raw(frame)
        planned = planned_columns(columns, frame.nunique(), y.size, self.integers)
        state = self._plan(planned, 2).fold([columns])
        best = -1.0
        for knots in self.knots:
            recipe = self._plan(planned, knots).fitted(state)
            X, varies, ranker = self._ranked(recipe, columns, y)
            selection = ranker.summary_.selection or {}
            chosen = selection["candidates"][selection["chosen"]]
            if chosen["auc"] > best:
                best, penalty = chosen["auc"], chosen["regParam"]
                self._recipe, self._fitted = recipe, [varies, ranker]
                rows = X
        if self.pairs:
            candidates = PairCandidates.of(self._recipe, state)
            sums = candidates.histograms(columns, y, self._fitted[1].decision_function(rows))
            self._recipe = candidates.chosen(self._recipe, sums, self.pairs)
            self._fitted = list(self._ranked(self._recipe, columns, y)[1:])
        if self.hinge:
            hinge = RankSVMClassifier(
                regParam=penalty, standardization=self.scaled, whenNotConverged="warn"
            )
            self._fitted[1] = hinge.fit(rows, y)

    def _ranked(
        self, recipe: Recipe, columns: Mapping[str, Column], y: Bool
    ) -> tuple[sparse.csr_matrix, VarianceThreshold, Ridge]:
        """The rows of a recipe, and what is fitted to them."""
        X = recipe.transform(columns)
        varies = VarianceThreshold().fit(X)
        X = varies.transform(X)
        # Rows have the same folds for each recipe.
        return X, varies, Ridge(self.scaled).fit(X, y, groups=np.arange(y.size))

    def _plan(self, planned: list[Planned], knots: int) -> RecipePlan:
        settings = self.dimension, None, self.missing, self.unit
        return RecipePlan(tuple(planned), knots, *settings)

    def decision_function(self, frame: pd.DataFrame) -> Float:
        """The scores."""
        varies, ranker = self._fitted
        X = varies.transform(self._recipe.transform(raw(frame)))
        scores: Float = ranker.decision_function(X)
        return scores


def automatic(name: str) -> Iterator[tuple[str, Any]]:
    """Names and rankers of automatic recipes: the defaults, then one change each."""
    if name == "criteo_80k":
        for text, dimension in (("4096", 2**12), ("2^20", 2**20)):
            yield f"auto {text}, log", Auto(2, integers="log", dimension=dimension)
            yield f"auto {text}, splines", Auto(16, integers="spline", dimension=dimension)
            yield f"auto {text}", Auto(16, dimension=dimension)
        return
    yield "auto", Auto(16)
    yield "auto, RankSVM", Auto(16, hinge=True)
    yield "auto, knots by folds", Auto(2, 16, 48)
    for knots in (12, 24, 48):
        yield f"auto, {knots} knots", Auto(knots)
    yield "auto, no tokens of integers", Auto(16, integers="spline")
    yield "auto, 10 pairs", Auto(16, pairs=10)
    yield "auto, 20 pairs", Auto(16, pairs=20)
    yield "auto, not unit", Auto(16, unit=False)
    yield "auto, scaled", Auto(16, scaled=True)
    yield "auto, missing ignored", Auto(16, missing="ignore")


def measure(table: Table, pipeline: Any) -> dict[str, float]:
    """Test AUC in percent, and seconds of the fit."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pipeline.fit(table.frame.iloc[table.train], table.y[table.train])
    seconds = time.perf_counter() - began
    scores = pipeline.decision_function(table.frame.iloc[table.test])
    auc = 100 * float(roc_auc_score(table.y[table.test], scores))
    return {"auc": round(auc, 2), "seconds": round(seconds, 1)}


def compare(table: Table, pipelines: Sequence[tuple[str, Any]], splits: int) -> None:
    """Print the mean test AUC of pipelines over random splits, and differences from the last."""
    drawn = StratifiedShuffleSplit(splits, train_size=SHARE, random_state=7)
    aucs = np.array(
        [
            [measure(replace(table, train=a, test=b), steps)["auc"] for _, steps in pipelines]
            for a, b in drawn.split(table.frame, table.y)
        ]
    )
    differences = aucs - aucs[:, -1:]
    variances = differences.var(axis=0, ddof=1) * (1 / splits + (1 - SHARE) / SHARE)
    for (pipeline, _), *numbers in zip(
        pipelines, aucs.mean(axis=0), differences.mean(axis=0), np.sqrt(variances), strict=True
    ):
        auc, difference, error = (round(float(number), 2) for number in numbers)
        result = {"auc": auc, "difference": difference, "standardError": error}
        print(json.dumps({"pipeline": pipeline, **result}), flush=True)


def main() -> None:
    """Measure the pipelines of one table or of all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="directory of the tables")
    parser.add_argument("--table", choices=TABLES, help="one table; default: all")
    parser.add_argument("--splits", type=int, default=0, help="random splits to compare on")
    options = parser.parse_args()
    for name in [options.table] if options.table else TABLES:
        table = TABLES[name](options.data)
        if options.splits:
            chosen = "auto, knots by folds", Auto(2, 16, 48)
            compare(table, [*by_hand(name, table), chosen], options.splits)
            continue
        for pipeline, steps in (*by_hand(name, table), *automatic(name)):
            result = measure(table, steps)
            print(json.dumps({"table": name, "pipeline": pipeline, **result}), flush=True)


if __name__ == "__main__":
    main()
