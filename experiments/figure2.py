"""MBA, Figure 2: AUC and training time against the number of pairs."""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from experiments.experiment import Experiment, Row, Settings
from experiments.mixtures import MIXTURES
from experiments.paper import FIGURE2_PAIRS, FIGURE2_SPEEDUP
from experiments.pictures import level, panels, series
from experiments.training import exact, mean_and_error, percent, sampled
from spark_auc.core.batch import Batch

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

PAIRS = (100, 200, 500, 1000, 2000, 5000, 10_000, 20_000, 50_000)
BEST, FORMED = "Neyman-Pearson", "exact, pair by pair"


def run(
    settings: Settings, pairs: Sequence[int] = PAIRS, train: int = 2000, test: int = 100_000
) -> list[Row]:
    """One row per ranker and number of pairs, on the mixture of three components."""
    mixture = MIXTURES[3]
    results: dict[tuple[str, int | None], list[tuple[float, float | None]]] = defaultdict(list)
    for repeat in range(settings.repeats):
        rng = np.random.default_rng((settings.seed, repeat))
        rows, held_out = (mixture.sample(rng, size // 2, size // 2) for size in (train, test))
        results[BEST, None].append((percent(mixture.log_ratio(held_out.X), held_out.y), None))
        all_pairs = exact(rows, settings.seed + repeat)
        auc = all_pairs.auc(held_out)
        results["exact", None].append((auc, all_pairs.seconds))
        results[FORMED, None].append((auc, _seconds_to_form(rows)))
        for count in pairs:
            for name, ranker in sampled(rows, count, settings.seed + repeat).items():
                results[name, count].append((ranker.auc(held_out), ranker.seconds))
        _log.info("finished repeat %d of %d", repeat + 1, settings.repeats)
    return [
        _row(name, count, *zip(*values, strict=True)) for (name, count), values in results.items()
    ]


def _row(
    name: str, pairs: int | None, aucs: Sequence[float], seconds: Sequence[float | None]
) -> Row:
    auc, error = mean_and_error(aucs)
    # The median excludes the first repeat, which compiles kernels.
    spent = [1000 * value for value in seconds if value is not None]
    return {
        "ranker": name,
        "pairs": pairs,
        "auc": auc,
        "error": error,
        "milliseconds": float(np.median(spent)) if spent else None,
    }


def _seconds_to_form(rows: Batch) -> float:
    """Seconds to compute the moments from the difference of each pair, as the batch algorithm."""
    start = time.perf_counter()
    negative = rows.X[~rows.y]
    total = np.zeros((rows.X.shape[1],) * 2)
    for row in rows.X[rows.y]:
        difference = row - negative
        total += difference.T @ difference
    return time.perf_counter() - start


def _finding(rows: Sequence[Row]) -> str:
    by = {(row["ranker"], row["pairs"]): row for row in rows}
    most = min(row["pairs"] for row in rows if (row["pairs"] or 0) >= FIGURE2_PAIRS)
    drawn, all_pairs, formed = by["complete", most], by["exact", None], by[FORMED, None]
    return (
        f"{most:,d} pairs are {all_pairs['auc'] - drawn['auc']:.2f} AUC points below all pairs "
        f"(paper: no visible difference); all pairs take {all_pairs['milliseconds']:.1f} ms, "
        f"{formed['milliseconds'] / all_pairs['milliseconds']:.0f} times less than pair by pair, "
        f"and {most:,d} pairs {drawn['milliseconds']:.1f} ms (paper: more than "
        f"{FIGURE2_SPEEDUP} times less than pair by pair)."
    )


def _picture(rows: Sequence[Row]) -> Figure:
    with panels(2) as (figure, axes):
        for name in ("complete", "paired"):
            of_ranker = [row for row in rows if row["ranker"] == name]
            series(axes[0], of_ranker, "pairs", "auc", name, "error")
            series(axes[1], of_ranker, "pairs", "milliseconds", name)
        guides = [row for row in rows if row["pairs"] is None]
        for row, style in zip(guides, (":", "--", "-."), strict=True):
            if row["ranker"] != FORMED:
                level(axes[0], row["auc"], row["ranker"], style)
            if row["milliseconds"]:
                level(axes[1], row["milliseconds"], row["ranker"], style)
        axes[0].set(title="AUC (%)", xscale="log", xlabel="pairs S")
        axes[1].set(title="milliseconds to train", xscale="log", yscale="log", xlabel="pairs S")
    return figure


EXPERIMENT = Experiment(
    title="MBA, Figure 2: number of pairs",
    about=(
        "The mixture of three components, 1,000 training rows of each class. AUC: mean over "
        "repeats with its standard error. Time: median over repeats of the seconds for drawing, "
        "moments and solution; for pair by pair, of the seconds for the moments alone."
    ),
    run=run,
    columns={
        "ranker": ("ranker", ""),
        "pairs": ("pairs S", ",d"),
        "auc": ("AUC", ".2f"),
        "error": ("error", ".2f"),
        "milliseconds": ("milliseconds", ".1f"),
    },
    finding=_finding,
    picture=_picture,
)
