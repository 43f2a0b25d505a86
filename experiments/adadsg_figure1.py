"""AdaDSG, Figure 1: test AUC against iterations, with DSGD's."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.datasets import present
from experiments.experiment import Experiment, Row, Settings
from experiments.online_tables import whole
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
# Between two ends of AdaDSG's stages DSGD is measured so often.
_BETWEEN = 4
Curve = list[tuple[int, float]]


def run(settings: Settings) -> list[Row]:
    """One row per data set and stage of AdaDSG; the last stage's has the ratios."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in present(settings.data):
        if name not in SETS:
            continue
        everything = whole(settings.data, name)
        curves: list[tuple[Curve, Curve]] = []
        gammas: list[tuple[float, float]] = []
        for trial in range(min(settings.repeats, TRIALS)):
            rng = np.random.default_rng((settings.seed, zlib.crc32(name.encode()), trial))
            train, test = _parted(everything, rng)
            seed = int(rng.integers(2**31))
            chosen = _chosen(*_parted(train, rng), seed)
            gammas.append(chosen)
            curves.append(_curves(train, test, chosen, seed))
            _log.info("%s: trial %d, gamma %s", name, trial + 1, chosen)
        rows += _rows(name, curves, gammas)
    return rows


def _parted(rows: Batch, rng: np.random.Generator) -> tuple[Batch, Batch]:
    """Three quarters of the rows, and the others."""
    order = rng.permutation(rows.y.size)
    return rows.take(order[order.size // 4 :]), rows.take(order[: order.size // 4])


def _chosen(train: Batch, held_out: Batch, seed: int) -> tuple[float, float]:
    """The first steps with which each algorithm ends at the best AUC of training rows held out."""
    both = ((gamma, _curves(train, held_out, (gamma, gamma), seed)) for gamma in GAMMAS)
    ends = [(gamma, *(curve[-1][1] for curve in curves)) for gamma, curves in both]
    adaptive, plain = (max(ends, key=lambda end: end[k])[0] for k in (1, 2))
    return adaptive, plain


def _curves(
    train: Batch, test: Batch, gammas: tuple[float, float], seed: int
) -> tuple[Curve, Curve]:
    """AUC at numbers of iterations, of AdaDSG after each stage and of DSGD in as many steps."""
    n, d = train.X.shape
    adaptive: Curve = []
    for stage in adadsg(train, DSGD(d, gammas[0], seed=seed)):
        adaptive.append((stage.steps, _auc(stage.learner, test)))
    learner, plain, rng = DSGD(d, gammas[1], seed=seed), [], np.random.default_rng(seed)
    # A block of n rows makes n steps: smaller ones of rows drawn from all show what is between.
    learner.stage(n)
    done = 0
    for end, _ in adaptive:
        for step in np.linspace(done, end, _BETWEEN + 1).astype(int)[1:]:
            block = train.take(rng.choice(n, step - done, replace=False))
            learner.learn(block.X, block.y)
            done = int(step)
            plain.append((done, _auc(learner, test)))
    return adaptive, plain


def _auc(learner: DSGD, test: Batch) -> float:
    """Test AUC in percent; that of chance once the learner has diverged."""
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
        own = [plain[_BETWEEN * (stage + 1) - 1][1] for _, plain in curves]
        plain_auc, plain_error = mean_and_error(own)
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
    """AdaDSG's iterations to DSGD's last AUC, to those with which DSGD first has it and to all."""
    end, auc = plain[-1]
    mine, theirs = (
        next((steps for steps, value in curve if value >= auc), np.inf)
        for curve in (adaptive, plain)
    )
    return mine / theirs, mine / end


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
            f"on {row['set']} AdaDSG reaches DSGD's last AUC with {row['share']:.3f} of all its "
            f"iterations, {row['ratio']:.2f} of those with which DSGD first has it "
            f"({'at most' if row['ratio'] <= _TARGET else 'above'} half)"
        )
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _picture(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, each in zip(names, axes, strict=True):
            mine = [row for row in rows if row["set"] == name]
            for key, label, form, colour in (
                ("adadsg", "AdaDSG", "o-", NEGATIVE),
                ("dsgd", "DSGD", "s:", POSITIVE),
            ):
                each.errorbar(
                    [row["iterations"] for row in mine],
                    [row[key] for row in mine],
                    [row[f"{key}Error"] or 0.0 for row in mine],
                    fmt=form,
                    markersize=3,
                    capsize=2,
                    color=colour,
                    label=label,
                )
            each.set(title=name, xscale="log", xlabel="iterations")
        axes[0].set_ylabel("test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="AdaDSG, Figure 1: AUC against iterations",
    about=(
        "A random three quarters of the rows train, the others test; AUC is the mean over trials, "
        f"as many as repeats and {TRIALS} at most, with its standard error. 20 stages from 256 "
        "rows on, penalty 1 / sqrt(rows). The first step of each algorithm, of 1 to 10^-4 in "
        "powers of ten, has the best last AUC on a quarter of the training rows, trained on the "
        "others. DSGD draws from all training rows, in as many iterations. The paper has curves "
        "(Covtype, Ijcnn1, Mnist, Rcv1) and prints no figures; asked for is half of DSGD's "
        "iterations. Ratio, share: AdaDSG's iterations to DSGD's last AUC over those with which "
        "DSGD first has it, measured four times a stage, and over all; medians of the trials."
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
