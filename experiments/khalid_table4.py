"""Khalid et al., Table 4: online learners on the Nystroem map."""

from __future__ import annotations

import itertools
import logging
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from experiments.comparators.oam import OAM
from experiments.datasets import shares
from experiments.experiment import Request
from experiments.khalid_table2 import NAMES, NOTES, REPEATS
from experiments.nonlinear import LANDMARKS, nystroem, parts, standardised
from experiments.one_pass import Algorithm, Setting
from experiments.paper import KHALID_TABLE4
from experiments.pictures import beside
from experiments.superseded import Experiment, Row, Settings
from experiments.training import mean_and_error, percent
from spark_auc.core.batch import Batch
from spark_auc.errors import ConvergenceError
from spark_auc.learners.learner import Learner
from spark_auc.learners.nsauc import NSAUC
from spark_auc.learners.solam import SOLAM

_log = logging.getLogger(__name__)

EPOCHS, BUFFER = 15, 100
# Largest number of training rows in the search of settings.
_SEARCH_ROWS = 10_000
_CHUNK = 1000


def nsauc(averaging: bool) -> Algorithm:
    """NSAUC, or NSVMSGD2 without averaging, with the paper's penalties and our first steps."""
    return Algorithm(
        lambda rows, seed, setting: NSAUC(
            rows.X.shape[1], averaging=averaging, seed=seed, **setting
        ),
        {"gamma": [0.1, 1.0, 10.0, 100.0], "lambda2": [10.0**k for k in range(-10, -6)]},
        lambda entries, _: 4 * entries,
        EPOCHS,
    )


def _longest(rows: Batch) -> float:
    return float(np.linalg.norm(rows.X, axis=1).max())


ALGORITHMS = {
    "NSAUC": nsauc(True),
    "NSOLAM": Algorithm(
        lambda rows, _, setting: SOLAM(rows.X.shape[1], kappa=_longest(rows), **setting),
        {
            "zeta": [1.0, 10.0, 19.0, 55.0],
            "radius": [10.0**k for k in range(5, -2, -1)],
        },
        lambda entries, _: 5 * entries,
        EPOCHS,
    ),
    "NOAM": Algorithm(
        lambda rows, seed, setting: OAM(rows.X.shape[1], buffer=BUFFER, seed=seed, **setting),
        {"penalty": [2.0**k for k in range(-10, 3, 4)]},
        lambda entries, _: 2 * BUFFER * entries,
    ),
}


def mapped(
    settings: Settings, only: Sequence[str] = NAMES
) -> Iterator[tuple[str, int, Batch, Batch]]:
    """Name, seed, mapped training rows in random order and mapped test rows, per set and repeat."""
    assert settings.data is not None
    for name in (name for name in only if name in settings.data.names()):
        for seed in range(settings.seed, settings.seed + min(settings.repeats, REPEATS)):
            train, test = standardised(
                *shares(0.2)(Request(Path(settings.data.path), name, 0, seed))
            )
            train = train.take(np.random.default_rng(seed).permutation(train.y.size))
            embedding = nystroem(train.X, seed)
            train, test = (rows._replace(X=embedding.transform(rows.X)) for rows in (train, test))
            yield name, seed, train, test


def learn_epoch(learner: Learner, rows: Batch) -> None:
    """Learn one epoch: random pairs of all rows for NSAUC, the rows in sequence for the others."""
    if isinstance(learner, NSAUC):
        learner.learn(rows.X, rows.y)
        return
    for start in range(0, rows.y.size, _CHUNK):
        block = slice(start, start + _CHUNK)
        learner.learn(rows.X[block], rows.y[block])


