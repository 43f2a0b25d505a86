"""Plots of a model's shapes: curves of numeric columns, and heat maps of pairs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from spark_auc.app.report.pictures import GUIDE, NEGATIVE, drawable, drawn, plain_ticks
from spark_auc.core.types import Float
from spark_auc.features.shapes import Shape
from spark_auc.features.times import datetimes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Most plots of each kind.
MOST = 12
# Points of which the outer ones are so many times as far apart as most neighbours are drawn by
# logarithms.
_SKEWED = 100.0
_LEVELS = 21


def shape_pictures(shapes: Sequence[Shape]) -> dict[str, Figure]:
    """Plots of the first shapes of each kind, by name: "curve1", ..., "pair1", ...

    Parameters
    ----------
    shapes
        Shapes by importance, as `spark_auc.features.shapes.shapes` returns them. Without
        matplotlib there are no plots.
    """
    if not drawable():
        return {}
    figures = {}
    for count, (kind, plot) in enumerate((("curve", _curve), ("pair", _surface)), 1):
        chosen = [shape for shape in shapes if len(shape.columns) == count][:MOST]
        for k, shape in enumerate(chosen, 1):
            name = f"{kind}{k}"
            figures[name] = drawn(name, (4.0, 3.4), partial(_drawn, plot, shape))
    return figures


def _drawn(plot: Callable[[Axes, Shape], None], shape: Shape, figure: Figure) -> None:
    plot(figure.add_subplot(), shape)


def axis_texts(type_: str, points: Sequence[float]) -> list[str]:
    """Short, distinct texts of points: dates of times, else as few digits as tell them apart."""
    if type_ == "time":
        for unit in ("D", "m", "s", "us"):
            texts = [
                str(time).replace("T", " ") for time in datetimes(points).astype(f"M8[{unit}]")
            ]
            if len(set(texts)) == len(points):
                break
        return texts
    for digits in range(3, 18):
        texts = [_short(point, digits) for point in points]
        if len(set(texts)) == len(points):
            break
    return texts


def _short(number: float, digits: int) -> str:
    text = f"{number:.{digits}g}"
    return f"{float(text):.0f}" if "e+" in text and abs(number) < 1e7 else text


def _curve(axes: Axes, shape: Shape) -> None:
    (name,), (points,) = shape.columns, map(np.array, shape.at)
    scale = "linear" if shape.types[0] == "time" else _scale(points)
    x = _between(points) if points.size > 1 else points
    y = np.interp(x, points, shape.values)
    knots = points
    if shape.types[0] == "time":
        from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

        locator = AutoDateLocator(minticks=3, maxticks=7)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        formatter = ConciseDateFormatter(locator)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(formatter)
        x, knots = datetimes(x), datetimes(points)
        # The dates of Matplotlib end with the year 9999, on which open ends often are.
        axes.margins(x=0)
    elif scale == "symlog":
        least = float(np.abs(points[points != 0]).min())
        axes.set_xscale("symlog", linthresh=least)
        plain_ticks(axes, least)
    elif scale == "log":
        axes.set_xscale("log")
        plain_ticks(axes)
    axes.plot(x, y, color=NEGATIVE)
    axes.plot(knots, shape.values, "o", color=NEGATIVE, markersize=3)
    if shape.missing:
        axes.axhline(shape.missing, color=GUIDE, linestyle="--", linewidth=1, label="missing")
        axes.legend(frameon=False)
    axes.set_title(name, parse_math=False)
    axes.set_xlabel(name, parse_math=False)
    axes.set_ylabel("part of the score")


def _surface(axes: Axes, shape: Shape) -> None:
    from matplotlib import colormaps

    most = float(np.abs(shape.values).max()) or 1.0
    colours = colormaps["PuOr_r"].resampled(_LEVELS)
    mesh = axes.pcolormesh(shape.values.T, cmap=colours, vmin=-most, vmax=most)
    axes.grid(visible=False)
    both = zip((axes.xaxis, axes.yaxis), shape.columns, shape.types, shape.at, strict=True)
    for axis, name, type_, points in both:
        axis.set_ticks(np.arange(len(points)) + 0.5, axis_texts(type_, points))
        axis.set_label_text(name, parse_math=False)
    axes.tick_params(axis="x", labelrotation=45)
    axes.set_title(" x ".join(shape.columns), parse_math=False)
    axes.figure.colorbar(mesh, ax=axes, label="part of the score")


def _scale(points: Float) -> str:
    """The scale of an axis: logarithmic if the points are far more dense at one end."""
    gaps = np.diff(points)
    if gaps.size < 3 or points[-1] - points[0] <= _SKEWED * np.median(gaps):
        return "linear"
    return "log" if points[0] > 0 else "symlog"


def _between(points: Float) -> Float:
    """Points of a curve that is linear between knots, dense on linear and logarithmic axes."""
    parts = [np.linspace(a, b, 17) for a, b in pairwise(points)]
    parts += [np.geomspace(a, b, 17) for a, b in pairwise(points) if a > 0]
    return np.unique(np.clip(np.concatenate(parts), points[0], points[-1]))
