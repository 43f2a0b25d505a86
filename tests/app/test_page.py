"""The report of an evaluation: its page, its plots, and their packaging."""

import copy
import io
import json
import os
import re
import shutil
import subprocess
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread
from scipy.stats import binomtest, norm

from spark_auc.app.report import pictures as drawing
from spark_auc.app.report.page import page
from spark_auc.app.report.pictures import _wilson, pictures, png, svg
from spark_auc.app.report.shapes import axis_texts, shape_pictures
from spark_auc.app.report.weights import weights_picture
from spark_auc.core.evaluation.measures import MEASURES
from spark_auc.features.shapes import Shape

ROOT = Path(__file__).parents[2]
VOID = {"meta"}


def shares(values):
    return (values / values.sum()).tolist()


def evaluation():
    """The result of an evaluation of two Gaussian classes with 1 positive in 20 rows."""
    score = np.linspace(5, -4, 60)
    tpr, fpr = norm.sf(score, 1.04), norm.sf(score)
    share = 0.05 * tpr + 0.95 * fpr
    edges = np.linspace(-4, 5, 51)
    point = {"threshold": 0.437219, "tpr": 0.7141, "fpr": 0.3312, "precision": 0.1023}
    group = {"value": "2024-01-01", "positive": 1234, "negative": 567, "auc": 0.7531}
    return {
        "auc": 0.76804,
        "interval": {
            "level": 0.95,
            "scale": "wilson",
            "lower": 0.75752,
            "upper": 0.77813,
            "linear": [0.75771, 0.77834],
            "smallSample": False,
        },
        "bounds": None,
        "averagePrecision": 0.21567,
        "maxFPR": 0.1,
        "partialAUC": 0.61456,
        "logLoss": 0.17891,
        "calibrationError": 0.01234,
        "classes": {
            "positive": {"label": 1.0, "rows": 1001, "weight": 1002.5, "effectiveRows": 998.25},
            "negative": {"label": 0.0, "rows": 19001, "weight": 19002, "effectiveRows": 18003},
        },
        "curve": {
            "threshold": [None, *score.tolist()],
            "tpr": [0, *tpr.tolist()],
            "fpr": [0, *fpr.tolist()],
            "precision": [None, *(0.05 * tpr / share).tolist()],
            "share": [0, *share.tolist()],
            "lift": [None, *(tpr / share).tolist()],
        },
        "distribution": {
            "edges": edges.tolist(),
            "positive": shares(norm.pdf(edges[:-1], 1.04)),
            "negative": shares(norm.pdf(edges[:-1])),
        },
        "reliability": {"predicted": [0.01, 0.2], "observed": [0, 0.19], "weight": [9.5, 10]},
        "thresholds": {
            "f1": point,
            "cost": {"threshold": None, "tpr": 0.0, "fpr": 0.0, "precision": None},
            "mine": point,
        },
        "groups": {
            "column": "day",
            "count": 2,
            "measured": 1,
            "gauc": 0.76123,
            "gaucWeight": 1801.0,
            "quantiles": dict.fromkeys(["0.05", "0.25", "0.5", "0.75", "0.95"], 0.7531),
            "lowest": [],
            "highest": [],
            "rows": [
                group | {"lower": 0.7012, "upper": 0.8023},
                group
                | {"value": "later", "positive": 0, "auc": None, "lower": None, "upper": None},
            ],
        },
        "model": {
            "path": "output/model",
            "features": 10000,
            "nonzeros": 9001,
            "certificate": {
                "objective": -0.1712,
                "kkt": 1.5e-9,
                "gap": None,
                "iterations": 53,
                "tolerance": 1.6e-8,
                "reason": "converged",
            },
            "largestWeights": [{"feature": "c3=x", "weight": -0.4123, "standardized": 0.0212}],
            "smoothness": None,
            "methods": None,
        },
        "data": {"path": "output/test", "format": "parquet"},
        "version": "0.1.0",
    }