def best_setting(algorithm: Algorithm, rows: Batch, seed: int) -> Setting:
    """The setting with the best AUC on a held-out third of the rows."""
    fitting, held_out = parts(rows, seed)
    fitting = fitting.take(np.arange(min(fitting.y.size, _SEARCH_ROWS)))

    def auc(setting: Setting) -> float:
        learner = algorithm.make(fitting, seed, setting)
        try:
            for _ in range(algorithm.passes):
                learn_epoch(learner, fitting)
            return percent(learner.score(held_out.X), held_out.y)
        except ConvergenceError:
            return -np.inf

    products = itertools.product(*algorithm.grid.values())
    return max((dict(zip(algorithm.grid, values, strict=True)) for values in products), key=auc)


def text(setting: Mapping[str, float]) -> str:
    """A setting as text, for the page."""
    return ", ".join(f"{name} {value:g}" for name, value in setting.items())


def run(settings: Settings) -> list[Row]:
    """One row per available data set and algorithm."""
    results = defaultdict(list)
    for name, seed, train, test in mapped(settings):
        for label, algorithm in ALGORITHMS.items():
            setting = best_setting(algorithm, train, seed)
            learner = algorithm.make(train, seed, setting)
            start = time.perf_counter()
            for _ in range(algorithm.passes):
                learn_epoch(learner, train)
            seconds = time.perf_counter() - start
            auc = percent(learner.score(test.X), test.y)
            results[name, label].append((auc, seconds, text(setting)))
            _log.info(
                "%s, %s: AUC %.2f after %.1f s with %s", name, label, *results[name, label][-1]
            )
    return [_row(*key, runs) for key, runs in results.items()]


def _row(name: str, label: str, runs: Sequence[tuple[float, float, str]]) -> Row:
    auc, error = mean_and_error([auc for auc, _, _ in runs])
    paper, paper_seconds = KHALID_TABLE4.get(name, {}).get(label, (None, None))
    return {
        "set": name,
        "method": label,
        "auc": auc,
        "error": error,
        "paper": paper,
        "difference": None if paper is None else auc - paper,
        "seconds": float(np.mean([seconds for _, seconds, _ in runs])),
        "paperSeconds": paper_seconds,
        "setting": runs[0][2],
        "runs": len(runs),
        "note": NOTES.get(name, ""),
    }


def _finding(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = [row for row in rows if row["set"] == name]
        aucs = ", ".join(
            f"{row['method']} {row['auc']:.2f}"
            + (f" (paper {row['paper']:.2f})" if row["paper"] else "")
            for row in of_set
        )
        parts.append(f"{name}: {aucs}")
    return f"{'; '.join(parts)}."


EXPERIMENT = Experiment(
    title="Khalid, Table 4: online learners on the Nystroem map",
    about=(
        f"{LANDMARKS:,d} landmarks by k-means. {EPOCHS} epochs of NSOLAM, as in the paper, and of "
        f"NSAUC; one epoch of NOAM, with buffers of {BUFFER} rows of each class. Settings are "
        "chosen on a held-out third of the training rows, after as many epochs on at most "
        f"{_SEARCH_ROWS:,d} of the other rows. NSAUC: penalties 10^-10 to 10^-7, first steps 0.1 "
        "to 100 (the paper prints no steps). NSOLAM: first steps 1, 10, 19, 55, radii 10^-1 to "
        "10^5. NOAM: penalties 2^-10, 2^-6, 2^-2, 2^2. Each repeat, at most "
        f"{REPEATS}, has another split and other landmarks. Setting: that of the first repeat. "
        "Seconds: learner alone, as in the paper, whose seconds were measured on another computer "
        "and, for ijcnn1, with twice the rows. The paper has no results on magic04 and usps."
    ),
    run=run,
    columns={
        "set": ("data", ""),
        "method": ("method", ""),
        "auc": ("AUC", ".2f"),
        "error": ("error", ".2f"),
        "paper": ("paper's", ".2f"),
        "difference": ("difference", "+.2f"),
        "seconds": ("seconds", ".2f"),
        "paperSeconds": ("paper's", ".2f"),
        "setting": ("setting", ""),
        "runs": ("runs", "d"),
        "note": ("differs in", ""),
    },
    finding=_finding,
    picture=lambda rows: beside(rows, "method"),
    files=NAMES,
)
