"""MBA: Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization".

The figures are the paper's, AUC in percent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from experiments.experiment import Case, Experiment, Measure, Point, Request, Results, superior
from experiments.mixtures import MIXTURES
from experiments.one_pass import ADA_AUC, LOGISTIC, Algorithm
from experiments.page import line, panels
from experiments.training import exact, percent, sampled
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
# Table II: by components and share of the rows.
_TABLE2 = {
    (1, 0.01): (92.13, (87.43, 0.69), (86.79, 0.99), (80.94, 2.77)),
    (1, 0.1): (92.13, (91.44, 0.10), (90.54, 0.29), (90.25, 0.31)),
    (1, 1.0): (92.13, (91.88, 0.04), (90.69, 0.24), (91.70, 0.07)),
    (2, 0.01): (83.71, (80.15, 0.68), (77.64, 1.41), (69.75, 3.24)),
    (2, 0.1): (83.71, (83.15, 0.10), (80.19, 0.69), (80.12, 0.69)),
    (2, 1.0): (83.71, (83.47, 0.04), (80.19, 0.69), (83.01, 0.11)),
    (3, 0.01): (80.22, (76.39, 0.47), (73.07, 1.06), (66.38, 1.95)),
    (3, 0.1): (80.22, (79.52, 0.11), (75.94, 0.64), (76.72, 0.33)),
    (3, 1.0): (80.22, (79.93, 0.11), (75.91, 0.83), (79.61, 0.06)),
}


def _mixture_name(components: int, share: float) -> str:
    return f"{components} component{'s' * (components > 1)}, {share:.0%}"


_MIXTURES = {_mixture_name(*key): key for key in _TABLE2}


def _mixture(request: Request) -> tuple[Batch, Batch]:
    """Rows of a mixture; the training rows are in random order."""
    components, _ = _MIXTURES[request.set]
    rng = np.random.default_rng(request.seed)
    train, test = (
        MIXTURES[components].sample(rng, n - round(_POSITIVE * n), round(_POSITIVE * n))
        for n in (_ROWS, _TEST_ROWS)
    )
    return train.take(rng.permutation(_ROWS)), test


def _part(case: Case) -> Case:
    """The case with the share of its training rows that is sampled."""
    share = _MIXTURES[case.set][1]
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
    return MIXTURES[_MIXTURES[case.set][0]].log_ratio(np.asarray(case.test.X))


def _pairs(case: Case) -> Float:
    """MBA on as many pairs of all rows as the other methods have rows."""
    pairs = round(_MIXTURES[case.set][1] * case.train.y.size)
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
_TABLE2_METHODS = ("Neyman-Pearson", "MBA-l2", "OLR", "AdaAUC")
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
    verdict=superior(["MBA-l2"], ["OLR", "AdaAUC"]),
    sets=dict.fromkeys(_MIXTURES, _mixture),
    methods={
        "Neyman-Pearson": _traced(_neyman_pearson),
        "MBA-l2": _traced(_pairs),
        _SAME: _traced(_ridge),
        "OLR": _traced(_online(LOGISTIC)),
        "AdaAUC": _traced(_online(ADA_AUC)),
    },
    own=["MBA-l2"],
    measures={
        "auc": Measure(
            "test AUC (%)",
            paper={
                _mixture_name(*key): dict(
                    zip(_TABLE2_METHODS, ((best, None), *others), strict=True)
                )
                for key, (best, *others) in _TABLE2.items()
            },
        )
    },
    repeats=50,
    row_scale=15,
    pictures={"roc": _roc_picture},
    tallies={"OLR": (9, 0, 0), "AdaAUC": (9, 0, 0)},
)

EXPERIMENTS = {"mba_table2": TABLE2}
