"""The shape of the papers' experiments, its statistics, pages and runner."""

import json
import re

import numpy as np
import pytest
from scipy import stats

from experiments import documented, mba, reproduce
from experiments.experiment import (
    AbsentError,
    Experiment,
    Limits,
    Measure,
    Point,
    Record,
    Results,
    superior,
)
from experiments.page import page, pictures
from spark_auc.core.batch import Batch


def rows(request):
    """A hundred rows of a set; "gone" is not there."""
    if request.set == "gone":
        raise AbsentError("found no gone")
    rng = np.random.default_rng(request.seed)
    return (Batch(rng.normal(size=(n, 2)), np.arange(n) % 2 == 0) for n in (100, 900))


def declared(**changes):
    def point(gain):
        return lambda case: [Point({"auc": case.train.X.mean() + gain, "seconds": 1.0})]

    given = {
        "paper": "A paper",
        "what": "Table 1",
        "title": "title",
        "about": "About.",
        "claim": "ours is better",
        "verdict": superior(["ours"], ["theirs"]),
        "sets": dict.fromkeys(["here", "gone"], rows),
        "methods": {"ours": point(1), "theirs": point(0)},
        "own": ["ours"],
        "measures": {
            "auc": Measure("AUC", paper={"here": {"ours": (90.0, 0.5), "theirs": (80.0, None)}}),
            "seconds": Measure("seconds", ".3f"),
        },
        "repeats": 4,
    }
    return Experiment(**given | changes)


def results(ours, theirs):
    return Results(
        [
            Record("set", repeat, method, {"auc": value})
            for method, values in (("ours", ours), ("theirs", theirs))
            for repeat, value in enumerate(values)
        ]
    )


def test_comparisons_are_paired_t_tests():
    rng = np.random.default_rng(1)
    seen = set()
    for shift in np.linspace(-1, 1, 21):
        common = 5 * rng.normal(size=6)
        ours, theirs = common + shift, common + 0.5 * rng.normal(size=6)
        found = results(ours, theirs).compared("set", ["ours"], "theirs", "auc")
        p = stats.t.sf(abs(t := np.mean(d := ours - theirs) / stats.sem(d)), 5) * 2
        assert found == (np.sign(t) if p < 0.05 else 0)
        seen.add(found)
    assert seen == {-1, 0, 1}
    # Without a deviation there is no t; one repeat decides nothing.
    assert results([2, 3], [1, 2]).compared("set", ["ours"], "theirs", "auc") == 1
    assert results([2, 3], [2, 3]).compared("set", ["ours"], "theirs", "auc") == 0
    assert results([2], [1]).compared("set", ["ours"], "theirs", "auc") is None


def test_the_best_of_the_papers_methods_is_compared():
    found = Results([*results([1, 2], [3, 5]).records, Record("set", 0, "other", {"auc": 9})])
    assert found.compared("set", ["ours", "theirs"], "other", "auc") is None
    assert found.compared("set", ["theirs", "missing"], "ours", "auc") == 0
    assert found.tally(["theirs"], "ours", "auc") == (0, 1, 0)


def test_limits_bound_rows_and_repeats_and_times(monkeypatch):
    sizes = []

    def method(case):
        sizes.append((case.train.y.size, case.test.y.size))
        return [Point({"auc": 1.0})]

    made = declared(methods={"ours": method}, row_scale=2)
    for limits, count in (
        (Limits(), 4),
        (Limits(repeats=3), 3),
        (Limits(repeats=9, rows=10), 4),
        (Limits(seconds=1e-9), 3),
    ):
        sizes.clear()
        assert list(made.run(None, limits, 0).absent) == ["gone"]
        assert sizes == [(20, 80) if limits.rows else (100, 900)] * count
    with pytest.raises(AbsentError, match="none of its sets"):
        declared(sets={"gone": rows}).run(None, Limits(), 0)


def test_runs_repeat_themselves():
    first, again, other = (declared().run(None, Limits(), seed) for seed in (1, 1, 2))
    assert first.records == again.records
    assert first.records != other.records


def test_a_page_has_means_deviations_tests_and_absent_sets():
    made = declared()
    found = made.run(None, Limits(), 0)
    text = page(made, found, Limits(rows=7), 3.0)
    ours = found.values("here", "ours", "auc")
    cell = f"{ours.mean():.2f} ± {ours.std(ddof=1):.2f} (90.00 ± 0.50)"
    theirs = found.values("here", "theirs", "auc")
    other = f"{theirs.mean():.2f} ± {theirs.std(ddof=1):.2f} (80.00) ●"
    assert f"| here | {cell} | {other} |" in text
    assert "| win/tie/loss |  | 1/0/0 |" in text
    assert "ours is better, holds: sets on which ours wins, ties and loses: theirs 1/0/0." in text
    assert "that are not here: gone." in text
    assert "Repeats of each set: 4 of 4. Limits: training rows of a repeat: 7." in text
    drawn = pictures(made, found)
    assert [len(each.axes) for each in drawn.values()] == [2, 2]


