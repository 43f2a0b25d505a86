"""Pictures of an evaluation, as SVG that lives in a page and as PNG that stands alone."""

from __future__ import annotations

import importlib.util
import io
import re
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_auc.core.evaluation.score_table import FloatArray
from spark_auc.errors import ConfigError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Series and guides keep a contrast of 3:1 or more on white and on near-black. Ink, dark enough
# for white paper, is where an SVG takes the colour of its page; nothing else has this colour.
POSITIVE, NEGATIVE, GUIDE, _INK = "#d9660d", "#2f7fd6", "#8a8f98", "#1c2129"
_LEVEL = 0.95
STYLE: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": GUIDE,
    "grid.alpha": 0.3,
    "svg.fonttype": "none",
    "svg.hashsalt": "spark_auc",
} | dict.fromkeys(
    ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
)


def label_text(label: float | str) -> str:
    """A label as the report shows it."""
    return label if isinstance(label, str) else f"{label:g}"


def check_matplotlib() -> None:
    """`ConfigError` where pictures cannot be drawn."""
    if importlib.util.find_spec("matplotlib") is None:
        raise ConfigError(
            "found no matplotlib, expected it for the report; "
            "install it with pip install 'spark-auc[report]'"
        )


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the pictures of an evaluation by name, those whose data it has."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    draw: dict[str, Callable[[Axes, Mapping[str, Any]], None]] = {
        "roc": _roc,
        "precision_recall": _precision_recall,
        "distribution": _distribution,
        "gain": _gain,
    }
    if result["reliability"] is not None:
        draw["calibration"] = _calibration
    figures = {}
    with rc_context(STYLE):
        for name, drawn in draw.items():
            figures[name] = figure = Figure(figsize=(4.0, 3.8), layout="constrained")
            figure.set_gid(name)
            drawn(figure.add_subplot(), result)
            figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figures


