"""AdaDSG, Figure 1: test AUC of AdaDSG and DSGD against iterations."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.datasets import present
from experiments.experiment import Experiment, Row, Settings
from experiments.online_tables import all_rows
from experiments.pictures import panels
from experiments.training import mean_and_error, percent
from spark_auc.app.report.pictures import NEGATIVE, POSITIVE
from spark_auc.core.batch import Batch
from spark_auc.errors import ConvergenceError
from spark_auc.learners.dsgd import DSGD
from spark_auc.learners.stages import adadsg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

SETS, TRIALS = ("a9a", "ijcnn1"), 25
GAMMAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
_TARGET = 0.5
# Measurements of DSGD per stage of AdaDSG.
_BETWEEN = 4
Curve = list[tuple[int, float]]


def run(settings: Settings) -> list[Row]:
    """One row per data set and stage of AdaDSG; the row of the last stage has the ratios."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in present(settings.data):
        if name not in SETS:
            continue
        rows_of_set = all_rows(settings.data, name)
        curves: list[tuple[Curve, Curve]] = []
        gammas: list[tuple[float, float]] = []
        for trial in range(min(settings.repeats, TRIALS)):
            rng = np.random.default_rng((settings.seed, zlib.crc32(name.encode()), trial))
            train, test = _split(rows_of_set, rng)
            seed = int(rng.integers(2**31))
            steps = _first_steps(*_split(train, rng), seed)
            gammas.append(steps)
            curves.append(_curves(train, test, steps, seed))
            _log.info("%s: trial %d, first steps of AdaDSG and DSGD: %s", name, trial + 1, steps)
        rows += _rows(name, curves, gammas)
    return rows


