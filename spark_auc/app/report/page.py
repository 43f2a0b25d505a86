"""The report of an evaluation: one HTML page, complete in itself, from a Jinja template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from spark_auc.app.report.pictures import svg
from spark_auc.core.evaluation.delong import SMALL_CLASS
from spark_auc.core.evaluation.measures import MEASURES

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def page(
    result: Mapping[str, Any],
    figures: Mapping[str, Figure],
    shapes: Mapping[str, Figure] | None = None,
    weights: Figure | None = None,
    columns: Sequence[Mapping[str, Any]] = (),
    *,
    unit: bool = False,
) -> str:
    """Return the report of an evaluation.

    Parameters
    ----------
    result
        Content of ``evaluation.json``: `AUCReport.as_dict` with ``model``, ``data`` and
        ``version``.
    figures
        Plots of the evaluation by name, as `pictures` returns them.
    shapes
        Plots of the model's shapes by name, as `shape_pictures` returns them. Default: none.
    weights
        Plot of the model's largest weights. Default: none.
    columns
        What each column of the training became; see `spark_auc.app.jobs.columns`. Default: none.
    unit
        Whether the model divides rows by their norm.
    """
    # The command line imports this module for its help, which works without jinja2.
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"number": _number, "words": _words}
    # `files` also reads a package in a zip file, as spark-submit ships it.
    template = files("spark_auc.app.report").joinpath("page.html.jinja").read_text("utf-8")
    return environment.from_string(template).render(
        result=result,
        figures=_drawn(figures),
        shapes=_drawn(shapes or {}),
        weights=_drawn({"weights": weights} if weights else {}),
        columns=columns,
        unit=unit,
        small_class=SMALL_CLASS,
        measures=MEASURES,
    )


def _drawn(figures: Mapping[str, Figure]) -> list[dict[str, str]]:
    return [
        {"name": name, "title": figure.axes[0].get_title(), "svg": svg(figure)}
        for name, figure in figures.items()
    ]


def _number(value: float | str | None, form: str = ".4f") -> str:
    """A number in a format of Python's, text as it is, and a dash for a missing value."""
    if value is None:
        return "—"
    return value if isinstance(value, str) else format(value, form)


def _words(counts: Mapping[str, int]) -> str:
    """Words with their numbers of rows."""
    return ", ".join(f"{word} ({rows:,})" for word, rows in counts.items())
