"""Plots of an evaluation, as SVG for an HTML page and as PNG files."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_auc.core.types import Float
from spark_auc.errors import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_log = logging.getLogger(__name__)

# Series and guides have a contrast of 3:1 or more on white and on near-black. `svg` replaces the
# ink by the text colour of the page, so series and guides must not have the colour of the ink.
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
    """Return the text of a class label."""
    return label if isinstance(label, str) else f"{label:g}"


def check_packages() -> None:
    """Check the packages of pages; the log says if results have no pictures.

    Raises
    ------
    MissingPackageError
        A package that pages need is not installed.
    """
    require("spark", "jinja2")
    if not drawable():
        _log.warning(
            "results have no pictures: found no package matplotlib; run pip install "
            "'spark-auc[report]' to have them"
        )


def drawable() -> bool:
    """Whether the package that draws is installed."""
    return find_spec("matplotlib") is not None


def pictures(result: Mapping[str, Any]) -> dict[str, Figure]:
    """Return the plots of an evaluation by name; that of calibration needs probabilities.

    ``result`` is `AUCReport.as_dict`. Without matplotlib there are none.
    """
    if not drawable():
        return {}
    plots: dict[str, Callable[[Axes, Mapping[str, Any]], None]] = {
        "roc": _roc,
        "precision_recall": _precision_recall,
        "distribution": _distribution,
        "gain": _gain,
    }
    if result["reliability"] is not None:
        plots["calibration"] = _calibration

    def draw(plot: Callable[[Axes, Mapping[str, Any]], None], figure: Figure) -> None:
        plot(figure.add_subplot(), result)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)

    return {name: drawn(name, (4.0, 3.8), partial(draw, plot)) for name, plot in plots.items()}


def drawn(name: str, size: tuple[float, float], draw: Callable[[Figure], None]) -> Figure:
    """A figure; empty, with a warning in the log, where the drawing of it fails."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        figure.set_gid(name)
        _tried(figure, lambda: draw(figure))
    return figure


def _tried(figure: Figure, draw: Callable[[], None]) -> None:
    """Draw, or leave the figure empty, so that the job publishes its model all the same."""
    try:
        draw()
    except Exception as error:
        _log.warning("left picture %r empty: %s: %s", figure.get_gid(), type(error).__name__, error)
        figure.clear()
        figure.add_subplot().set_title("cannot be drawn")


def plain_ticks(axes: Axes, threshold: float | None = None) -> None:
    """Label a logarithmic x axis by plain numbers, with small ticks at 2 and 5.

    Typeset powers, and small ticks at all digits, would take as long as the rest of a drawing.

    Parameters
    ----------
    axes
        The plot.
    threshold
        The ``linthresh`` of a scale that is linear around 0.
    """
    from matplotlib.ticker import LogFormatter, LogLocator, SymmetricalLogLocator

    class Plain(LogFormatter):
        """Numbers with their sign and digits, which the base class leaves out."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return self.fix_minus(f"{x:.4g}") if super().__call__(x, pos) else ""

    axes.xaxis.set_major_formatter(Plain(linthresh=threshold))
    axes.xaxis.set_minor_formatter(
        Plain(labelOnlyBase=False, minor_thresholds=(1, 1), linthresh=threshold)
    )
    axes.xaxis.set_minor_locator(
        LogLocator(subs=(2, 5))
        if threshold is None
        else SymmetricalLogLocator(base=10, linthresh=threshold, subs=(2, 5))
    )


def svg(figure: Figure) -> str:
    """Return an <svg> element in the colour and font of its HTML page, with ids of its own."""
    saved = _saved(figure, format="svg", transparent=True).decode()
    (text,) = re.findall(r"<svg.*</svg>", saved, re.S)
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>|<!--.*?-->", "", text, flags=re.S)
    text = re.sub(
        r'<svg.*?(viewBox="[^"]*").*?>', r'<svg \1 stroke-linejoin="round">', text, count=1
    )
    # Ids must be unique in the page, and every figure has an axes_1.
    text = re.sub(r'(\bid="|url\(#)', rf"\g<1>{figure.get_gid()}-", text)
    text = re.sub(r'xlink:href="#', f'href="#{figure.get_gid()}-', text)
    text = re.sub(r"'DejaVu Sans'[^;\"]*", "system-ui, sans-serif", text)
    return text.replace(_INK, "currentColor")


def png(figure: Figure) -> bytes:
    """Return a PNG file on a white background."""
    return _saved(figure, format="png", dpi=200, facecolor="white")


def _saved(figure: Figure, **options: Any) -> bytes:
    from matplotlib import rc_context

    out = io.BytesIO()
    with rc_context(STYLE), warnings.catch_warnings():
        # The font of the library lacks most scripts. A browser draws the text of the page in its
        # own fonts.
        warnings.filterwarnings("ignore", r"Glyph .* missing from font")
        _tried(figure, lambda: _lay_out(figure))
        figure.savefig(out, **options)
    return out.getvalue()


def _lay_out(figure: Figure) -> None:
    """Place the parts of a figure once: with its engine, each file would do so twice."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _wilson(share: Float, rows: Float | float) -> tuple[Float, Float]:
    """Wilson confidence bounds of a share observed on a number of rows; [0, 1] for 0 rows."""
    z = NormalDist().inv_cdf((1 + _LEVEL) / 2)
    spread = z * np.sqrt(rows * share * (1 - share) + z**2 / 4)
    middle = rows * share + z**2 / 2
    return (middle - spread) / (rows + z**2), (middle + spread) / (rows + z**2)


