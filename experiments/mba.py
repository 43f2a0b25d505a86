"""MBA: Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization".

The figures are the paper's, AUC in percent.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from sklearn.linear_model import LogisticRegressionCV  # type: ignore[import-untyped]

from experiments.experiment import (
    Case,
    Experiment,
    Measure,
    Point,
    Request,
    Results,
    Verdict,
    printed,
    superior,
)
from experiments.mixtures import MIXTURES
from experiments.one_pass import ADA_AUC, LOGISTIC, Algorithm
from experiments.page import line, panels
from experiments.training import Ranker, exact, percent, sampled
from spark_auc.core.batch import Batch
from spark_auc.core.evaluation.roc import roc_curve, sweep
from spark_auc.core.evaluation.score_table import ScoreTable
from spark_auc.core.products import settled_scores
from spark_auc.core.types import Float

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NAME = "MBA"
_POSITIVE, _ROWS, _TEST_ROWS = 0.1, 20_000, 100_000
_RATES = np.linspace(0, 1, 51)
# Table II; the name of a set has the share of the rows that is sampled.
_TABLE2 = printed(
    ("Neyman-Pearson", "MBA-l2", "OLR", "AdaAUC"),
    """
    1 component, 1%: 92.13, 87.43 0.69, 86.79 0.99, 80.94 2.77
    1 component, 10%: 92.13, 91.44 0.10, 90.54 0.29, 90.25 0.31
    1 component, 100%: 92.13, 91.88 0.04, 90.69 0.24, 91.70 0.07
    2 components, 1%: 83.71, 80.15 0.68, 77.64 1.41, 69.75 3.24
    2 components, 10%: 83.71, 83.15 0.10, 80.19 0.69, 80.12 0.69
    2 components, 100%: 83.71, 83.47 0.04, 80.19 0.69, 83.01 0.11
    3 components, 1%: 80.22, 76.39 0.47, 73.07 1.06, 66.38 1.95
    3 components, 10%: 80.22, 79.52 0.11, 75.94 0.64, 76.72 0.33
    3 components, 100%: 80.22, 79.93 0.11, 75.91 0.83, 79.61 0.06
    """,
)


def _setting(name: str) -> tuple[int, float]:
    """Components, and the share of the rows that is sampled, of a set."""
    components, share = name.split(", ")
    return int(components[0]), float(share[:-1]) / 100


def _mixture(request: Request) -> tuple[Batch, Batch]:
    """Rows of a mixture; the training rows are in random order."""
    components, _ = _setting(request.set)
    rng = np.random.default_rng(request.seed)
    train, test = (
        MIXTURES[components].sample(rng, n - round(_POSITIVE * n), round(_POSITIVE * n))
        for n in (_ROWS, _TEST_ROWS)
    )
    return train.take(rng.permutation(_ROWS)), test


def _part(case: Case) -> Case:
    """The case with the share of its training rows that is sampled."""
    share = _setting(case.set)[1]
    return replace(case, train=case.train.take(np.arange(round(share * case.train.y.size))))


def _traced(scores: Callable[[Case], Float]) -> Callable[[Case], Iterator[Point]]:
    """A method that gives its ROC curve too."""

    def points(case: Case) -> Iterator[Point]:
        found = scores(case)
        false, true, _ = roc_curve(sweep(ScoreTable.of(found, case.test.y)))
        curve = np.interp(_RATES, false, true).round(5).tolist()
        yield Point({"auc": percent(found, case.test.y), "roc": curve})

    return points


def _neyman_pearson(case: Case) -> Float:
    return MIXTURES[_setting(case.set)[0]].log_ratio(np.asarray(case.test.X))


def _pairs(case: Case) -> Float:
    """MBA on as many pairs of all rows as the other methods have rows."""
    pairs = round(_setting(case.set)[1] * case.train.y.size)
    return settled_scores(case.test.X, sampled(case.train, pairs, case.seed)["complete"].w)


def _ridge(case: Case) -> Float:
    return settled_scores(case.test.X, exact(_part(case).train, case.seed).w)


def _online(algorithm: Algorithm) -> Callable[[Case], Float]:
    return lambda case: algorithm.scores(_part(case))[0]


def _roc_picture(results: Results) -> Figure:
    with panels(len(results.sets)) as (figure, axes):
        for name, panel in zip(results.sets, axes, strict=True):
            for number, method in enumerate(results.methods):
                curves = [
                    each.values["roc"]
                    for each in results.records
                    if (each.set, each.method) == (name, method)
                ]
                line(panel, number, _RATES, np.mean(curves, axis=0), None, method, "")
            panel.set(title=name, xlabel="false positive rate")
        figure.supylabel("true positive rate", fontsize=9)
    return figure


_SAME = "MBA-l2, same rows"
TABLE2 = Experiment(
    paper=_NAME,
    what="Table II and Figure 1",
    title="Gaussian mixtures",
    about=(
        f"{_ROWS:,d} training rows with 10% positives in 100 features, {_TEST_ROWS:,d} test rows; "
        "the share of the rows on which methods train is in the name of the set. MBA-l2 is ridge "
        "on as many pairs, drawn from all rows; the same on all pairs of the rows that OLR and "
        "AdaAUC see is beside it. Penalties and steps are chosen by folds of the training rows."
    ),
    claim="MBA is significantly better than OLR and AdaAUC in all nine cells",
    verdict=superior(["MBA-l2"], ["OLR", "AdaAUC"], lambda win, tie, loss: tie == loss == 0),
    sets=dict.fromkeys(_TABLE2, _mixture),
    methods={
        "Neyman-Pearson": _traced(_neyman_pearson),
        "MBA-l2": _traced(_pairs),
        _SAME: _traced(_ridge),
        "OLR": _traced(_online(LOGISTIC)),
        "AdaAUC": _traced(_online(ADA_AUC)),
    },
    own=["MBA-l2"],
    measures={"auc": Measure("test AUC (%)", paper=_TABLE2)},
    repeats=50,
    row_scale=15,
    pictures={"roc": _roc_picture},
    tallies={"OLR": (9, 0, 0), "AdaAUC": (9, 0, 0)},
)

_PAIRS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
# By the paper's text: with so many pairs MBA ranks as with all, so many times faster; and the pairs
# of the classifier.
_ENOUGH, _SPEEDUP, _FEW = 5000, 50, 500
# Points of AUC that its picture would show.
_VISIBLE = 0.25
_BATCH, _FORMED = "all pairs", "all pairs, one by one"
_LOGISTIC, _MBA = "logistic regression", "MBA-l2"


def _balanced(request: Request) -> tuple[Batch, Batch]:
    """1,000 rows of each class to train on."""
    rng = np.random.default_rng(request.seed)
    train, test = (MIXTURES[3].sample(rng, n, n) for n in (1000, 50_000))
    return train, test


def _accuracy(train: Float, test: Float, case: Case) -> float:
    """Percent of test rows right, with the share of the positives in training as cut."""
    cut = np.quantile(train, 1 - case.train.y.mean())
    return 100 * float(np.mean((test > cut) == case.test.y))


def _point(ranker: Ranker, case: Case, x: float | None = None) -> Point:
    train, test = (settled_scores(rows.X, ranker.w) for rows in (case.train, case.test))
    values = {"auc": percent(test, case.test.y), "seconds": ranker.seconds}
    return Point(values | {"accuracy": _accuracy(train, test, case)}, x)


def _curve(case: Case) -> Iterator[Point]:
    for pairs in _PAIRS:
        yield _point(sampled(case.train, pairs, case.seed)["complete"], case, pairs)


def _all_pairs(case: Case) -> Iterator[Point]:
    yield _point(exact(case.train, case.seed), case)


def _formed(case: Case) -> Iterator[Point]:
    """Seconds to compute the moments from the difference of each pair, as the batch algorithm."""
    X, y = np.asarray(case.train.X), case.train.y
    start = time.perf_counter()
    total = np.zeros((X.shape[1],) * 2)
    for row in X[y]:
        difference = row - X[~y]
        total += difference.T @ difference
    yield Point({"seconds": time.perf_counter() - start})


def _best_possible(case: Case) -> Iterator[Point]:
    yield Point({"auc": percent(MIXTURES[3].log_ratio(np.asarray(case.test.X)), case.test.y)})


def _logistic_regression(case: Case) -> Iterator[Point]:
    model = LogisticRegressionCV(
        Cs=9, scoring="roc_auc", l1_ratios=(0.0,), use_legacy_attributes=False
    )
    fitted = model.fit(case.train.X, case.train.y)
    train, test = (fitted.decision_function(rows.X) for rows in (case.train, case.test))
    yield Point({"auc": percent(test, case.test.y), "accuracy": _accuracy(train, test, case)})


def _soon(results: Results) -> Verdict:
    (name,) = results.sets
    batch = results.mean(name, _BATCH, "auc")
    drawn = results.mean(name, _MBA, "auc", _ENOUGH)
    seconds = [
        np.median(results.values(name, method, "seconds", pairs))
        for method, pairs in ((_FORMED, None), (_MBA, _ENOUGH), (_BATCH, None))
    ]
    right = [results.mean(name, each, "accuracy") for each in (_BATCH, _LOGISTIC)]
    right.append(results.mean(name, _MBA, "accuracy", _FEW))
    holds = batch - drawn < _VISIBLE and seconds[0] > _SPEEDUP * seconds[1]
    return Verdict(
        bool(holds),
        f"with {_ENOUGH:,d} pairs the AUC is {batch - drawn:.2f} points below that of all pairs, "
        f"{seconds[0] / seconds[1]:.0f} times faster than pair by pair (all pairs by moments: "
        f"{seconds[0] / seconds[2]:.0f} times); accuracy {right[0]:.1f}% with all pairs, "
        f"{right[1]:.1f}% by logistic regression and {right[2]:.1f}% with {_FEW} pairs",
    )


FIGURE2 = Experiment(
    paper=_NAME,
    what="Figure 2",
    title="number of pairs",
    about=(
        "The mixture of three components, 1,000 training rows of each class. Ridge on S drawn "
        "pairs and on all of them, with penalties by 5 folds. Seconds are those of drawing, "
        "moments and solution; pair by pair, of the moments alone. Rows are classified by a cut at "
        "the share of positives in training. The paper shows curves without numbers."
    ),
    claim=(
        f"{_ENOUGH:,d} pairs rank as well as all, more than {_SPEEDUP} times faster than pair by "
        "pair"
    ),
    verdict=_soon,
    sets={"3 components": _balanced},
    methods={
        "Neyman-Pearson": _best_possible,
        _BATCH: _all_pairs,
        _FORMED: _formed,
        _LOGISTIC: _logistic_regression,
        _MBA: _curve,
    },
    measures={
        "auc": Measure("test AUC (%)"),
        "seconds": Measure("seconds to train", ".4f"),
        "accuracy": Measure("accuracy (%)"),
    },
    repeats=20,
    row_scale=50,
    x="pairs",
    log=True,
)

EXPERIMENTS = {"mba_table2": TABLE2, "mba_figure2": FIGURE2}
