"""SOLAM, Table 3: a linear-time learner on benchmark data."""

from __future__ import annotations

from dataclasses import replace

from experiments import opauc_table2
from experiments.one_pass import Algorithm, Setting, lengths
from experiments.online_tables import experiment
from experiments.paper import OPAUC_TABLE2, SOLAM_TABLE3
from spark_auc.core.batch import Batch
from spark_auc.learners.solam import SOLAM

_PASSES = 10


def _solam(rows: Batch, _: int, setting: Setting) -> SOLAM:
    return SOLAM(rows.X.shape[1], kappa=float(lengths(rows).max()), **setting)


_ONCE = Algorithm(
    _solam,
    {
        "zeta": [float(zeta) for zeta in range(1, 101, 9)],
        "radius": [10.0**k for k in range(5, -2, -1)],
        "unit": (0, 1),
    },
    lambda entries, _: 5 * entries,
)
# Every other value: ten passes with the full grid take longer than all other algorithms together.
_COARSE = {name: _ONCE.grid[name][:: 1 if name == "unit" else 2] for name in _ONCE.grid}
_SEVERAL = f"SOLAM, {_PASSES} passes"
_OTHERS = ("OPAUC", "OAMseq", "OAMgra")

ALGORITHMS = {
    "SOLAM": _ONCE,
    _SEVERAL: replace(_ONCE, passes=_PASSES, grid=_COARSE),
    **{name: opauc_table2.ALGORITHMS[name] for name in _OTHERS},
}

EXPERIMENT = experiment(
    title="SOLAM, Table 3: benchmark data in linear time",
    about=(
        "First steps 1, 10, 19, .. 100 and radii 10^-1 to 10^5. The paper normalises features "
        "without saying how: the held-out training rows choose between rows of unit length and "
        "columns in [-1, 1]. The paper does not print the number of passes: SOLAM is shown after "
        f"one pass and after {_PASSES}, the latter with every other value of the grid. The paper "
        "repeats the other algorithms' results from OPAUC's."
    ),
    paper={
        name: {"SOLAM": own, _SEVERAL: own} | OPAUC_TABLE2[name]
        for name, own in SOLAM_TABLE3.items()
    },
    algorithms=ALGORITHMS,
)