def _split(rows: Batch, rng: np.random.Generator) -> tuple[Batch, Batch]:
    """A random three quarters of the rows, and the remaining quarter."""
    order = rng.permutation(rows.y.size)
    return rows.take(order[order.size // 4 :]), rows.take(order[: order.size // 4])


def _first_steps(train: Batch, held_out: Batch, seed: int) -> tuple[float, float]:
    """The first step sizes of AdaDSG and DSGD with the best final AUC on held-out rows."""
    both = ((gamma, _curves(train, held_out, (gamma, gamma), seed)) for gamma in GAMMAS)
    ends = [(gamma, *(curve[-1][1] for curve in curves)) for gamma, curves in both]
    adaptive, plain = (max(ends, key=lambda end: end[k])[0] for k in (1, 2))
    return adaptive, plain


def _curves(
    train: Batch, test: Batch, gammas: tuple[float, float], seed: int
) -> tuple[Curve, Curve]:
    """AUC by number of iterations: of AdaDSG after each stage, and of DSGD at as many steps."""
    n, d = train.X.shape
    adaptive: Curve = []
    for stage in adadsg(train, DSGD(d, gammas[0], seed=seed)):
        adaptive.append((stage.steps, _auc(stage.learner, test)))
    learner, plain, rng = DSGD(d, gammas[1], seed=seed), [], np.random.default_rng(seed)
    # A block of n rows makes n steps; smaller blocks of random rows give intermediate AUCs.
    learner.stage(n)
    steps_done = 0
    for end, _ in adaptive:
        for step in np.linspace(steps_done, end, _BETWEEN + 1).astype(int)[1:]:
            block = train.take(rng.choice(n, step - steps_done, replace=False))
            learner.learn(block.X, block.y)
            steps_done = int(step)
            plain.append((steps_done, _auc(learner, test)))
    return adaptive, plain


def _auc(learner: DSGD, test: Batch) -> float:
    """Test AUC in percent; 50 after the learner has diverged."""
    try:
        return percent(learner.score(test.X), test.y)
    except ConvergenceError:
        return 50.0


def _rows(
    name: str, curves: Sequence[tuple[Curve, Curve]], gammas: Sequence[tuple[float, float]]
) -> list[Row]:
    ratios = np.array([_ratios(*both) for both in curves])
    rows: list[dict[str, object]] = []
    for stage in range(len(curves[0][0])):
        ends = [adaptive[stage] for adaptive, _ in curves]
        auc, error = mean_and_error([value for _, value in ends])
        dsgd = [plain[_BETWEEN * (stage + 1) - 1][1] for _, plain in curves]
        plain_auc, plain_error = mean_and_error(dsgd)
        row = {
            "set": name,
            "stage": stage + 1,
            "iterations": float(np.mean([steps for steps, _ in ends])),
            "adadsg": auc,
            "adadsgError": error,
            "dsgd": plain_auc,
            "dsgdError": plain_error,
        }
        rows.append(row | dict.fromkeys(("gammas", "ratio", "share", "trials")))
    ratio, share = (_number(value) for value in np.median(ratios, axis=0))
    middle = " / ".join(f"{gamma:g}" for gamma in np.median(gammas, axis=0))
    rows[-1] |= {"gammas": middle, "ratio": ratio, "share": share, "trials": len(curves)}
    return list(rows)


def _ratios(adaptive: Curve, plain: Curve) -> tuple[float, float]:
    """AdaDSG's iterations to reach DSGD's last AUC, over DSGD's first to reach it and over all."""
    end, auc = plain[-1]
    adaptive_steps, plain_steps = (
        next((steps for steps, value in curve if value >= auc), np.inf)
        for curve in (adaptive, plain)
    )
    return adaptive_steps / plain_steps, adaptive_steps / end


def _number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _finding(rows: Sequence[Row]) -> str:
    parts = []
    for row in rows:
        if not row["trials"]:
            continue
        if row["ratio"] is None:
            parts.append(f"on {row['set']} AdaDSG does not reach DSGD's last AUC")
            continue
        parts.append(
            f"on {row['set']} AdaDSG reaches DSGD's last AUC with {row['share']:.3f} of DSGD's "
            f"iterations, and with {row['ratio']:.2f} of those with which DSGD first reaches it "
            f"({'at most' if row['ratio'] <= _TARGET else 'above'} half)"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _picture(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            of_set = [row for row in rows if row["set"] == name]
            for key, label, form, colour in (
                ("adadsg", "AdaDSG", "o-", NEGATIVE),
                ("dsgd", "DSGD", "s:", POSITIVE),
            ):
                panel.errorbar(
                    [row["iterations"] for row in of_set],
                    [row[key] for row in of_set],
                    [row[f"{key}Error"] or 0.0 for row in of_set],
                    fmt=form,
                    markersize=3,
                    capsize=2,
                    color=colour,
                    label=label,
                )
            panel.set(title=name, xscale="log", xlabel="iterations")
        axes[0].set_ylabel("test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="AdaDSG, Figure 1: AUC against iterations",
    about=(
        "A random three quarters of the rows are training rows, the others are test rows. AUC is "
        f"the mean over trials (as many as repeats, at most {TRIALS}) with its standard error. 20 "
        "stages starting with 256 rows, penalty 1 / sqrt(rows). The first step of each algorithm, "
        "from 1 to 10^-4 in powers of ten, has the best final AUC on a held-out quarter of the "
        "training rows. DSGD draws from all training rows, with as many iterations. The paper "
        "shows curves (Covtype, Ijcnn1, Mnist, Rcv1) without numbers; the target is half of "
        "DSGD's iterations. Ratio: AdaDSG's iterations to reach DSGD's last AUC over those with "
        "which DSGD first reaches it, measured four times per stage. Share: the same over all "
        "iterations. Both are medians over the trials."
    ),
    run=run,
    columns={
        "set": ("data", ""),
        "stage": ("stage", "d"),
        "iterations": ("iterations", ",.0f"),
        "adadsg": ("AdaDSG's AUC", ".2f"),
        "adadsgError": ("error", ".2f"),
        "dsgd": ("DSGD's", ".2f"),
        "dsgdError": ("error", ".2f"),
        "ratio": ("ratio", ".2f"),
        "share": ("share", ".3f"),
        "gammas": ("first steps", ""),
        "trials": ("trials", "d"),
    },
    finding=_finding,
    picture=_picture,
    files=SETS,
)
