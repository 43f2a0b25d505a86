"""The report of an evaluation: one HTML page that needs nothing else, and no network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from spark_auc.app.report.pictures import label_text, svg
from spark_auc.core.evaluation.delong import SMALL_CLASS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NONE = "—"
_CLASS = {"rows": "rows", "weight": "weight", "effectiveRows": "effective rows"}
_CERTIFICATE = {"kkt": "KKT residual", "gap": "duality gap", "reason": "why it stopped"}
_CHOSEN_BY = {
    "classRatio": "as many called positive as there are",
    "f1": "greatest F1",
    "cost": "least cost",
    "fprBudget": "greatest TPR within the FPR budget",
}
_CAPTIONS = {
    "roc": "How many positives are found at each share of false alarms. The band is for one "
    "rate at a time, not for the whole curve.",
    "precision_recall": "How many of those called positive are, at each share of positives found. "
    "The band is for one rate at a time.",
    "distribution": "Where the scores of each class lie; each class sums to 1.",
    "gain": "How many positives are found by calling the top share of rows positive.",
    "calibration": "How often what was given a probability happened. The diagonal is right.",
}
_CSS = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2129; --soft: #566070;
  --line: #d8dde4; --card: #f6f7f9; --warn: #fff4dc; --edge: #c47d00; }
@media (prefers-color-scheme: dark) { :root { --paper: #14171c; --ink: #e4e7eb; --soft: #a2abb8;
  --line: #343b45; --card: #1c2129; --warn: #33280f; --edge: #d99a2b; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; }
main, header, footer { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { margin: 0; font-size: 1rem; font-weight: 600; color: var(--soft); overflow-wrap: anywhere; }
h2 { margin: 2.5rem 0 .75rem; font-size: 1.25rem; }
h3 { margin: 1.5rem 0 .5rem; font-size: 1rem; }
p { margin: .5rem 0; max-width: 46rem; }
small, figcaption, dt, th, footer { color: var(--soft); font-size: .875rem; }
.auc { margin: .25rem 0 0; font-size: 2.75rem; line-height: 1.1; font-weight: 700; }
.warning { padding: .75rem 1rem; background: var(--warn); border-left: .25rem solid var(--edge); }
.pictures { display: grid; gap: 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); }
figure { margin: 0; padding: .75rem; background: var(--card); border-radius: .5rem;
  break-inside: avoid; }
svg { display: block; width: 100%; height: auto; }
dl { display: grid; gap: .75rem; margin: 0;
  grid-template-columns: repeat(auto-fill, minmax(min(100%, 10rem), 1fr)); }
dd { margin: 0; overflow-wrap: anywhere; font-variant-numeric: tabular-nums; }
.scroll { max-width: 100%; overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .375rem 0 .375rem clamp(.75rem, 2vw, 1.5rem); text-align: right;
  border-bottom: 1px solid var(--line); }
td { white-space: nowrap; }
th { vertical-align: bottom; }
th:first-child { padding-left: 0; text-align: left; }
tbody th { min-width: 7rem; overflow-wrap: anywhere; vertical-align: baseline;
  color: var(--ink); font-size: 1rem; font-weight: 400; }
@media print { .scroll { overflow: visible; } }
"""


def page(result: Mapping[str, Any], figures: Mapping[str, Figure]) -> str:
    """Return the report of an evaluation with its pictures."""
    title = f"AUC {result['auc']:.4f} of {result['model']['path']}"
    main = [
        _section("Measures", _facts(_measures(result))),
        _section("Pictures", _pictures(figures)),
        _section("Operating points", _thresholds(result["thresholds"])),
        _section("Groups", _groups(result["groups"])) if result["groups"] is not None else "",
        _section("Model", _model(result["model"])),
        _section("Data", _facts(result["data"])),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_CSS}</style>\n</head>\n<body>\n"
        f"<header>{_headline(result)}</header>\n<main>\n{''.join(main)}</main>\n"
        f"<footer>Numbers are rounded. Made by spark_auc {escape(result['version'])}.</footer>\n"
        "</body>\n</html>\n"
    )


