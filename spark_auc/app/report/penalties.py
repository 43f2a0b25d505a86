"""The plot of a penalty selection: held-out AUC and nonzero weights against the penalty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE, STYLE, plain_ticks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = (POSITIVE, NEGATIVE, "#7a52cc", "#2a9461", "#a8326e")


def penalties(selection: Mapping[str, Any]) -> Figure:
    """Return a figure of two plots against the penalty.

    Above: the mean AUC on held-out folds with a band of one standard error, which a single part of
    held-out rows does not have. Below: the number of
    nonzero weights. A dashed line marks the chosen penalty. Penalties that were left out are not
    drawn. ``selection`` is `Selection.as_dict`.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    chosen = selection["candidates"][selection["chosen"]]
    candidates = [c for c in selection["candidates"] if c["auc"] is not None]
    kinds = sorted({_kind(c) for c in candidates})
    with rc_context(STYLE):
        figure = Figure(figsize=(6.0, 4.6), layout="constrained")
        figure.set_gid("selection")
        above, below = figure.subplots(2, sharex=True, height_ratios=[2, 1])
        for number, kind in enumerate(kinds):
            path = sorted((c for c in candidates if _kind(c) == kind), key=lambda c: c["regParam"])
            colour = _COLOURS[number % len(_COLOURS)]
            reg, auc, error, count = (
                np.array([c[name] for c in path], float)
                for name in ("regParam", "auc", "standardError", "nonzeros")
            )
            above.plot(reg, auc, "o-", color=colour, markersize=3, label=_label(kind))
            above.fill_between(reg, auc - error, auc + error, color=colour, alpha=0.2, linewidth=0)
            below.plot(reg, count, "o-", color=colour, markersize=3)
        for axes in (above, below):
            axes.axvline(chosen["regParam"], color=GUIDE, linestyle="--", linewidth=1)
        if all(c["regParam"] > 0 for c in candidates):
            above.set_xscale("log")
            plain_ticks(below)
        error = chosen["standardError"]
        above.set_ylabel("held-out AUC" + (" ± 1 standard error" if error is not None else ""))
        below.set_ylabel("nonzero weights")
        below.set_ylim(bottom=0)
        below.set_xlabel("penalty (regParam)")
        above.set_title(
            f"Chosen: regParam {chosen['regParam']:.3g}, {_label(_kind(chosen))}, AUC of the "
            f"{_rows(selection)} that chose it {chosen['auc']:.4f}"
            + (f" ± {error:.4f}" if error is not None else "")
        )
        figure.legend(loc="outside lower center", ncols=3, frameon=False)
    return figure


def _rows(selection: Mapping[str, Any]) -> str:
    """The rows of the comparison."""
    sample = selection.get("sampleRows")
    return "rows" if sample is None else f"sample of {sample:,} rows"


def _kind(candidate: Mapping[str, Any]) -> tuple[bool, float, float, float]:
    """The centre at the prior, elasticNetParam, smoothness, and share of trees of a penalty."""
    others = candidate.get("smoothness") or 0.0, candidate.get("trees") or 0.0
    return candidate.get("prior", False), candidate["elasticNetParam"], *others


def _label(kind: tuple[bool, float, float, float]) -> str:
    prior, mix, smoothness, trees = kind
    if trees:
        return f"share of trees {trees:g}"
    if smoothness:
        return f"smoothness {smoothness:g}"
    return f"elasticNetParam {mix:g}{', prior' if prior else ''}"
