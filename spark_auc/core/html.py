"""Results as HTML, for notebooks: tables, and curves as inline SVG."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_SIDE = 200


def page(title: str, *parts: str) -> str:
    """A title and parts of HTML below each other."""
    return f"<div><strong>{escape(title)}</strong>{''.join(parts)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of text and numbers; a dash stands for None."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def curve(label: str, x: Sequence[float | None], y: Sequence[float | None]) -> str:
    """A curve within the unit square, with the diagonal; points with None are left out.

    Parameters
    ----------
    label
        What it shows, for readers who do not see it.
    x, y
        The points, each in [0, 1].
    """
    places = (
        f"{a * _SIDE:.1f},{(1 - b) * _SIDE:.1f}"
        for a, b in zip(x, y, strict=True)
        if a is not None and b is not None
    )
    lines = (
        f'<rect width="{_SIDE}" height="{_SIDE}" fill="none" stroke="#888"/>'
        f'<line x1="0" y1="{_SIDE}" x2="{_SIDE}" y2="0" stroke="#888" stroke-dasharray="4"/>'
        f'<polyline points="{" ".join(places)}" fill="none" stroke="#1f5fa8" stroke-width="2"/>'
    )
    box = f'viewBox="-2 -2 {_SIDE + 4} {_SIDE + 4}" width="{_SIDE + 4}"'
    return (
        f'<svg role="img" aria-label="{escape(label)}" {box} style="display: block">{lines}</svg>'
    )


def _cell(value: object) -> str:
    if value is None:
        return "<td>—</td>"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return f"<td>{escape(text)}</td>"
