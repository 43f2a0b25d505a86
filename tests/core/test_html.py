"""HTML of results: well-formed, escaped, and with the numbers of the results."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from spark_auc.core import html
from spark_auc.local import MBAClassifier


def parsed(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.replace("&nbsp;", " "))


def test_text_is_escaped_and_numbers_are_short():
    root = parsed(html.table(["<b>"], [["<script>"], [None], [1 / 3], [7], [float("inf")]]))
    assert [cell.text for cell in root.iter("td")] == ["<script>", "—", "0.333333", "7", "inf"]
    assert [cell.text for cell in root.iter("th")] == ["<b>"]
    assert parsed(html.page("a < b", "<p>c</p>")).find("strong").text == "a < b"


def test_curves_leave_out_points_without_a_place():
    root = parsed(html.curve("ROC <curve>", [0.0, None, 1.0], [0.0, 0.5, 1.0]))
    assert root.get("aria-label") == "ROC <curve>"
    assert root.find("polyline").get("points") == "0.0,200.0 200.0,0.0"


@pytest.mark.parametrize("grid", [None, 0.1])
def test_a_summary_shows_its_choice_and_its_weights(grid):
    draw = np.random.default_rng(0)
    X = draw.normal(size=(200, 3))
    y = X[:, 0] + draw.normal(size=200) > 1
    summary = MBAClassifier(regParam=grid).fit(X, y).summary_
    root = parsed(f"<div>{summary._repr_html_()}</div>")
    shown = [cell.text for cell in root.iter("td")]
    assert f"{summary.reg_param:.6g}" in shown
    assert f"{summary.largest_weights[0].weight:.6g}" in shown
    candidates = len((summary.selection or {}).get("candidates", []))
    titles = [title.text for title in root.iter("strong")]
    assert ("AUC of held-out folds" in " ".join(titles)) == (grid is None) == (candidates > 1)
