"""MBA, Figure 3: AUC against the number of pairs as a share of the training rows."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.datasets import load, present
from experiments.experiment import Experiment, Row, Settings
from experiments.pictures import level, panels, series
from experiments.training import exact, mean_and_error, sampled

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

NAMES = ("a9a", "german.numer_scale", "svmguide3")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
# With fewer draws, a fold may lack a class.
_FEWEST_PAIRS = 50


def run(settings: Settings) -> list[Row]:
    """One row per data set, ranker and number of pairs as a share of the training rows."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in (name for name in NAMES if name in present(settings.data)):
        train, test = load(settings.data, name)
        aucs: dict[tuple[str, float | None, int | None], list[float]] = defaultdict(list)
        for share in SHARES:
            if (pairs := round(share * train.y.size)) < _FEWEST_PAIRS:
                continue
            for repeat in range(settings.repeats):
                for ranker, trained in sampled(train, pairs, settings.seed + repeat).items():
                    aucs[ranker, share, pairs].append(trained.auc(test))
            _log.info("%s: finished %d pairs", name, pairs)
        aucs["exact", None, None].append(exact(train, settings.seed).auc(test))
        for key, values in aucs.items():
            auc, error = mean_and_error(values)
            drawn = dict(zip(("ranker", "share", "pairs"), key, strict=True))
            rows.append({"set": name, **drawn, "auc": auc, "error": error})
    return rows


def _finding(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        of_set = [row for row in rows if row["set"] == name]
        (all_pairs,) = (row["auc"] for row in of_set if row["ranker"] == "exact")
        complete = {row["share"]: row["auc"] for row in of_set if row["ranker"] == "complete"}
        parts.append(
            f"{name} {all_pairs - complete[0.1]:.2f} points with 10% and "
            f"{all_pairs - complete[1.0]:.2f} with as many pairs as rows"
        )
    return (
        f"AUC of complete pairs below that of all pairs: {'; '.join(parts)} "
        "(paper: nearly constant in the number of rows)."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            of_set = [row for row in rows if row["set"] == name]
            for ranker in ("complete", "paired"):
                drawn = [row for row in of_set if row["ranker"] == ranker]
                series(panel, drawn, "share", "auc", ranker, "error")
            level(
                panel, next(row["auc"] for row in of_set if row["ranker"] == "exact"), "all pairs"
            )
            panel.set(title=name, xscale="log", xlabel="pairs S / training rows")
        axes[0].set_ylabel("test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Figure 3: share of the rows sampled",
    about=(
        "Ridge on S pairs, where S is a share of the number of training rows; the penalty is "
        "chosen by 5-fold cross-validation on the drawn rows. Test AUC: mean over repeats of the "
        "draws with its standard error. The paper's other algorithms are not run."
    ),
    run=run,
    columns={
        "set": ("data", ""),
        "ranker": ("ranker", ""),
        "share": ("share", ".0%"),
        "pairs": ("pairs S", ",d"),
        "auc": ("AUC", ".2f"),
        "error": ("error", ".2f"),
    },
    finding=_finding,
    picture=_picture,
    files=NAMES,
)
