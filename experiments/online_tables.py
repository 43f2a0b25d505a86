"""Tables of the papers on online learning: one pass over the training part of each fold."""

from __future__ import annotations

import logging
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.datasets import load, present
from experiments.experiment import Experiment, Row, Settings
from experiments.one_pass import FOLDS, Algorithm, tested
from experiments.pictures import panels
from spark_auc.app.directory import Directory
from spark_auc.app.report.pictures import GUIDE, NEGATIVE
from spark_auc.core.batch import Batch, stacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)


TRIALS = 5
# Operations of a pass above which there is one trial.
_LONG = 2e9
_TRAINING_FILE_ALONE = {"a9a"}
_PROTOCOL = (
    f"Test AUC in percent over trials of {FOLDS}-fold cross-validation, as many as repeats and "
    f"{TRIALS} at most, one where a pass is long; one pass over the training rows in random order. "
    "Columns that exceed [-1, 1] are divided by their largest value in the training rows. "
    "Settings are chosen in each fold by held-out training rows: by 5 folds of them, or, where "
    "that takes long, by one of these, or by one and every other value of one setting after "
    "another. Deviation: over the runs. Within: not below the paper's AUC less its deviation."
)
_NOTES = {
    "ijcnn1": "49,990 of the paper's 141,691 rows, columns 1-10 rebuilt",
    "splice_scale": "test rows rebuilt from UCI",
    "usps.binary": "digits 5-9 against 0-4; the paper's grouping is another",
    "w1a": "with its test rows: the paper's w8a",
}


def table(
    settings: Settings,
    paper: Mapping[str, Mapping[str, tuple[float, float]]],
    algorithms: Mapping[str, Algorithm],
) -> list[Row]:
    """One row per data set that is there and in the paper, and algorithm."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in present(settings.data):
        if name not in paper:
            continue
        everything = whole(settings.data, name)
        n, d = everything.X.shape
        dear = any(n * each.work(d, d) > _LONG for each in algorithms.values())
        found = defaultdict(list)
        for trial in range(1 if dear else min(settings.repeats, TRIALS)):
            rng = np.random.default_rng((settings.seed, zlib.crc32(name.encode()), trial))
            for train, test in folds(everything, rng):
                seed = int(rng.integers(2**31))
                for label, algorithm in algorithms.items():
                    found[label].append(tested(train, test, algorithm, seed))
        for label, aucs in found.items():
            theirs, deviation = paper[name][label]
            auc = float(np.mean(aucs))
            row = {
                "set": name,
                "algorithm": label,
                "rows": n,
                "features": d,
                "runs": len(aucs),
                "auc": auc,
                "deviation": float(np.std(aucs, ddof=1)),
                "paper": theirs,
                "paperDeviation": deviation,
                "difference": auc - theirs,
                "within": auc >= theirs - deviation,
                "note": _NOTES.get(name, ""),
            }
            rows.append(row)
            _log.info("%s", row)
    return rows


def whole(directory: Directory, name: str) -> Batch:
    """All rows that the papers on online learning divide themselves."""
    train, test = load(directory, name)
    return train if name in _TRAINING_FILE_ALONE else stacked([train, test])


def folds(rows: Batch, rng: np.random.Generator) -> Iterator[tuple[Batch, Batch]]:
    """Training rows in random order and test rows, with equal shares of each class."""
    order = rng.permutation(rows.y.size)
    fold = np.empty(rows.y.size, np.int64)
    for label in (False, True):
        mine = order[rows.y[order] == label]
        fold[mine] = np.arange(mine.size) % FOLDS
    for k in range(FOLDS):
        yield rows.take(order[fold[order] != k]), rows.take(order[fold[order] == k])


def experiment(
    title: str,
    about: str,
    paper: Mapping[str, Mapping[str, tuple[float, float]]],
    algorithms: Mapping[str, Algorithm],
) -> Experiment:
    """The experiment of a table; the first algorithm is the paper's own."""
    own = next(iter(algorithms))

    def run(settings: Settings) -> list[Row]:
        return table(settings, paper, algorithms)

    def finding(rows: Sequence[Row]) -> str:
        parts = []
        for label in algorithms:
            mine = [row for row in rows if row["algorithm"] == label]
            near = sum(row["within"] for row in mine)
            parts.append(f"{label} on {near} of {len(mine)}")
        leads = sum(
            row["auc"] >= max(r["auc"] for r in rows if r["set"] == row["set"])
            for row in rows
            if row["algorithm"] == own
        )
        return (
            "Above the paper's AUC or within one of its standard deviations are "
            f"{', '.join(parts)} sets; {own} leads on {leads}."
        )

    return Experiment(
        title=title,
        about=f"{about} {_PROTOCOL}",
        run=run,
        columns={
            "set": ("data", ""),
            "algorithm": ("algorithm", ""),
            "rows": ("rows", ",d"),
            "features": ("features", "d"),
            "runs": ("runs", "d"),
            "auc": ("AUC", ".2f"),
            "deviation": ("deviation", ".2f"),
            "paper": ("paper's", ".2f"),
            "paperDeviation": ("deviation", ".2f"),
            "difference": ("difference", "+.2f"),
            "within": ("within", ""),
            "note": ("differs in", ""),
        },
        finding=finding,
        picture=_picture,
        files=tuple(paper),
    )


def _picture(rows: Sequence[Row]) -> Figure:
    labels = list(dict.fromkeys(row["algorithm"] for row in rows))
    sets = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(labels)) as (figure, axes):
        for label, each in zip(labels, axes, strict=True):
            mine = [row for row in rows if row["algorithm"] == label]
            for k, (name, errors) in enumerate((("auc", "deviation"), ("paper", "paperDeviation"))):
                each.errorbar(
                    [row[name] for row in mine],
                    np.arange(len(mine)) + 0.25 * k,
                    xerr=[row[errors] for row in mine],
                    fmt="os"[k],
                    mfc=(None, "none")[k],
                    color=(NEGATIVE, GUIDE)[k],
                    label=("ours", "paper")[k],
                )
            each.set_yticks(range(len(sets)), sets if each is axes[0] else [""] * len(sets))
            each.invert_yaxis()
            each.set(title=label, xlabel="test AUC (%), 1 sd")
    return figure
