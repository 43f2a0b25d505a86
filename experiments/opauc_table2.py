"""OPAUC, Table 2: one-pass learners on benchmark data."""

from __future__ import annotations

from experiments.comparators.oam import OAM
from experiments.comparators.uniexp import UniExp
from experiments.one_pass import Algorithm, powers
from experiments.online_tables import experiment
from experiments.paper import OPAUC_TABLE2
from spark_auc.learners.opauc import OPAUC

_BUFFER = 100
_STEPS = powers(-12, 10)

ALGORITHMS = {
    "OPAUC": Algorithm(
        lambda rows, _, setting: OPAUC(rows.X.shape[1], **setting),
        {"eta": _STEPS, "lambda2": powers(-10, 2)},
        lambda _, features: features**2,
    ),
    "OAMseq": Algorithm(
        lambda rows, seed, setting: OAM(rows.X.shape[1], buffer=_BUFFER, seed=seed, **setting),
        {"penalty": _STEPS},
        lambda entries, _: 2 * _BUFFER * entries,
    ),
    "OAMgra": Algorithm(
        lambda rows, seed, setting: OAM(
            rows.X.shape[1], buffer=_BUFFER, sequential=False, seed=seed, **setting
        ),
        {"penalty": _STEPS},
        lambda entries, _: 2 * _BUFFER * entries,
    ),
    "Uni-Exp": Algorithm(
        lambda rows, _, setting: UniExp(rows.X.shape[1], **setting),
        {"eta": _STEPS},
        lambda entries, _: 5 * entries,
    ),
}

EXPERIMENT = experiment(
    title="OPAUC, Table 2: benchmark data in one pass",
    about=(
        "Steps and OAM's penalty from 2^-12 to 2^10, OPAUC's penalty from 2^-10 to 2^2, buffers "
        f"of {_BUFFER} rows of each class."
    ),
    paper=OPAUC_TABLE2,
    algorithms=ALGORITHMS,
)
