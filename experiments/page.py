"""The page of an experiment: verdict, pictures and tables, made from its results alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.datasets import SETS
from experiments.experiment import Experiment, Limits, Measure, Results
from spark_auc.app.report.pictures import GUIDE, NEGATIVE, POSITIVE, STYLE
from spark_auc.core.types import Float

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS = {1: " ●", 0: "", -1: " ○", None: ""}
# Lines differ in marker and dashes too, because they often coincide.
_COLOURS = (NEGATIVE, POSITIVE, "#2e9e5b", "#9a4fc4", "#b8860b", "#c23b6b", "#4a9aa8", GUIDE)
# Places of a curve in its table; its picture and its file of results have all.
_SHOWN = 8
_FORMS = ("o-", "s:", "^--", "d-.", "v-", "x:", "P--", "*-.")


@contextmanager
def panels(count: int, width: float = 3.2) -> Iterator[tuple[Figure, Sequence[Axes]]]:
    """A figure of panels, at most four in a line, whose legend is made at the end of the block."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        columns = next((n for n in (4, 3) if count % n == 0), min(count, 4))
        lines = -(-count // columns)
        size = max(width * columns, 4.5), 2.7 * lines + 0.7
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).ravel().tolist()
        yield figure, axes
        for panel in axes[count:]:
            panel.set_visible(False)
        named = {
            label: handle
            for panel in axes[:count]
            for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
        }
        figure.legend(
            *(list(named.values()), list(named)),
            loc="outside lower center",
            ncols=min(len(named), 5),
            frameon=False,
        )


def line(
    axes: Axes, number: int, x: Any, y: Any, error: Any, label: str, marker: str | None = None
) -> None:
    """Draw the curve of the method of a number."""
    form = _FORMS[number % len(_FORMS)]
    axes.errorbar(
        *(x, y, error),
        marker=form[0] if marker is None else marker,
        linestyle=form[1:],
        color=_COLOURS[number % len(_COLOURS)],
        markersize=3,
        capsize=2,
        linewidth=1,
        label=label,
    )


def pictures(experiment: Experiment, results: Results) -> dict[str, Figure]:
    """The experiment's pictures by name."""
    if experiment.pictures:
        return {name: draw(results) for name, draw in experiment.pictures.items()}
    draw = _curves if experiment.x else _dots
    return {
        key: draw(experiment, key, measure, results)
        for key, measure in experiment.measures.items()
        if key != experiment.against
    }


def _deviation(values: Float) -> float:
    return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def _curves(experiment: Experiment, key: str, measure: Measure, results: Results) -> Figure:
    """A panel for each set; all methods as curves, or as levels if they have one point."""
    against = experiment.against
    with panels(len(results.sets)) as (figure, axes):
        for name, panel in zip(results.sets, axes, strict=False):
            for number, method in enumerate(results.methods):
                all_x = results.points(name, method)
                rows = [(x, results.values(name, method, key, x)) for x in all_x]
                rows = [(x, values) for x, values in rows if values.size]
                if not rows:
                    continue
                if rows[0][0] is None:
                    style = ("-", "--", ":", "-.")[number % 4]
                    panel.axhline(rows[0][1].mean(), color=GUIDE, ls=style, lw=1, label=method)
                    continue
                places = [results.mean(name, method, against, x) if against else x for x, _ in rows]
                means, errors = zip(*((v.mean(), _deviation(v)) for _, v in rows), strict=True)
                line(panel, number, places, means, errors, method)
            heading = experiment.measures[against].heading if against else experiment.x
            scale = "log" if experiment.log else "linear"
            panel.set(title=name, xscale=scale, xlabel=heading)
            if "second" in measure.heading:
                panel.set_yscale("log")
        figure.supylabel(measure.heading, fontsize=9)
    return figure