def svg(figure: Figure) -> str:
    """Return an <svg> element for an HTML page: of the page's colour and font, ids its own."""
    from matplotlib import rc_context

    out = io.StringIO()
    with rc_context(STYLE):
        figure.savefig(out, format="svg", transparent=True)
    (text,) = re.findall(r"<svg.*</svg>", out.getvalue(), re.S)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(
        r'<svg.*?(viewBox="[^"]*").*?>', r'<svg \1 stroke-linejoin="round">', text, count=1
    )
    # HTML resolves ids over the whole page, and every figure has an axes_1.
    text = re.sub(r'(\bid="|url\(#)', rf"\g<1>{figure.get_gid()}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{figure.get_gid()}-', text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    return text.replace(_INK, "currentColor")


def png(figure: Figure) -> bytes:
    """Return a PNG on white."""
    from matplotlib import rc_context

    out = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(out, format="png", dpi=200, facecolor="white")
    return out.getvalue()


def _wilson(share: FloatArray, rows: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Bounds of a share of so many rows, nothing known of none: [0, 1]."""
    z = NormalDist().inv_cdf((1 + _LEVEL) / 2)
    spread = z * np.sqrt(rows * share * (1 - share) + z**2 / 4)
    middle = rows * share + z**2 / 2
    return (middle - spread) / (rows + z**2), (middle + spread) / (rows + z**2)


def _effective(result: Mapping[str, Any]) -> FloatArray:
    """Effective rows of the positive and of the negative class."""
    classes = result["classes"]
    return np.array([classes[side]["effectiveRows"] for side in ("positive", "negative")])


def _base_rate(result: Mapping[str, Any]) -> float:
    positive, negative = (result["classes"][k]["weight"] for k in ("positive", "negative"))
    return float(positive / (positive + negative))


def _column(columns: Mapping[str, Any], name: str) -> FloatArray:
    return np.array(columns[name], dtype=np.float64)


def _roc(axes: Axes, result: Mapping[str, Any]) -> None:
    fpr, tpr = (_column(result["curve"], name) for name in ("fpr", "tpr"))
    lower, upper = _wilson(tpr, _effective(result)[0])
    band = f"pointwise {_LEVEL:.0%} band"
    axes.fill_between(fpr, lower, upper, color=NEGATIVE, alpha=0.25, linewidth=0, label=band)
    axes.plot(fpr, tpr, color=NEGATIVE, label="ROC curve")
    axes.plot([0, 1], [0, 1], color=GUIDE, linestyle="--", linewidth=1, label="chance, 0.5")
    interval = result["interval"]
    axes.set(
        title=f"ROC: AUC {result['auc']:.4f} ({interval['level']:.0%} CI "
        f"{interval['lower']:.4f} to {interval['upper']:.4f})",
        xlabel="false positive rate",
        ylabel="true positive rate",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )


def _precision_recall(axes: Axes, result: Mapping[str, Any]) -> None:
    recall, precision, share = (
        _column(result["curve"], name) for name in ("tpr", "precision", "share")
    )
    lower, upper = _wilson(precision, share * _effective(result).sum())
    base = _base_rate(result)
    # Where few rows are called positive the band is anything, and positives may be rare: the
    # height follows the rest of the curve, and what is above it leaves the picture.
    settled = upper[(recall >= 0.02) & ~np.isnan(upper)]
    # A step up to each point is the curve whose area is the average precision.
    axes.fill_between(
        recall,
        lower,
        upper,
        step="pre",
        color=POSITIVE,
        alpha=0.25,
        linewidth=0,
        label=f"pointwise {_LEVEL:.0%} band",
    )
    axes.step(recall, precision, where="pre", color=POSITIVE, label="precision")
    axes.axhline(base, color=GUIDE, linestyle="--", linewidth=1, label=f"chance, {base:.3g}")
    axes.set(
        title=f"Precision and recall: average precision {result['averagePrecision']:.4f}",
        xlabel="recall (true positive rate)",
        ylabel="precision",
        xlim=(0, 1),
        ylim=(0, min(1.01, 1.1 * settled.max(initial=base))),
    )


def _distribution(axes: Axes, result: Mapping[str, Any]) -> None:
    shares = result["distribution"]
    for side, colour in (("negative", NEGATIVE), ("positive", POSITIVE)):
        values, edges = _column(shares, side), _column(shares, "edges")
        label = f"{side} (label {label_text(result['classes'][side]['label'])})"
        axes.stairs(values, edges, fill=True, color=colour, alpha=0.25)
        axes.stairs(values, edges, color=colour, linewidth=1.5, label=label)
    axes.set(title="Scores of the two classes", xlabel="score", ylabel="share of the class")
    axes.margins(x=0)


def _gain(axes: Axes, result: Mapping[str, Any]) -> None:
    share, gain = (_column(result["curve"], name) for name in ("share", "tpr"))
    base = _base_rate(result)
    axes.plot([0, base, 1], [0, 1, 1], color=GUIDE, linestyle=":", label="best possible")
    axes.plot([0, 1], [0, 1], color=GUIDE, linestyle="--", linewidth=1, label="chance")
    axes.plot(share, gain, color=NEGATIVE, label="gain")
    axes.set(
        title="Cumulative gain",
        xlabel="share of rows called positive",
        ylabel="share of positives found",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )


def _calibration(axes: Axes, result: Mapping[str, Any]) -> None:
    predicted, observed, weight = (
        _column(result["reliability"], name) for name in ("predicted", "observed", "weight")
    )
    lower, upper = _wilson(observed, weight / weight.sum() * _effective(result).sum())
    top = 1.05 * max(predicted.max(), upper.max())
    axes.plot([0, top], [0, top], color=GUIDE, linestyle="--", linewidth=1, label="calibrated")
    axes.vlines(
        predicted,
        lower,
        upper,
        color=NEGATIVE,
        alpha=0.5,
        label=f"pointwise {_LEVEL:.0%} interval",
    )
    axes.plot(predicted, observed, "o-", color=NEGATIVE, markersize=4, label="observed")
    axes.set(
        title=f"Calibration: error {result['calibrationError']:.4f}",
        xlabel="mean predicted probability of a bin",
        ylabel="share of positives in the bin",
        xlim=(0, top),
        ylim=(0, top),
    )
