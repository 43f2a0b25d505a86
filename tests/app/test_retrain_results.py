"""What a user sees of a retraining: results by exit code, the log, and the pages."""

import json
import logging
from html.parser import HTMLParser
from pathlib import Path

import pytest

from spark_auc.app.cli import main
from spark_auc.app.running import run
from spark_auc.errors import StoreConflict
from spark_auc.store.moment_store import MomentStore
from tests.app.test_retrain import day, records, retrain, written

pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]


class Tables(HTMLParser):
    """The cells of a page's tables by label, and its text."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.text, self.links, self.is_cell = {}, "", [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == "div" and "aria-label" in attrs:
            self.rows = self.tables[attrs["aria-label"]] = []
        elif tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")
            self.is_cell = True
        elif tag == "a":
            self.links.append(attrs["href"])

    def handle_endtag(self, tag):
        self.is_cell = self.is_cell and tag not in ("td", "th")

    def handle_data(self, data):
        self.text += data
        if self.is_cell:
            self.rows[-1][-1] += data.strip()


def full(k):
    return json.loads(Path(f"history/{day(k)}.json").read_text())


@pytest.mark.slow
def test_each_period_has_a_page_and_a_line(retrain):
    for k in range(4):
        written(k, shift=3.0 if k == 3 else 0.0)
    code, result = retrain(3)
    # The result of a run that drift stopped has all decisions, too.
    assert (code, result["status"], result["error"]) == (5, "error", "DriftError")
    assert [p["outcome"] for p in result["periods"]] == [
        "stored", "promoted", "kept", "quarantined",
    ]  # fmt: skip
    assert (result["decision"], result["champion"]) == ("quarantined", day(1))

    history = Tables(Path("history/history.html").read_text())
    assert history.links == [f"{day(k)}.html" for k in reversed(range(4))]
    page = Tables(Path(f"history/{day(2)}.html").read_text())
    record = full(2)
    assert f"{day(2)}: kept" in page.text
    assert record["reason"] in page.text
    auc = {row[0]: row[1:] for row in page.tables["AUC"][1:]}
    assert auc == {
        name: [f"{record['gate']['auc'][key][part]:.4f}" for part in ("auc", "lower", "upper")]
        for name, key in (("challenger", "challenger"), (f"champion ({day(1)})", "champion"))
    }
    head, *penalties = page.tables["Penalties"]
    assert head == ["regParam", "elasticNetParam", "window 2", "window 7"]
    assert [row[0] for row in penalties] == ["0.001", "0.1"]
    for place, row in enumerate(penalties):
        found = [record["challenger"]["selections"][w][place]["auc"] for w in ("2", "7")]
        assert row[2:] == [f"{value:.4f}" for value in found]
    assert page.tables["Drift"][4][1:] == [f"{record['drift']['psi']:.4f}", "0.1", "0.25"]
    shifts = [row[0] for row in page.tables["Shifts"][1:]]
    assert {"age", "price"} <= set(shifts)
    columns = {row[0]: row for row in page.tables["Raw columns"][1:]}
    assert columns["city"][1:6] == ["tokens", "0.00%", "0.00%", "0.00%", "0.00%"]
    phases = {row[0]: float(row[1]) for row in page.tables["Time"][1:]}
    assert list(phases) == [
        "moments", "training", "drift", "decision", "publication", "store", "all",
    ]  # fmt: skip
    assert phases["all"] == pytest.approx(sum(record["phases"].values()), abs=0.06)
    sizes = sum(p.stat().st_size for p in Path("moments").rglob("part-*.parquet"))
    assert 0 < record["store"]["bytes"] <= sizes
    assert record["store"]["periods"] == 3
    stopped = Tables(Path(f"history/{day(3)}.html").read_text())
    assert full(3)["drift"]["stops"][0] in stopped.text
    for k in range(4):
        text = Path(f"history/{day(k)}.html").read_text()
        assert "None" not in text
        assert "http" not in text

    # A line of the log is the record without what only its page needs.
    for k, line in enumerate(records()):
        whole = full(k)
        del whole["columns"]
        if whole["challenger"]:
            del whole["challenger"]["selections"]
        assert line == whole


@pytest.mark.slow
def test_the_last_line_is_the_result_after_every_end(retrain, monkeypatch, caplog):
    """Exit codes 0, 1, 2, 3, 4 and 75; 5 is above."""
    caplog.set_level(logging.INFO)
    for k in range(3):
        written(k)
    ended = {}
    code, ended["ok"] = retrain(0)
    assert (code, ended["ok"]["decision"]) == (0, "stored")
    said = [r.message for r in caplog.records]
    assert any(text.startswith(f"period {day(0)}: stored, no earlier periods") for text in said)
    assert f"period {day(0)}, 1 of 1" in said

    code, ended["config"] = retrain(1, folds=0)
    assert code == 2
    solver = {"regParams": [1e-3], "elasticNetParams": [0.5], "tol": 1e-300, "maxIter": 1}
    code, ended["solver"] = retrain(1, training=solver)
    assert code == 4, ended["solver"]
    Path(f"clicks/{day(1)}.parquet").replace("kept")
    written(1, rows=0)
    code, ended["data"] = retrain(1)
    assert code == 3, ended["data"]
    Path("kept").replace(f"clicks/{day(1)}.parquet")
    for error, expected in ((StoreConflict("found another job"), 75), (RuntimeError("a\nb"), 1)):
        with monkeypatch.context() as failing:
            failing.setattr(
                MomentStore, "put", lambda *_, error=error: (_ for _ in ()).throw(error)
            )
            code, ended[expected] = retrain(1)
        assert (code, ended[expected]["error"]) == (expected, type(error).__name__)
        assert ended[expected]["message"]
    code, ended["last"] = retrain(1)
    assert (code, ended["last"]["decision"], ended["last"]["champion"]) == (0, "promoted", day(1))
    for result in ended.values():
        assert result["job"] == "retrain"
        assert result["status"] in ("ok", "error")
        assert result["seconds"] >= 0


def test_arguments_that_are_refused_have_a_result(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["retrain", "--nothing"])
    assert ended.value.code == 2
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["status"], result["error"]) == ("error", "ConfigError")
    assert "--nothing" in result["message"]
    assert run("retrain", "missing.yaml") == 2
