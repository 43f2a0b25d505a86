"""MBA, Figure 3: AUC against the share of the rows that pairs are drawn from."""

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
# With fewer draws of a class, a fold may have none.
_FEWEST_PAIRS = 50


def run(settings: Settings) -> list[Row]:
    """One row per data set, ranker and share of the training rows that is the number of pairs."""
    assert settings.data is not None
    rows: list[Row] = []
    for name in (name for name in NAMES if name in present(settings.data)):
        train, test = load(settings.data, name)
        found: dict[tuple[str, float | None, int | None], list[float]] = defaultdict(list)
        for share in SHARES:
            if (pairs := round(share * train.y.size)) < _FEWEST_PAIRS:
                continue
            for repeat in range(settings.repeats):
                for ranker, trained in sampled(train, pairs, settings.seed + repeat).items():
                    found[ranker, share, pairs].append(trained.auc(test))
            _log.info("%s: %d pairs done", name, pairs)
        found["exact", None, None].append(exact(train, settings.seed).auc(test))
        for key, values in found.items():
            auc, error = mean_and_error(values)
            drawn = dict(zip(("ranker", "share", "pairs"), key, strict=True))
            rows.append({"set": name, **drawn, "auc": auc, "error": error})
    return rows


def _finding(rows: Sequence[Row]) -> str:
    parts = []
    for name in dict.fromkeys(row["set"] for row in rows):
        mine = [row for row in rows if row["set"] == name]
        (everything,) = (row["auc"] for row in mine if row["ranker"] == "exact")
        complete = {row["share"]: row["auc"] for row in mine if row["ranker"] == "complete"}
        parts.append(
            f"{name} {everything - complete[0.1]:.2f} points with 10% and "
            f"{everything - complete[1.0]:.2f} with as many pairs as rows"
        )
    return (
        f"Complete pairs are below all pairs by: {'; '.join(parts)} "
        "(paper: nearly level in the number of rows)."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, each in zip(names, axes, strict=True):
            mine = [row for row in rows if row["set"] == name]
            for ranker in ("complete", "paired"):
                drawn = [row for row in mine if row["ranker"] == ranker]
                series(each, drawn, "share", "auc", ranker, "error")
            level(each, next(row["auc"] for row in mine if row["ranker"] == "exact"), "all pairs")
            each.set(title=name, xscale="log", xlabel="pairs S / training rows")
        axes[0].set_ylabel("test AUC (%)")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Figure 3: share of the rows sampled",
    about=(
        "Ridge on S pairs, S being a share of the number of training rows; its penalty by 5 "
        "folds of the rows drawn. AUC on the test rows: mean over repeats of the draws with its "
        "standard error. The paper's other algorithms are not run."
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
