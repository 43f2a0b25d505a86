"""The papers' tables of online learners: one pass over the training rows of each fold."""

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
from spark_auc.app.report.pictures import GUIDE, NEGATIVE
from spark_auc.core.batch import Batch, stacked
from spark_auc.publication.directory import Directory

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)


TRIALS = 5
# Operations of a pass above which only one trial is run.
_LONG = 2e9
_TRAINING_FILE_ALONE = {"a9a"}
_PROTOCOL = (
    f"Test AUC in percent over trials of {FOLDS}-fold cross-validation (as many as repeats, at "
    f"most {TRIALS}; one if a pass is long), after one pass over the training rows in random "
    "order. Columns that exceed [-1, 1] are divided by their largest absolute value in training. "
    "Settings are chosen in each fold by the AUC on held-out training rows, with 5 folds; if that "
    "takes long, with one fold; if that takes long, with one fold and every other value of each "
    "setting in turn. Deviation: standard deviation over the runs. Within: at least the paper's "
    "AUC minus its deviation."
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
    """One row per algorithm and data set that is available and in the paper."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in present(settings.data):
        if name not in paper:
            continue
        rows_of_set = all_rows(settings.data, name)
        n, d = rows_of_set.X.shape
        is_long = any(n * each.work(d, d) > _LONG for each in algorithms.values())
        aucs_of = defaultdict(list)
        for trial in range(1 if is_long else min(settings.repeats, TRIALS)):
            rng = np.random.default_rng((settings.seed, zlib.crc32(name.encode()), trial))
            for train, test in folds(rows_of_set, rng):
                seed = int(rng.integers(2**31))
                for label, algorithm in algorithms.items():
                    aucs_of[label].append(tested(train, test, algorithm, seed))
        for label, aucs in aucs_of.items():
            paper_auc, deviation = paper[name][label]
            auc = float(np.mean(aucs))
            row = {
                "set": name,
                "algorithm": label,
                "rows": n,
                "features": d,
                "runs": len(aucs),
                "auc": auc,
                "deviation": float(np.std(aucs, ddof=1)),
                "paper": paper_auc,
                "paperDeviation": deviation,
                "difference": auc - paper_auc,
                "within": auc >= paper_auc - deviation,
                "note": _NOTES.get(name, ""),
            }
            rows.append(row)
            _log.info("%s", row)
    return rows


def all_rows(directory: Directory, name: str) -> Batch:
    """All rows of a data set, which the papers on online learning split themselves."""
    train, test = load(directory, name)
    return train if name in _TRAINING_FILE_ALONE else stacked([train, test])


def folds(rows: Batch, rng: np.random.Generator) -> Iterator[tuple[Batch, Batch]]:
    """Training rows in random order and test rows of each stratified fold."""
    order = rng.permutation(rows.y.size)
    fold = np.empty(rows.y.size, np.int64)
    for label in (False, True):
        of_class = order[rows.y[order] == label]
        fold[of_class] = np.arange(of_class.size) % FOLDS
    for k in range(FOLDS):
        yield rows.take(order[fold[order] != k]), rows.take(order[fold[order] == k])


def experiment(
    title: str,
    about: str,
    paper: Mapping[str, Mapping[str, tuple[float, float]]],
    algorithms: Mapping[str, Algorithm],
) -> Experiment:
    """The experiment of a table; the first algorithm is the one that the paper proposes."""
    own = next(iter(algorithms))

    def run(settings: Settings) -> list[Row]:
        return table(settings, paper, algorithms)

    def finding(rows: Sequence[Row]) -> str:
        parts = []
        for label in algorithms:
            of_algorithm = [row for row in rows if row["algorithm"] == label]
            within = sum(row["within"] for row in of_algorithm)
            parts.append(f"{label} on {within} of {len(of_algorithm)} sets")
        leads = sum(
            row["auc"] >= max(r["auc"] for r in rows if r["set"] == row["set"])
            for row in rows
            if row["algorithm"] == own
        )
        return (
            "The AUC is at least the paper's minus one standard deviation for "
            f"{', '.join(parts)}; {own} leads on {leads}."
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
        for label, panel in zip(labels, axes, strict=True):
            of_algorithm = [row for row in rows if row["algorithm"] == label]
            for k, (name, errors) in enumerate((("auc", "deviation"), ("paper", "paperDeviation"))):
                panel.errorbar(
                    [row[name] for row in of_algorithm],
                    np.arange(len(of_algorithm)) + 0.25 * k,
                    xerr=[row[errors] for row in of_algorithm],
                    fmt="os"[k],
                    mfc=(None, "none")[k],
                    color=(NEGATIVE, GUIDE)[k],
                    label=("ours", "paper")[k],
                )
            panel.set_yticks(range(len(sets)), sets if panel is axes[0] else [""] * len(sets))
            panel.invert_yaxis()
            panel.set(title=label, xlabel="test AUC (%), 1 sd")
    return figure
