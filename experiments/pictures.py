"""What the pictures of the experiments share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from experiments.experiment import Row
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE, STYLE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Both often agree: what is below must show.
_ESTIMATORS = {"complete": ("o-", NEGATIVE), "paired": ("s:", POSITIVE)}


@contextmanager
def panels(count: int) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """A figure of panels side by side, with one legend when the block ends."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(max(3.2 * count, 4.5), 3.6), layout="constrained")
        axes = figure.subplots(1, count, squeeze=False)[0]
        yield figure, axes
        named = {
            label: handle
            for each in axes
            for handle, label in zip(*each.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            list(named.values()),
            list(named),
            loc="outside lower center",
            ncols=len(named),
            frameon=False,
        )


def series(
    axes: Axes, rows: Sequence[Row], x: str, y: str, name: str, error: str | None = None
) -> None:
    """One estimator's figures, with their standard errors where they have them."""
    form, colour = _ESTIMATORS[name]
    axes.errorbar(
        [row[x] for row in rows],
        [row[y] for row in rows],
        [row[error] or 0.0 for row in rows] if error else None,
        fmt=form,
        markersize=3,
        capsize=2,
        color=colour,
        label=name,
    )


def level(axes: Axes, value: float, name: str, style: str = "--") -> None:
    """A horizontal guide."""
    axes.axhline(value, color=GUIDE, linestyle=style, linewidth=1, label=name)


def beside(rows: Sequence[Row], what: str) -> Figure:
    """AUC of what ``what`` names, with the paper's where it has any; a panel per data set."""
    names = list(dict.fromkeys(row["set"] for row in rows))
    with panels(len(names)) as (figure, axes):
        for name, each in zip(names, axes, strict=True):
            mine = [row for row in rows if row["set"] == name]
            places = range(len(mine))
            each.errorbar(
                [row["auc"] for row in mine],
                places,
                xerr=[row["error"] or 0.0 for row in mine],
                fmt="o",
                color=NEGATIVE,
                label="ours",
            )
            known = [(row["paper"], k) for k, row in zip(places, mine, strict=True) if row["paper"]]
            for auc, place in known:
                each.plot(auc, place, "s", mfc="none", color=GUIDE, label="paper")
            each.set_yticks(places, [row[what] for row in mine] if each is axes[0] else [])
            each.invert_yaxis()
            each.set(title=name, xlabel="test AUC (%)")
    return figure