def _headline(result: Mapping[str, Any]) -> str:
    interval, bounds = result["interval"], result["bounds"]
    lower, upper = interval["linear"]
    parts = [
        f"<h1>Evaluation of {escape(result['model']['path'])}</h1>",
        f'<p class="auc">AUC {result["auc"]:.4f}</p>',
        f"<p>{interval['level']:.0%} confidence interval "
        f"<strong>{interval['lower']:.4f} to {interval['upper']:.4f}</strong> <small>(DeLong, "
        f"{escape(interval['scale'])} scale; linear {lower:.4f} to {upper:.4f})</small></p>",
    ]
    if bounds is not None:
        parts.append(
            "<p>Computed from a histogram of scores: the exact AUC is between "
            f"<strong>{bounds[0]:.6f} and {bounds[1]:.6f}</strong>.</p>"
        )
    if interval["smallSample"]:
        rows = min(side["effectiveRows"] for side in result["classes"].values())
        parts.append(
            f'<p class="warning"><strong>Small sample.</strong> Found {_count(rows)} effective '
            f"rows of the smaller class, expected {SMALL_CLASS} or more: the interval covers the "
            f"true AUC less often than {interval['level']:.0%}. Evaluate on more rows.</p>"
        )
    rows_of = [
        (f"{name} ({label_text(side['label'])})", *map(_count, (side[key] for key in _CLASS)))
        for name, side in result["classes"].items()
    ]
    head = ("class", *_CLASS.values())
    return "".join(parts) + _table("Rows of each class", head, rows_of)


def _measures(result: Mapping[str, Any]) -> dict[str, str]:
    partial = result["partialAUC"]
    measures = {
        "average precision": result["averagePrecision"],
        f"partial AUC, FPR up to {partial['maxFPR']:g}": partial["area"],
        "partial AUC, standardized": partial["standardized"],
        "log loss": result["logLoss"],
        "calibration error": result["calibrationError"],
    }
    return {name: _number(value) for name, value in measures.items() if value is not None}


def _pictures(figures: Mapping[str, Figure]) -> str:
    drawn = "".join(
        f'<figure><div role="img" aria-label="{escape(figure.axes[0].get_title())}">'
        f"{svg(figure)}</div>\n<figcaption>{_CAPTIONS[name]}</figcaption></figure>\n"
        for name, figure in figures.items()
    )
    return f'<div class="pictures">\n{drawn}</div>'


def _thresholds(thresholds: Mapping[str, Mapping[str, Any]]) -> str:
    rows = [
        (
            _CHOSEN_BY.get(name, name),
            "∞" if point["threshold"] is None else f"{point['threshold']:.6g}",
            *map(_number, (point[rate] for rate in ("tpr", "fpr", "precision"))),
        )
        for name, point in thresholds.items()
    ]
    head = ("chosen by", "threshold", "TPR (recall)", "FPR", "precision")
    text = "<p>A row is called positive where its score is the threshold or more.</p>"
    return text + _table("Operating points", head, rows)


def _groups(groups: Mapping[str, Any]) -> str:
    rows = []
    for group in groups["rows"]:
        auc, lower, upper = (group[key] for key in ("auc", "lower", "upper"))
        rows.append(
            (
                "null" if group["value"] is None else group["value"],
                *map(_count, (group["positive"], group["negative"])),
                f"{_NONE} (one class)" if auc is None else _number(auc),
                _NONE if lower is None else f"{lower:.4f} to {upper:.4f}",
            )
        )
    column = groups["column"]
    mean = groups["weightedMean"]
    text = f"<p>Mean AUC by weight of rows {_NONE if mean is None else _number(mean)}.</p>"
    head = (column, "positives", "negatives", "AUC", "interval")
    return text + _table(f"AUC by {column}", head, rows)


def _model(model: Mapping[str, Any]) -> str:
    facts = {
        "path": model["path"],
        "features": _count(model["features"]),
        "nonzero weights": _count(model["nonzeros"]),
    }
    certificate = {
        _CERTIFICATE.get(name, name): value if isinstance(value, str) else _precise(value)
        for name, value in (model["certificate"] or {}).items()
    }
    weights = [
        (weight["feature"], _precise(weight["weight"]), _precise(weight["standardized"]))
        for weight in model["largestWeights"]
    ]
    head = ("feature", "weight", "standardized")
    proof = f"<h3>Certificate</h3>{_facts(certificate)}" if certificate else ""
    return (
        f"{_facts(facts)}{proof}<h3>Largest weights</h3>{_table('Largest weights', head, weights)}"
    )


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4f}"


def _precise(value: float | None) -> str:
    return _NONE if value is None else f"{value:.4g}"


def _count(value: float) -> str:
    return f"{value:,.10g}"


def _section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{heading}</h2>\n{content}\n</section>\n"


def _facts(facts: Mapping[str, Any]) -> str:
    pairs = (
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>\n"
        for name, value in facts.items()
    )
    return f"<dl>\n{''.join(pairs)}</dl>"


def _table(label: str, head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a table that scrolls within itself, also by keyboard; the first column names rows."""
    columns = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>'
        + "".join(f"<td>{escape(str(cell))}</td>" for cell in cells)
        + "</tr>\n"
        for name, *cells in rows
    )
    return (
        f'<div class="scroll" role="region" aria-label="{escape(label)}" tabindex="0"><table>\n'
        f"<thead><tr>{columns}</tr></thead>\n<tbody>\n{body}</tbody></table></div>"
    )