class Reader(HTMLParser):
    """A parser that checks that tags balance, and keeps texts by tag, and attributes."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.attributes, self.tags = [], [], [], set()
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if data.strip():
            self.texts.append((self.open[-1] if self.open else "", " ".join(data.split())))

    def within(self, *tags):
        return [text for tag, text in self.texts if tag in tags]


@pytest.fixture(scope="module")
def drawn():
    return pictures(evaluation())


@pytest.fixture(scope="module")
def whole(drawn):
    return page(evaluation(), drawn)


def bare(**changes):
    """The parsed page, without plots, of a changed evaluation."""
    return Reader(page(evaluation() | changes, {}))


def test_all_sections(whole):
    read = Reader(whole)
    sections = ["Measures", "Plots", "Thresholds", "Groups", "Model", "Data"]
    assert read.within("h2") == sections
    assert {("lang", "en"), ("name", "viewport")} <= set(read.attributes)
    assert read.within("title") == ["AUC 0.7680 of output/model"]
    labels = [value for name, value in read.attributes if name == "aria-label"]
    assert "ROC: AUC 0.7680 (95% CI 0.7575 to 0.7781)" in labels
    assert whole.count('role="img"') == whole.count("<svg") == whole.count("<figure>") == 5


DAYS, MONEY = tuple(19_700.0 + 40 * k for k in range(8)), (0.0, 1, 5, 30, 200, 1500, 9000, 1e5)


def some_shapes():
    rng = np.random.default_rng(0)
    curves = [
        Shape(("when",), ("time",), (DAYS,), rng.normal(size=8), 0.4),
        Shape(("gain $<b>$",), ("float",), (MONEY,), rng.normal(size=8)),
        Shape(("one",), ("boolean",), ((1.0,),), np.ones(1)),
        *(Shape((f"x{k}",), ("float",), ((0.1, 1.0, 2.0),), rng.normal(size=3)) for k in range(12)),
    ]
    knots = [(DAYS, MONEY), *[((0.0, 1.0), (0.12345, 0.12346, 7.0))] * 3]
    pairs = [
        Shape(("when", f"y{k}"), ("time" if k == 0 else "float", "float"), at, rng.normal(size=n))
        for k, at in enumerate(knots)
        for n in [tuple(map(len, at))]
    ]
    return [*pairs, *curves]


def test_shapes_are_drawn_in_units_of_their_columns(drawn):
    figures = shape_pictures(some_shapes())
    expected = [*(f"curve{k}" for k in range(1, 13)), *(f"pair{k}" for k in range(1, 5))]
    assert list(figures) == expected
    text = page(evaluation(), drawn, figures, unit=True)
    read = Reader(text)
    assert read.within("h2")[2] == "Shapes"
    assert "norm of the row" in text
    assert "Shapes" not in Reader(page(evaluation(), drawn)).within("h2")
    labels = [value for name, value in read.attributes if name == "aria-label"]
    assert {"when", "when x y0", "gain $<b>$"} <= set(labels)
    ids = [value for name, value in read.attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert not {"script", "link", "img", "image", "metadata"} & read.tags
    assert "http" not in text
    surface = figures["pair1"].axes[0]
    dates = ["2023-12-09", "2024-01-18", "2024-02-27"]
    assert [t.get_text() for t in surface.get_xticklabels()][:3] == dates
    numbers = ["0", "1", "5", "30", "200", "1500", "9000", "100000"]
    assert [t.get_text() for t in surface.get_yticklabels()] == numbers
    assert axis_texts("float", (0.12345, 0.12346, 7e9)) == ["0.12345", "0.12346", "7e+09"]
    assert axis_texts("time", (0.5, 0.75)) == ["1970-01-01 12:00", "1970-01-01 18:00"]
    # A cell has the value at its knots, and a curve passes through its points.
    shape = some_shapes()[0]
    mesh = surface.collections[0]
    np.testing.assert_array_equal(mesh.get_array(), shape.values.T)
    assert [figures[f"curve{k}"].axes[0].get_xscale() for k in (1, 2, 4)] == [
        "linear",
        "symlog",
        "linear",
    ]
    line = figures["curve2"].axes[0].lines[0]
    at = np.searchsorted(line.get_xdata(), MONEY)
    np.testing.assert_allclose(line.get_xdata()[at], MONEY)
    np.testing.assert_allclose(line.get_ydata()[at], some_shapes()[5].values)


def test_the_largest_weights_are_drawn_by_their_names():
    names = ["C3=$x$ <b>", "age: knot 7", "x" * 60]
    values = [1.5, -1.0, 0.25]
    weights = [
        {"feature": name, "weight": 2 * value, "standardized": value}
        for name, value in zip(names, values, strict=True)
    ]
    figure = weights_picture(weights)
    (axes,) = figure.axes
    assert [bar.get_width() for bar in axes.patches] == values
    assert len({bar.get_facecolor() for bar in axes.patches}) == 2
    text = page(evaluation(), {}, weights=figure)
    Reader(text)
    assert "C3=$x$ &lt;b&gt;" in svg(figure)
    assert "<b>" not in svg(figure)
    assert "x" * 41 not in svg(figure)
    assert weights_picture([]) is None
    many = [{"feature": str(k), "weight": 1.0, "standardized": 1.0} for k in range(30)]
    assert len(weights_picture(many).axes[0].patches) == 20


def test_names_in_any_script_are_drawn_without_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = drawing.drawn("names", (3, 2), lambda f: f.subplots().set_title("年龄 \U0001f600"))
        assert "年龄" in svg(figure)
        assert png(figure)


def test_the_page_needs_no_network(whole):
    assert "http" not in whole
    assert "<!DOCTYPE svg" not in whole
    assert not {"script", "link", "img", "image", "metadata"} & Reader(whole).tags
    assert not re.search(r"@import|@font-face|\bsrc=|<\?xml", whole)
    assert set(re.findall(r"url\((.)", whole)) == {"#"}
    assert set(re.findall(r'href="(.)', whole)) == {"#"}


def test_ids_are_unique_and_references_lead_to_them(whole):
    ids = [value for name, value in Reader(whole).attributes if name == "id"]
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', whole)) <= set(ids)


def test_numbers_are_those_of_the_evaluation():
    read = bare()
    assert {measure.title for measure in MEASURES.values()} <= set(read.within("dt"))
    assert {"0.2157", "0.1", "0.6146", "0.1789", "0.0123"} <= set(read.within("dd"))
    assert {"10,000", "9,001", "-0.1712", "1.5e-09", "53", "1.6e-08"} <= set(read.within("dd"))
    rows = ["1,001", "1,002.5", "998.25", "19,001", "19,002", "18,003"]
    points = ["0.437219", "0.7141", "0.3312", "0.1023"]
    groups = ["1,234", "567", "0.7531", "0.7012 to 0.8023", "0", "567", "— (one class)", "—"]
    never = ["∞", "0.0000", "0.0000", "—"]
    weights = ["-0.4123", "0.0212"]
    assert read.within("td") == [*rows, *points, *never, *points, *groups, *weights]
    assert read.within("strong") == ["0.7575 to 0.7781"]
    assert any("weight of their rows, is 0.7612." in text for text in read.within("p"))
    assert "mine" in read.within("th")


def test_absent_measures_are_not_shown():
    read = bare(groups=None, logLoss=None, calibrationError=None)
    assert "Groups" not in read.within("h2")
    assert not {"log loss", "calibration error"} & set(read.within("dt"))
    assert "log loss" in bare().within("dt")
    assert not re.search("histogram|Small sample", " ".join(read.within("p", "strong")))


def test_bounds_and_small_samples():
    small = copy.deepcopy(evaluation())
    small["interval"]["smallSample"] = True
    small["classes"]["positive"]["effectiveRows"] = 14.5
    read = bare(**small | {"bounds": [0.767912, 0.768123]})
    assert "0.767912 and 0.768123" in read.within("strong")
    assert "Small sample." in read.within("strong")
    assert any("Found 14.5 effective" in text for text in read.within("p"))


def test_the_smoothness_of_curves():
    assert "smoothness of curves" not in bare().within("dt")
    page = bare(model=evaluation()["model"] | {"smoothness": 0.1})
    terms, values = page.within("dt"), page.within("dd")
    assert values[terms.index("smoothness of curves")] == "0.1"


def test_candidate_models():
    numbers = ["auc", "lower", "upper", "behind", "standardError", "regParam"]
    both = {"dimension": 1234, "seconds": 2.34}
    measured = dict(zip(numbers, [0.71234, 0.7001, 0.7202, 0.0003, 0.0004, 0.00123], strict=True))
    candidates = [
        {"name": "additive", "leftOut": None} | measured | both,
        {"name": "leaves", "leftOut": "no <memory>"} | dict.fromkeys(numbers) | both,
    ]
    methods = {"chosen": 0, "best": 0, "level": 0.95, "candidates": candidates}
    read = bare(model=evaluation()["model"] | {"methods": methods})
    cells = read.within("td")
    at = cells.index("0.7001 to 0.7202")
    expected = ["0.7123", "0.7001 to 0.7202", "0.0003", "0.0004", "1,234", "0.00123", "2.3"]
    assert cells[at - 1 : at + 7] == [*expected, "chosen"]
    left_out = ["—", "—", "—", "—", "1,234", "—", "2.3", "left out: no <memory>"]
    assert cells[at + 7 : at + 15] == left_out
    assert "Candidate models" not in bare().within("h3")
    corrected = {"auc": 0.70123, "lower": 0.6912, "upper": 0.7113}
    told = methods | {"corrected": corrected, "noInterval": None}
    read = bare(model=evaluation()["model"] | {"methods": told})
    assert "0.7012" in read.within("strong")
    assert any("0.6912 to 0.7113" in " ".join(text.split()) for text in read.within("p"))
    told = methods | {"corrected": None, "noInterval": "leaves: no <memory>"}
    read = bare(model=evaluation()["model"] | {"methods": told})
    assert any("no interval: leaves: no <memory>" in " ".join(t.split()) for t in read.within("p"))


def test_names_are_escaped():
    script = "<script>alert('\"&')</script>"
    model = copy.deepcopy(evaluation()["model"])
    model["path"] = model["largestWeights"][0]["feature"] = script
    groups = copy.deepcopy(evaluation()["groups"])
    groups["column"] = groups["rows"][0]["value"] = script
    read = bare(model=model, groups=groups, data={"path": script}, thresholds={})
    assert "script" not in read.tags
    assert read.within("th").count(script) == 3
    assert read.within("dd").count(script) == 2
    assert ("aria-label", f"AUC by {script}") in read.attributes


def test_many_groups_are_told_by_their_extremes():
    groups = copy.deepcopy(evaluation()["groups"])
    found = groups.pop("rows")[0]
    lowest, highest = (found | {"value": name} for name in ("worst", "best"))
    many = {"rows": [], "lowest": [lowest], "highest": [highest], "count": 1234567}
    read = bare(groups=groups | many)
    labels = {value for name, value in read.attributes if name == "aria-label"}
    assert {"AUC by day, lowest", "AUC by day, highest"} < labels
    assert "AUC by day" not in labels
    assert {"worst", "best"} < set(read.within("th"))
    assert any("1 of 1,234,567 groups" in text for text in read.within("p"))
    assert "0.95" in read.within("dt")


def test_without_probabilities_there_is_no_calibration(drawn):
    names = ["roc", "precision_recall", "distribution", "gain"]
    assert list(pictures(evaluation() | {"reliability": None})) == names
    assert list(drawn) == [*names, "calibration"]


def test_svg_takes_the_colour_of_the_page(drawn):
    text = svg(drawn["roc"])
    assert text == svg(drawn["roc"])
    assert "pointwise 95% band</text>" in text
    assert "currentColor" in text
    assert not re.search(r"#000000|#ffffff|DejaVu", text)


def test_png_is_white(drawn):
    picture = png(drawn["roc"])
    assert picture.startswith(b"\x89PNG\r\n\x1a\n")
    np.testing.assert_array_equal(imread(io.BytesIO(picture))[0, 0], 1)


def test_wilson_bounds():
    lower, upper = _wilson(np.array([0.3, 0.0]), np.array([10.0, 0.0]))
    peer = binomtest(3, 10).proportion_ci(method="wilson")
    no_rows = (0, 1)
    np.testing.assert_allclose([lower, upper], np.transpose([peer, no_rows]), atol=1e-12)


def test_labels_may_be_text_and_a_group_null():
    result = copy.deepcopy(evaluation())
    result["classes"]["positive"]["label"] = "yes"
    result["groups"]["rows"][0]["value"] = None
    result["groups"]["gauc"] = None
    read = Reader(page(result, pictures(result)))
    assert any("yes" in text for text in read.within("text"))
    assert "null" in read.within("th")


def test_a_zipped_package_writes_the_page(tmp_path):
    archive = shutil.make_archive(str(tmp_path / "package"), "zip", ROOT, "spark_auc")
    code = (
        "import json, sys\n"
        "from spark_auc.app.report import page\n"
        "assert '.zip' in page.__file__\n"
        "sys.stdout.write(page.page(json.load(sys.stdin), {}))\n"
    )
    written = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(evaluation()),
        capture_output=True,
        text=True,
        encoding="utf-8",
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": archive, "PYTHONIOENCODING": "utf-8"},
        check=True,
    )
    assert written.stdout == page(evaluation(), {})


def test_ticks_of_logarithmic_axes_are_few_with_signs_and_digits():
    from matplotlib.figure import Figure

    from spark_auc.app.report.pictures import plain_ticks

    def drawn_axes(scale, limits, threshold=None, **more):
        axes = Figure().add_subplot()
        axes.set_xscale(scale, **more)
        axes.set_xlim(*limits)
        plain_ticks(axes, threshold)
        axes.figure.canvas.draw()
        return axes

    def texts(*args, **more):
        axes = drawn_axes(*args, **more)
        both = [*axes.get_xticklabels(), *axes.get_xticklabels(minor=True)]
        return {label.get_text().replace("\u2212", "-") for label in both} - {""}

    assert texts("symlog", (-1000, 1000), 1.0, linthresh=1.0) >= {"-1000", "-1", "0", "1", "1000"}
    narrow = texts("log", (11_000, 15_000))
    assert {"1.2e+04", "1.4e+04"} <= narrow
    assert texts("log", (0.011, 0.019)) >= {"0.012", "0.018"}
    # Two for each power of ten, and up to two beyond each end.
    assert 8 <= drawn_axes("log", (1e-6, 1e2)).xaxis.get_minorticklocs().size <= 2 * 8 + 4
