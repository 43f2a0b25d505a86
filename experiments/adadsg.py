"""AdaDSG: Gu, Huo, Huang, "Scalable and Efficient Pairwise Learning .." (AAAI 2019)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from experiments.comparators.olp import OLP
from experiments.datasets import mixed
from experiments.experiment import Case, Experiment, Measure, Point, Results, Verdict
from experiments.one_pass import OPAUC_FULL, Algorithm, measured, powers, scalings
from experiments.opauc import low_rank
from experiments.solam import ONCE, curve, narrow, sooner
from spark_auc.core.batch import Batch
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.stages import adadsg

_NAME = "AdaDSG"
GAMMAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_STAGES, _FIRST = 20, 256


def _adaptive(rows: Batch, gamma: float, seed: int) -> Iterator[tuple[DSGD, int]]:
    """The learner and the steps so far, after each stage on a doubled sample."""
    for stage in adadsg(rows, DSGD(rows.X.shape[1], gamma, seed=seed), _FIRST, _STAGES):
        yield stage.learner, stage.steps


def _plain(rows: Batch, gamma: float, seed: int) -> Iterator[tuple[DSGD, int]]:
    """The same of steps on pairs of all rows, after about as many steps."""
    n = rows.y.size
    learner, rng = DSGD(rows.X.shape[1], gamma, seed=seed), np.random.default_rng(seed)
    learner.stage(n)
    steps = 0
    for stage in range(_STAGES):
        # A block of n rows makes n steps; fewer random rows make as many steps as rows.
        count = min(_FIRST * 2**stage, n)
        block = rows.take(rng.choice(n, count, replace=False))
        learner.learn(block.X, block.y)
        steps += count
        yield learner, steps


Stages = Callable[[Batch, float, int], Iterator[tuple[DSGD, int]]]


def _staged(stages: Stages) -> Callable[[Case], Iterator[Point]]:
    """The AUC after each stage, with the first step that is best on a held-out quarter."""

    def points(case: Case) -> Iterator[Point]:
        train, test = scalings(case.train, case.test)[0]
        held_out = np.arange(train.y.size) % 4 == 0
        fitting, validation = (train.take(np.flatnonzero(side)) for side in (~held_out, held_out))

        def last(gamma: float) -> float:
            *_, (learner, _) = stages(fitting, gamma, case.seed)
            return measured(learner, validation)["auc"]

        gamma, seconds = max(GAMMAS, key=last), 0.0
        start = time.perf_counter()
        for stage, (learner, steps) in enumerate(stages(train, gamma, case.seed)):
            seconds += time.perf_counter() - start
            values = measured(learner, test) | {"seconds": seconds, "iterations": steps}
            yield Point(values, stage + 1)
            start = time.perf_counter()

    return points


def _fewer(results: Results) -> Verdict:
    """The iterations after which AdaDSG has DSGD's last AUC, relative to DSGD's first ones."""
    parts, holds = [], True
    for name in results.sets:
        goal = results.last(name, "DSGD", "auc")
        first = {
            method: next(
                (
                    results.mean(name, method, "iterations", x)
                    for x in results.points(name, method)
                    if results.mean(name, method, "auc", x) >= goal
                ),
                np.inf,
            )
            for method in results.methods
        }
        ratio = first["AdaDSG"] / first["DSGD"]
        holds &= ratio < 1
        reached = f"with {ratio:.2f} of DSGD's iterations" if ratio < np.inf else "never"
        parts.append(f"{name} {reached}")
    return Verdict(holds, f"AdaDSG first reaches DSGD's last AUC on {'; '.join(parts)}")


_ABOUT = (
    "A random quarter of the rows are test rows. "
    f"{_STAGES} stages that begin with {_FIRST} rows, penalty 1 / sqrt(rows); the first step, from "
    "1 to 10^-4 in powers of ten, is the best on a held-out quarter of the training rows. Columns "
    "are scaled to [-1, 1]. The paper shows curves without numbers."
)
FIGURE1 = Experiment(
    paper=_NAME,
    what="Figure 1",
    title="AUC against iterations",
    about=f"{_ABOUT} DSGD draws from all training rows.",
    claim="AdaDSG reaches a good AUC with fewer iterations than DSGD",
    verdict=_fewer,
    sets=dict.fromkeys(("covtype, groups", "ijcnn1", "mnist, groups", "rcv1"), mixed(0.25)),
    methods={"AdaDSG": _staged(_adaptive), "DSGD": _staged(_plain)},
    measures={"auc": Measure("test AUC (%)"), "iterations": Measure("iterations", ",.0f")},
    repeats=25,
    x="stage",
    against="iterations",
    log=True,
)

_BUFFER, _RANK = 500, 100
_OLP = Algorithm(
    lambda rows, seed, setting: OLP(rows.X.shape[1], buffer=_BUFFER, seed=seed, **setting),
    {"eta": powers(-6, 4), "radius": [1.0, 10.0, 100.0]},
    lambda entries, features: 2 * _BUFFER * entries + features,
)
# The paper fixes the penalty at 1.
_OPAUC, _OPAUCR = (
    replace(each, grid={**each.grid, "lambda2": [1.0]}) for each in (OPAUC_FULL, low_rank(_RANK))
)
FIGURE2 = Experiment(
    paper=_NAME,
    what="Figure 2",
    title="AUC against seconds",
    about=(
        f"{_ABOUT} OLP has a buffer of {_BUFFER} rows; OPAUC a penalty of 1, as in the paper, and "
        f"on sets of 10,000 features and more rank {_RANK}. Settings of these and of SOLAM are "
        "chosen on held-out training rows. The paper's programs are MATLAB and C; all of ours are "
        "compiled loops."
    ),
    claim="AdaDSG reaches a good AUC in less time than OLP, OPAUC and SOLAM",
    verdict=sooner("AdaDSG"),
    sets=dict.fromkeys(
        (
            *("a9a", "covtype, groups", "ijcnn1", "phishing", "usps.binary", "mnist, groups"),
            *("rcv1", "real-sim"),
        ),
        mixed(0.25),
    ),
    methods={
        "AdaDSG": _staged(_adaptive),
        "OLP": curve(_OLP),
        "OPAUC": narrow(curve(_OPAUC), curve(_OPAUCR)),
        "SOLAM": curve(ONCE),
    },
    measures={"auc": Measure("test AUC (%)"), "seconds": Measure("seconds", ".4f")},
    repeats=25,
    x="stage or passes",
    against="seconds",
    log=True,
)

EXPERIMENTS = {"adadsg_figure1": FIGURE1, "adadsg_figure2": FIGURE2}
