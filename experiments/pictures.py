"""Plots that the experiments share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.superseded import Row
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@contextmanager
def panels(count: int) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """A figure of ``count`` panels side by side; the legend is added at the end of the block."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(max(3.2 * count, 4.5), 3.6), layout="constrained")
        axes = figure.subplots(1, count, squeeze=False)[0]
        yield figure, axes
        named = {
            label: handle
            for panel in axes
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            list(named.values()),
            list(named),
            loc="outside lower center",
            ncols=len(named),
            frameon=False,
        )


def beside(rows: Sequence[Row], what: str) -> Figure:
    """Plot AUC by the column ``what``, and the paper's AUC if it has one; a panel per data set."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, panel in zip(names, axes, strict=True):
            of_set = [row for row in rows if row["set"] == name]
            places = range(len(of_set))
            panel.errorbar(
                [row["auc"] for row in of_set],
                places,
                xerr=[row["error"] or 0.0 for row in of_set],
                fmt="o",
                color=NEGATIVE,
                label="ours",
            )
            known = [
                (row["paper"], k) for k, row in zip(places, of_set, strict=True) if row["paper"]
            ]
            for auc, place in known:
                panel.plot(auc, place, "s", mfc="none", color=GUIDE, label="paper")
            panel.set_yticks(places, [row[what] for row in of_set] if panel is axes[0] else [])
            panel.invert_yaxis()
            panel.set(title=name, xlabel="test AUC (%)")
    return figure
