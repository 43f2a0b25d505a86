"""The pages of a retraining: AUC of champion and challenger by period, and one of each period."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np

from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE, STYLE, drawable, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLOURS = {"challenger": POSITIVE, "champion": NEGATIVE}


def aucs(records: Sequence[Mapping[str, Any]]) -> Figure | None:
    """A figure of the AUCs by period with their intervals; None if no gate had enough rows.

    Without matplotlib it is None too.

    Parameters
    ----------
    records
        Records of the periods, as the job ``retrain`` writes them.
    """
    if not drawable():
        return None
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    judged = [(k, r["gate"]["auc"]) for k, r in enumerate(records) if r.get("gate")]
    if not judged:
        return None
    with rc_context(STYLE):
        figure = Figure(figsize=(9.0, 3.6), layout="constrained")
        figure.set_gid("history")
        axes = figure.subplots()
        for name, colour in _COLOURS.items():
            places = np.array([k for k, auc in judged if name in auc])
            found = [auc[name] for _, auc in judged if name in auc]
            value, lower, upper = (
                np.array([auc[key] for auc in found]) for key in ("auc", "lower", "upper")
            )
            axes.plot(places, value, "o-", color=colour, markersize=3, label=name)
            axes.fill_between(places, lower, upper, color=colour, alpha=0.15, linewidth=0)
        for k, record in enumerate(records):
            if record["outcome"] == "promoted":
                axes.axvline(k, color=GUIDE, linestyle="--", linewidth=1)
        step = -(-len(records) // 12)
        axes.set_xticks(range(0, len(records), step))
        axes.set_xticklabels([r["period"] for r in records[::step]], rotation=30, ha="right")
        axes.set_ylabel("AUC on the period's rows")
        axes.set_title("Champion and challenger; dashed lines are promotions")
        figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def history_page(records: Sequence[Mapping[str, Any]]) -> str:
    """The page of all records."""
    figure = aucs(records)
    picture = None if figure is None else svg(figure)
    by_segment = any((record.get("challenger") or {}).get("segments") for record in records)
    return _rendered("history.html.jinja", records=records, picture=picture, by_segment=by_segment)


def period_page(record: Mapping[str, Any]) -> str:
    """The page of a record: AUCs, decision, windows, penalties, segments, drift, time, store."""
    return _rendered("period.html.jinja", record=record)


def _rendered(name: str, **values: Any) -> str:
    # The command line imports this module for its help, which works without jinja2.
    from jinja2 import Environment, FunctionLoader

    directory = files("spark_auc.app.report")
    environment = Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(lambda name: directory.joinpath(name).read_text("utf-8")),
    )
    environment.filters["number"] = _number
    return environment.get_template(name).render(**values)


def _number(value: float | None, form: str = ".4f") -> str:
    """A number in a format of Python's, and a dash for a missing value."""
    return "—" if value is None else format(value, form)