def _effective(result: Mapping[str, Any]) -> Float:
    """Effective rows of the positive and of the negative class, (2,)."""
    classes = result["classes"]
    return np.array([classes[side]["effectiveRows"] for side in ("positive", "negative")])


def _base_rate(result: Mapping[str, Any]) -> float:
    positive, negative = (result["classes"][k]["weight"] for k in ("positive", "negative"))
    return float(positive / (positive + negative))


def _column(columns: Mapping[str, Any], name: str) -> Float:
    return np.array(columns[name], dtype=np.float64)


def _roc(axes: Axes, result: Mapping[str, Any]) -> None:
    fpr, tpr = (_column(result["curve"], name) for name in ("fpr", "tpr"))
    lower, upper = _wilson(tpr, _effective(result)[0])
    band = f"pointwise {_LEVEL:.0%} band"
    axes.fill_between(fpr, lower, upper, color=NEGATIVE, alpha=0.25, linewidth=0, label=band)
    axes.plot(fpr, tpr, color=NEGATIVE, label="ROC curve")
    axes.plot([0, 1], [0, 1], color=GUIDE, linestyle="--", linewidth=1, label="random ranking")
    interval = result["interval"]
    axes.set(
        title=f"ROC: AUC {result['auc']:.4f} ({interval['level']:.0%} CI "
        f"{interval['lower']:.4f} to {interval['upper']:.4f})",
        xlabel="false positive rate (FPR)",
        ylabel="true positive rate (TPR)",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )


def _precision_recall(axes: Axes, result: Mapping[str, Any]) -> None:
    recall, precision, share = (
        _column(result["curve"], name) for name in ("tpr", "precision", "share")
    )
    lower, upper = _wilson(precision, share * _effective(result).sum())
    base = _base_rate(result)
    # Precision at the lowest recalls rests on few rows and its band is wide: the height of the
    # plot follows the rest of the curve, so that rare positives do not flatten it.
    settled = upper[(recall >= 0.02) & ~np.isnan(upper)]
    # The area below the steps is the average precision.
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
    axes.axhline(
        base, color=GUIDE, linestyle="--", linewidth=1, label=f"random ranking, {base:.3g}"
    )
    axes.set(
        title=f"Precision-recall curve: average precision {result['averagePrecision']:.4f}",
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
    axes.set(title="Scores of each class", xlabel="score", ylabel="share of the class in a bin")
    axes.margins(x=0)


def _gain(axes: Axes, result: Mapping[str, Any]) -> None:
    share, gain = (_column(result["curve"], name) for name in ("share", "tpr"))
    base = _base_rate(result)
    axes.plot([0, base, 1], [0, 1, 1], color=GUIDE, linestyle=":", label="best possible")
    axes.plot([0, 1], [0, 1], color=GUIDE, linestyle="--", linewidth=1, label="random ranking")
    axes.plot(share, gain, color=NEGATIVE, label="gain")
    axes.set(
        title="Cumulative gain",
        xlabel="share of rows predicted positive",
        ylabel="true positive rate (recall)",
        xlim=(0, 1),
        ylim=(0, 1.01),
    )


def _calibration(axes: Axes, result: Mapping[str, Any]) -> None:
    predicted, observed, weight = (
        _column(result["reliability"], name) for name in ("predicted", "observed", "weight")
    )
    lower, upper = _wilson(observed, weight / weight.sum() * _effective(result).sum())
    top = 1.05 * max(predicted.max(), upper.max())
    axes.plot(
        [0, top], [0, top], color=GUIDE, linestyle="--", linewidth=1, label="perfect calibration"
    )
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
        title=f"Calibration: expected calibration error {result['calibrationError']:.4f}",
        xlabel="mean predicted probability in the bin",
        ylabel="share of positives in the bin",
        xlim=(0, top),
        ylim=(0, top),
    )
