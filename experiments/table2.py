"""MBA, Table II: the gap to the best possible AUC on Gaussian mixtures."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.experiment import Experiment, Row, Settings
from experiments.mixtures import MIXTURES
from experiments.paper import TABLE2
from experiments.pictures import panels, series
from experiments.training import mean_and_error, percent, sampled
from spark_auc.app.report.pictures import GUIDE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

_POSITIVE = 0.1


def run(settings: Settings, train: int = 20_000, test: int = 100_000) -> list[Row]:
    """One row per mixture and sample ratio (number of pairs over the ``train`` rows)."""
    rows: list[Row] = []
    for components, (paper_best, paper) in TABLE2.items():
        mixture, best = MIXTURES[components], []
        gaps = defaultdict(list)
        for repeat in range(settings.repeats):
            rng = np.random.default_rng((settings.seed, components, repeat))
            batches = []
            for size in (train, test):
                positives = round(_POSITIVE * size)
                batches.append(mixture.sample(rng, size - positives, positives))
            best.append(percent(mixture.log_ratio(batches[1].X), batches[1].y))
            for ratio in paper:
                rankers = sampled(batches[0], round(ratio * train), settings.seed + repeat)
                for name, ranker in rankers.items():
                    gaps[ratio, name].append(best[-1] - ranker.auc(batches[1]))
        for ratio, paper_auc in paper.items():
            row: dict[str, Any] = {
                "components": components,
                "ratio": ratio,
                "pairs": round(ratio * train),
                "best": mean_and_error(best)[0],
                "paperBest": paper_best,
                "paperGap": paper_best - paper_auc,
            }
            for name in ("complete", "paired"):
                gap, error = mean_and_error(gaps[ratio, name])
                within = gap <= row["paperGap"] + 2 * (error or 0.0)
                row |= {f"{name}Gap": gap, f"{name}Error": error, f"{name}Within": within}
            rows.append(row)
            _log.info("%d components, %g of the rows: %s", components, ratio, row)
    return rows


def _finding(rows: Sequence[Row]) -> str:
    counts = [sum(row[f"{name}Within"] for row in rows) for name in ("complete", "paired")]
    return (
        "The gap is at most the paper's plus two standard errors in "
        f"{counts[0]} of {len(rows)} cells with complete pairs and in {counts[1]} with paired "
        "draws."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    with panels(len(MIXTURES)) as (figure, axes):
        for components, panel in zip(MIXTURES, axes, strict=True):
            of_mixture = [row for row in rows if row["components"] == components]
            x = [row["pairs"] for row in of_mixture]
            panel.plot(
                x, [row["paperGap"] for row in of_mixture], "s--", color=GUIDE, label="paper"
            )
            for name in ("complete", "paired"):
                series(panel, of_mixture, "pairs", f"{name}Gap", name, f"{name}Error")
            panel.set(
                title=f"components: {components}", xscale="log", xlabel="pairs S", ylim=(0, None)
            )
        axes[0].set_ylabel("AUC points below Neyman-Pearson")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Table II: Gaussian mixtures",
    about=(
        "20,000 training rows with 10% positives in 100 features, 100,000 test rows; ridge on S "
        "pairs with the penalty chosen by 5-fold cross-validation on the drawn rows. Gap: AUC "
        "points below the Neyman-Pearson ranker on the same test rows, mean over repeats with its "
        "standard error."
    ),
    run=run,
    columns={
        "components": ("components", "d"),
        "ratio": ("sample ratio", ".0%"),
        "pairs": ("pairs S", ",d"),
        "best": ("Neyman-Pearson AUC", ".2f"),
        "paperBest": ("paper's", ".2f"),
        "completeGap": ("gap, complete", ".2f"),
        "completeError": ("error", ".2f"),
        "pairedGap": ("gap, paired", ".2f"),
        "pairedError": ("error", ".2f"),
        "paperGap": ("paper's gap", ".2f"),
        "completeWithin": ("complete within", ""),
        "pairedWithin": ("paired within", ""),
    },
    finding=_finding,
    picture=_picture,
)
