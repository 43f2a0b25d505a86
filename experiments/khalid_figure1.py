"""Khalid et al., Figure 1: test AUC against epochs."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.khalid_table2 import MAGIC
from experiments.khalid_table4 import ALGORITHMS, best_setting, learn_epoch, mapped, nsauc, text
from experiments.nonlinear import LANDMARKS
from experiments.pictures import panels
from experiments.superseded import Experiment, Row, Settings
from experiments.training import mean_and_error, percent
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

NAMES = ("ijcnn1", MAGIC)
EPOCHS = (1, 2, 3, 4, 5, 10, 20, 50, 100)
_LEARNERS = {
    "NSAUC": (ALGORITHMS["NSAUC"], "o-", NEGATIVE),
    "NSVMSGD2": (nsauc(False), "s:", POSITIVE),
    "NSOLAM": (ALGORITHMS["NSOLAM"], "^--", GUIDE),
}


def run(settings: Settings) -> list[Row]:
    """One row per data set, learner and number of epochs."""
    results: dict[tuple[str, str, int], list[tuple[float, float, str]]] = defaultdict(list)
    for name, seed, train, test in mapped(settings, NAMES):
        for label, (algorithm, _, _) in _LEARNERS.items():
            setting = best_setting(algorithm, train, seed)
            learner, seconds = algorithm.make(train, seed, setting), 0.0
            for epoch in range(1, EPOCHS[-1] + 1):
                start = time.perf_counter()
                learn_epoch(learner, train)
                seconds += time.perf_counter() - start
                if epoch in EPOCHS:
                    auc = percent(learner.score(test.X), test.y)
                    results[name, label, epoch].append((auc, seconds, text(setting)))
            _log.info("%s, %s: final AUC %.2f with %s", name, label, auc, text(setting))
    return [_row(*key, runs) for key, runs in results.items()]


def _row(name: str, label: str, epoch: int, runs: Sequence[tuple[float, float, str]]) -> Row:
    auc, error = mean_and_error([auc for auc, _, _ in runs])
    return {
        "set": name,
        "method": label,
        "epochs": epoch,
        "auc": auc,
        "error": error,
        "seconds": float(np.mean([seconds for _, seconds, _ in runs])),
        "setting": runs[0][2],
        "runs": len(runs),
    }


def _finding(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        texts = []
        for label in _LEARNERS:
            aucs = [r["auc"] for r in rows if (r["set"], r["method"]) == (name, label)]
            texts.append(f"{label} {aucs[0]:.2f} to {aucs[-1]:.2f}")
        parts.append(f"{name}: {', '.join(texts)}")
    return (
        f"From 1 to {EPOCHS[-1]} epochs, {'; '.join(parts)} (paper: NSAUC constant and "
        "highest, NSVMSGD2 below it on ijcnn1, NSOLAM little better than after one epoch)."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            for label, (_, form, colour) in _LEARNERS.items():
                of_learner = [r for r in rows if (r["set"], r["method"]) == (name, label)]
                panel.errorbar(
                    [row["epochs"] for row in of_learner],
                    [row["auc"] for row in of_learner],
                    [row["error"] or 0.0 for row in of_learner],
                    fmt=form,
                    markersize=3,
                    capsize=2,
                    color=colour,
                    label=label,
                )
            panel.set(title=name, xscale="log", xlabel="epochs")
        axes[0].set_ylabel("test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="Khalid, Figure 1: AUC against epochs",
    about=(
        f"{LANDMARKS:,d} landmarks and settings as in Table 4, one run of {EPOCHS[-1]} epochs "
        "(paper: 400). An epoch has as many pairs or rows as there are training rows. The paper "
        "shows curves without numbers, and none of magic04."
    ),
    run=run,
    columns={
        "set": ("data", ""),
        "method": ("method", ""),
        "epochs": ("epochs", "d"),
        "auc": ("AUC", ".2f"),
        "error": ("error", ".2f"),
        "seconds": ("seconds", ".2f"),
        "setting": ("setting", ""),
        "runs": ("runs", "d"),
    },
    finding=_finding,
    picture=_picture,
    files=NAMES,
)