def _dots(experiment: Experiment, key: str, measure: Measure, results: Results) -> Figure:
    """A panel for each method; ours with a deviation beside the paper's."""
    methods, sets = results.methods, results.sets
    wide = all(results.values(s, m, key).min(initial=1) > 0 for s in sets for m in methods)
    with panels(len(methods), 2.4) as (figure, axes):
        lines = -(-len(methods) // 4)
        figure.set_size_inches(figure.get_size_inches()[0], lines * (1.1 + 0.2 * len(sets)) + 0.4)
        for method, panel in zip(methods, axes, strict=False):
            place = panel.get_subplotspec()
            first = place is None or place.is_first_col()
            ours = [results.values(name, method, key) for name in sets]
            theirs = [measure.paper.get(name, {}).get(method, (np.nan, None)) for name in sets]
            rows = [
                ([v.mean() if v.size else np.nan for v in ours], [_deviation(v) for v in ours]),
                ([mean for mean, _ in theirs], [deviation or 0.0 for _, deviation in theirs]),
            ]
            for k, (means, errors) in enumerate(rows):
                panel.errorbar(
                    *(means, np.arange(len(sets)) + 0.25 * k),
                    xerr=errors,
                    fmt="os"[k],
                    mfc=(None, "none")[k],
                    color=(NEGATIVE, GUIDE)[k],
                    markersize=4,
                    label=("ours", "paper")[k],
                )
            panel.set_yticks(range(len(sets)), sets if first else [""] * len(sets))
            panel.invert_yaxis()
            panel.set(title=method, xlabel=measure.heading)
            if wide and "second" in measure.heading:
                panel.set_xscale("log")
    return figure


def verdict(experiment: Experiment, results: Results) -> str:
    """The sentence that says whether the paper's claim holds."""
    holds, found = experiment.verdict(results)
    return f"The claim, {experiment.claim}, {'holds' if holds else 'does not hold'}: {found}."


def page(
    experiment: Experiment,
    results: Results,
    limits: Limits,
    seconds: float,
    pictures: str = "",
    tables: int | None = None,
) -> str:
    """The page in Markdown, with the first ``tables``; files of pictures begin as ``pictures``."""
    names = results.sets
    notes = [f"{name}: {SETS[name].note}" for name in names if name in SETS and SETS[name].note]
    runs = {name: len({r.repeat for r in results.records if r.set == name}) for name in names}
    least, most = min(runs.values()), max(runs.values())
    parts = [
        f"# {experiment.paper}, {experiment.what}: {experiment.title}",
        experiment.about,
        f"**{verdict(experiment, results)}**",
        *(f"![{experiment.what}]({pictures}{key}.png)" for key in pictures_of(experiment)),
        *(_table(experiment, key, results) for key in list(experiment.measures)[:tables]),
    ]
    if notes:
        parts.append(f"Sets that differ from the paper's: {'; '.join(notes)}.")
    if results.absent:
        parts.append(f"Sets of the paper that are not here: {', '.join(results.absent)}.")
    counts = f"{most}" if least == most else f"{least} to {most}"
    parts.append(
        f"Repeats of each set: {counts} of {experiment.repeats}. "
        f"{limits_text(limits, experiment.row_scale)} The run took {seconds:.0f} CPU seconds."
    )
    return "\n\n".join(parts) + "\n"


def pictures_of(experiment: Experiment) -> list[str]:
    """Names of the experiment's pictures."""
    if experiment.pictures:
        return list(experiment.pictures)
    return [key for key in experiment.measures if key != experiment.against]


def limits_text(limits: Limits, row_scale: int) -> str:
    """What a run did at most, in one sentence."""
    given = {key: value for key, value in asdict(limits).items() if value is not None}
    if "rows" in given:
        given["rows"] *= row_scale
    words = {
        "repeats": "repeats: {:,d}",
        "rows": "training rows of a repeat: {:,d}",
        "work": "operations of a full search of settings: {:.0e}",
        "seconds": "CPU seconds until no further repeat starts: {:,.0f}",
    }
    texts = [words[key].format(v) for key, v in given.items()]
    return f"Limits: {'; '.join(texts)}." if texts else "No limits."


def _table(experiment: Experiment, key: str, results: Results) -> str:
    """All means with deviations; the paper's in brackets."""
    measure, methods = experiment.measures[key], results.methods
    tested = experiment.own if key == next(iter(experiment.measures)) else ()
    rows = []
    for name in results.sets:
        points = list(dict.fromkeys(x for m in methods for x in results.points(name, m)))
        shown = np.unique(np.linspace(0, len(points) - 1, _SHOWN).round().astype(int))
        for x in (points[k] for k in shown):
            cells = [
                _cell(results.values(name, method, key, x), measure, name, method)
                + _mark(results, tested, name, method, key)
                for method in methods
            ]
            if any(cells):
                rows.append([name, *([f"{x:,.4g}" if x is not None else ""] * bool(experiment.x))])
                rows[-1] += cells
    head = ["data", *([experiment.x] * bool(experiment.x)), *methods]
    others = [method for method in methods if method not in tested]
    if tested and not experiment.x:
        tallies = [
            "/".join(map(str, results.tally(tested, m, key))) if m in others else ""
            for m in methods
        ]
        rows.append(["win/tie/loss", *tallies])
    if tested and experiment.tallies:
        theirs = ["/".join(map(str, experiment.tallies.get(m, ()))) for m in methods]
        rows.append(["the paper's", *theirs])
    lines = [head, ["---"] * len(head), *rows]
    text = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    legend = f"{measure.heading}: mean ± standard deviation over the repeats"
    if measure.paper:
        legend += "; in brackets the paper's"
    if tested and not experiment.x:
        legend += (
            f"; ● or ○ where {' or '.join(tested)} is significantly better or worse "
            "(paired t-test at 95%)"
        )
    return f"{legend}.\n\n{text}"


def _cell(values: Float, measure: Measure, name: str, method: str) -> str:
    theirs: Mapping[str, tuple[float, float | None]] = measure.paper.get(name, {})
    text = _spread(float(np.mean(values)), _deviation(values), measure) if len(values) else ""
    return f"{text} ({_spread(*theirs[method], measure)})" if method in theirs else text


def _spread(mean: float, deviation: float | None, measure: Measure) -> str:
    text = format(mean, measure.form)
    return f"{text} ± {format(deviation, measure.form)}" if deviation else text


def _mark(results: Results, own: Sequence[str], name: str, method: str, key: str) -> str:
    if not own or method in own or results.points(name, own[0]) != [None]:
        return ""
    return _MARKS[results.compared(name, own, method, key)]
