"""Pictures of results."""

from __future__ import annotations

import importlib.util
import io

from spark_auc.core.delong import AUCInterval
from spark_auc.core.roc import ScoreTable, roc_curve
from spark_auc.errors import ConfigError

_MOST_POINTS = 2000


def check_matplotlib() -> None:
    """`ConfigError` where pictures cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "found no matplotlib, expected it for the report; "
            "install it with pip install 'spark-auc[report]'"
        )


def roc_picture(table: ScoreTable, area: float, interval: AUCInterval) -> bytes:
    """The ROC curve as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fpr, tpr, _ = roc_curve(table, _MOST_POINTS)
    figure = Figure(figsize=(6, 6), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle="--", label="chance, 0.5")
    axes.fill_between(fpr, tpr, alpha=0.12, color="tab:blue")
    axes.plot(fpr, tpr, color="tab:blue", linewidth=2, label=f"AUC {area:.4f}")
    axes.set(
        xlabel="false positive rate",
        ylabel="true positive rate",
        xlim=(0, 1),
        ylim=(0, 1.005),
        aspect="equal",
        title=f"ROC: AUC {area:.4f} ({interval.level:.0%} CI {interval.lower:.4f} "
        f"to {interval.upper:.4f})",
    )
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    out = io.BytesIO()
    figure.savefig(out, format="png", dpi=120)
    return out.getvalue()