def test_a_curve_has_a_panel_for_each_set_and_few_places_in_its_table():
    def curve(case):
        return [Point({"auc": float(x), "seconds": x / 2}, float(x)) for x in range(40)]

    made = declared(methods={"ours": curve}, x="steps", against="seconds")
    found = made.run(None, Limits(), 0)
    (figure,) = pictures(made, found).values()
    (axes,) = figure.axes
    np.testing.assert_allclose(axes.lines[0].get_xdata().astype(float), np.arange(40) / 2)
    assert axes.get_xlabel() == "seconds"
    text = page(made, found, Limits(), 0.0)
    assert [line.split("|")[2].strip() for line in text.splitlines() if "| here" in line][:8] == [
        *("0", "6", "11", "17", "22", "28", "33", "39")
    ]


@pytest.fixture
def job(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(mba, "EXPERIMENTS", {})

    def started(experiments, *arguments):
        mba.EXPERIMENTS.update(experiments)
        monkeypatch.setattr(reproduce, "EXPERIMENTS", experiments)
        monkeypatch.setattr(reproduce, "MODULES", (mba,))
        code = reproduce.run([*arguments, "--output", str(tmp_path / "out")])
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def test_pages_are_published_one_by_one_and_failures_are_told(job, tmp_path):
    runs = []

    def counted(case):
        runs.append(case.set)
        return [Point({"auc": 1.0, "seconds": 1.0})]

    def broken(case):
        raise ZeroDivisionError("lost")

    fine = declared(methods={"ours": counted, "theirs": counted})
    experiments = {
        "first": declared(methods={"ours": broken}),
        "second": fine,
        "third": declared(sets={"gone": rows}),
    }
    code, result = job(experiments)
    assert (code, result["status"]) == (1, "failed")
    found = {name: each["status"] for name, each in result["experiments"].items()}
    assert found == {"first": "failed", "second": "ok", "third": "left out"}
    out = tmp_path / "out"
    index = (out / "index.md").read_text()
    assert "ZeroDivisionError: lost" in index
    assert "[A paper, Table 1](second/page.md)" in index
    assert {each.name for each in (out / "second").iterdir()} == {
        *("auc.png", "seconds.png", "page.md", "results.json")
    }
    stored = json.loads((out / "second" / "results.json").read_text())
    assert len(stored["records"]) == 8
    # A second run does what is left; other limits or another code run all again.
    count = len(runs)
    assert job(experiments | {"first": fine})[0] == 0
    assert len(runs) == 2 * count
    assert "ZeroDivisionError" not in (out / "index.md").read_text()
    job(experiments | {"first": fine}, "--repeats", "1")
    assert len(runs) == 2 * count + 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tabel"], "'tabel', expected one of table, other.*mean 'table'"),
        (["--data", "nowhere"], "found nothing at 'nowhere'"),
        (["--repeats", "0"], "expected repeats of at least 1"),
    ],
)
def test_mistakes_are_named_before_anything_runs(job, arguments, message):
    code, result = job({"table": declared(), "other": declared()}, *arguments)
    assert code == 2
    assert re.search(message, result["message"])


def test_the_documentation_has_verdicts_small_pictures_and_tables(job, tmp_path, monkeypatch):
    def curve(case):
        return [Point({"auc": float(x), "seconds": x / 2}, float(x)) for x in range(3)]

    experiments = {
        "table": declared(),
        "curve": declared(methods={"ours": curve}, x="steps", against="seconds"),
        "lost": declared(methods={"ours": lambda case: 1 / 0}),
        "never": declared(),
    }
    job(experiments, "table", "curve", "lost", "--quick")
    monkeypatch.setattr(documented, "EXPERIMENTS", experiments)
    (tmp_path / "docs" / "guides").mkdir(parents=True)
    text = documented.documented(tmp_path / "out", tmp_path / "docs")
    assert text.strip() == (tmp_path / "docs/guides/reproduction.md").read_text().strip()
    assert text.count("\n## A paper, Table 1: title\n") == 2
    assert text.count("**The claim, ours is better, ") == 2
    # The first table of the table alone; of three outcomes a line each.
    assert text.count("| data |") == 1
    assert "AUC: mean" in text
    assert "seconds: mean" not in text
    assert next(line for line in text.splitlines() if "Table 1 |" in line).count("failed") == 1
    assert "training rows of a repeat: 1,200" in text
    pictures = {each.name: each for each in (tmp_path / "docs/images/papers").iterdir()}
    assert set(pictures) == {"table-auc.png", "table-seconds.png", "curve-auc.png"}
    for name in re.findall(r"\]\(\.\./images/papers/([^)]+)\)", text):
        assert pictures.pop(name).stat().st_size < 60_000
    assert not pictures
