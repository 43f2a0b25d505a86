"""The plot of the largest weights: knots, tokens, columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_auc.app.report.pictures import NEGATIVE, POSITIVE, STYLE, drawable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Most bars, and most characters of a name.
_MOST, _LENGTH = 20, 40


def weights_picture(weights: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Bars of the largest standardised weights; None without weights or without matplotlib.

    Parameters
    ----------
    weights
        ``largest_weights`` of `TrainingSummary.as_dict`, the largest first.
    """
    shown = list(weights)[:_MOST]
    if not shown or not drawable():
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = [str(weight["feature"]) for weight in shown]
    values = [weight["standardized"] for weight in shown]
    with rc_context(STYLE):
        figure = Figure(figsize=(8.2, 0.6 + 0.22 * len(shown)), layout="constrained")
        figure.set_gid("weights")
        axes = figure.add_subplot()
        axes.barh(
            range(len(shown)), values, color=[POSITIVE if v > 0 else NEGATIVE for v in values]
        )
        cut = [name if len(name) <= _LENGTH else f"{name[: _LENGTH - 1]}…" for name in names]
        axes.set_yticks(range(len(shown)), cut)
        for text in axes.get_yticklabels():
            # A token may have dollar signs.
            text.set_parse_math(False)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.set_title("Largest weights, for features scaled to a standard deviation of 1")
    return figure
