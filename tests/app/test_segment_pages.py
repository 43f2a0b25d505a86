"""What the pages of a retraining show of segments, whose names are values of the data."""

from spark_auc.app.report.history import history_page, period_page
from tests.app.test_retrain_results import Tables

BAD = "<script>alert('é')</script>"
MADE = {
    "column": "<b>site</b>",
    "chosen": 0.3,
    "strengths": [
        {"strength": "global", "within": 0.71, "error": 0.0, "overall": 0.75},
        {"strength": 0.01, "within": 0.7, "error": 0.004, "overall": 0.74},
        {"strength": 0.3, "within": 0.7234, "error": 0.003, "overall": 0.76},
    ],
    "segments": {
        BAD: {"positive": 1200, "negative": 3400, "global": 0.7, "auc": 0.72},
        "items": {"positive": 60, "negative": 70, "global": 0.71, "auc": 0.73},
        "keys": {"positive": 60, "negative": 70, "global": 0.71, "auc": 0.75},
    },
}
JUDGED = {
    BAD: {"rows": [210, 4000], "auc": {"challenger": 0.69, "champion": 0.68}},
    "items": {"rows": [5, 0], "auc": {"challenger": None, "champion": None}},
}


def record(segments, judged=None):
    made = {
        "window": "7",
        "periods": 3,
        "from": "2026-03-01",
        "to": "2026-03-03",
        "regParam": 0.1,
        "elasticNetParam": 0.0,
        "rows": [1000, 5000],
        "selections": {},
    } | ({} if segments is None else {"segments": segments})
    auc = {"auc": 0.7, "lower": 0.6, "upper": 0.8}
    gate = {"rows": [215, 4000], "auc": {"challenger": auc, "champion": auc}}
    gate |= {} if judged is None else {"segments": judged}
    return {
        "period": "2026-03-04",
        "outcome": "kept",
        "reason": "so",
        "completed": True,
        "challenger": made,
        "gate": gate,
    }


def test_the_page_of_a_period_has_its_segments():
    text = period_page(record(MADE, JUDGED))
    assert "<script" not in text
    assert "<b>" not in text
    page = Tables(text)
    assert page.tables["Shrinkage"][1:] == [
        ["global", "0.7100", "0.0000", "0.7500"],
        ["0.01", "0.7000", "0.0040", "0.7400"],
        ["0.3 (chosen)", "0.7234", "0.0030", "0.7600"],
    ]
    assert "all rows with weight 0.3" in page.text
    head, *rows = page.tables["Segments"]
    assert len(head) == 9
    assert rows == [
        [BAD, "1,200", "3,400", "0.7000", "0.7200", "0.6900", "0.6800", "210", "4,000"],
        ["items", "60", "70", "0.7100", "0.7300", "—", "—", "5", "0"],
        ["keys", "60", "70", "0.7100", "0.7500", "—", "—", "—", "—"],
    ]
    without = Tables(period_page(record(MADE)))
    assert [len(row) for row in without.tables["Segments"]] == [5] * 4


def test_pages_of_one_ranker():
    kept = Tables(period_page(record(MADE | {"chosen": "global"})))
    assert "The ranker of all rows serves all segments." in kept.text
    assert kept.tables["Shrinkage"][1][0] == "global (chosen)"
    few = {"column": "site", "chosen": "global", "segments": {}}
    assert "No segment has enough rows" in period_page(record(few))
    assert "Segments" not in period_page(record(None))


def test_the_history_has_the_shrinkage_of_each_challenger():
    records = [record(MADE), record(None), {"period": "2026-03-05", "outcome": "stored"}]
    text = history_page([r | {"reason": "so", "rows": [1, 2]} for r in records])
    assert "<b>" not in text
    head, *rows = Tables(text).tables["Decisions by period"]
    at = head.index("segments")
    assert [row[at] for row in rows] == ["—", "—", "0.3 (<b>site</b>)"]
    assert all(len(row) == len(head) for row in rows)
    assert "segments" not in Tables(history_page(records[1:])).tables["Decisions by period"][0]
