"""Retraining by period: decisions, states that a run can leave, and what they are completed to."""

import json
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.champion import read_champion
from spark_auc.app.running import run
from spark_auc.features.raw_columns import Numbers
from spark_auc.store.moment_store import MomentStore
from tests.features.raw_rows import text

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")

FIRST = date(2026, 3, 1)
CITIES = np.array(["Bern", "Rome", "Oslo"])


def day(k):
    return (FIRST + timedelta(days=k)).isoformat()


def written(k, *, turn=99, flipped=False, rows=900, shift=0.0, seed=0):
    """Write the rows of day ``k``; from day ``turn`` on another column matters."""
    rng = np.random.default_rng([seed, k])
    y = rng.random(rows) < 0.35
    effect = np.array([1.0, 0.0]) if k < turn else np.array([0.0, 1.5])
    X = rng.normal(size=(rows, 2)) + y[:, None] * effect + shift
    city = CITIES[rng.integers(0, 3, rows)]
    label = (y ^ flipped).astype(int)
    table = pa.table({"label": label, "age": X[:, 0], "price": X[:, 1], "city": city})
    Path("clicks").mkdir(exist_ok=True)
    pq.write_table(table, f"clicks/{day(k)}.parquet")


SECTION = {
    "data": {"path": "clicks/{period}.parquet"},
    "features": {"standard": ["age", "price"], "tokens": ["city"], "auto": False, "dimension": 16},
    "store": "moments",
    "history": "history",
    "folds": 3,
    "windows": [2, 7],
    "training": {"regParams": [1e-3, 1e-1]},
    "output": {"path": "model"},
}


@pytest.fixture
def retrain(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def started(k, **others):
        section = SECTION | {"first": day(0), "period": day(k)} | others
        Path("conf.yaml").write_text(yaml.safe_dump({"retrain": section}))
        code = run("retrain", "conf.yaml")
        return code, json.loads(capsys.readouterr().out.splitlines()[-1])

    return started


def records():
    return [json.loads(line) for line in Path("history/history.jsonl").read_text().splitlines()]


def test_first_days_store_then_publish_then_keep(retrain):
    for k in range(4):
        written(k)
    code, result = retrain(3)
    assert code == 0, result
    assert [p["outcome"] for p in result["periods"]] == ["stored", "promoted", "kept", "kept"]
    assert result["champion"] == day(1)
    assert result["stored"] == 4
    second = records()[1]
    assert second["challenger"]["to"] == day(0)
    assert second["gate"]["auc"]["challenger"]["lower"] > 0.5
    third = records()[2]
    assert set(third["gate"]["auc"]) == {"challenger", "champion"}
    assert abs(third["z"]) < 2


@pytest.mark.slow
def test_rows_of_stored_periods_are_not_read_again(retrain):
    written(0)
    assert retrain(0)[0] == 0
    for k in range(1, 4):
        Path(f"clicks/{day(k - 1)}.parquet").unlink()
        written(k)
        code, result = retrain(k)
        assert code == 0, result
    assert result["stored"] == 4


def test_a_rerun_changes_nothing(retrain):
    for k in range(3):
        written(k)
    first = retrain(2)[1]
    before = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file() and p.suffix != ".crc"}
    for _ in range(2):
        code, again = retrain(2)
        assert code == 0
        assert (again["decision"], again["champion"]) == (first["decision"], first["champion"])
        assert again["periods"] == []
    after = {p: p.read_bytes() for p in Path().rglob("*") if p.is_file() and p.suffix != ".crc"}
    assert {p: after[p] for p in before if p.name != "conf.yaml"} == {
        p: b for p, b in before.items() if p.name != "conf.yaml"
    }


@pytest.mark.slow
def test_a_change_of_the_rows_is_won_by_a_short_window(retrain):
    for k in range(9):
        written(k, turn=4, rows=2500)
    code, result = retrain(8, windows=[1, 7])
    assert code == 0, result
    by_day = {r["period"]: r for r in records()}
    # The first day after the change is trained on at the gate of the next day.
    assert by_day[day(5)]["won"]
    assert by_day[day(5)]["gate"]["auc"]["challenger"]["auc"] > 0.75
    assert by_day[day(5)]["gate"]["auc"]["champion"]["auc"] < 0.6
    assert by_day[day(6)]["challenger"]["window"] == "1"


def by_all_rows(recipe, record):
    """Weights by numpy of the challenger's window, penalty and recipe, from the rows' files."""
    made = record["challenger"]
    days = [made["from"]]
    while days[-1] < made["to"]:
        days.append((date.fromisoformat(days[-1]) + timedelta(days=1)).isoformat())
    tables = [pq.read_table(f"clicks/{d}.parquet") for d in days]
    table = pa.concat_tables(tables)
    columns = {name: Numbers(table[name].to_numpy()) for name in ("age", "price")} | {
        "city": text(table["city"].to_pylist())
    }
    X, y = recipe.transform(columns).toarray(), table["label"].to_numpy() > 0
    mu = X[y].mean(0) - X[~y].mean(0)
    Sigma = np.cov(X[y].T, bias=True) + np.cov(X[~y].T, bias=True) + np.outer(mu, mu)
    varies = np.diag(Sigma) > 1e-12
    w = np.zeros(mu.size)
    S = Sigma[np.ix_(varies, varies)] + made["regParam"] * np.eye(int(varies.sum()))
    w[varies] = np.linalg.solve(S, mu[varies])
    return w


def test_the_champion_is_that_of_all_rows_of_its_window(retrain):
    for k in range(5):
        written(k)
    assert (
        retrain(4, gate={"oldest": 1}, training={"regParams": [1e-3, 1e-1], "tol": 1e-12})[0] == 0
    )
    champion = read_champion("model")
    assert champion.record["challenger"]["periods"] > 1
    expected = by_all_rows(champion.model.recipe, champion.record)
    found = champion.model.ranker.scorer.w
    np.testing.assert_allclose(found, expected, atol=1e-10 * np.abs(expected).max())


@pytest.mark.slow
def test_flipped_labels_win_no_gate(retrain):
    for k in range(7):
        written(k, flipped=k in (3, 5))
    code, result = retrain(6)
    by_day = {r["period"]: r for r in records()}
    assert code == 0, result
    for k in (3, 4, 5, 6):
        assert by_day[day(k)]["outcome"] != "promoted"


@pytest.mark.slow
def test_a_shifted_period_is_quarantined_then_accepted_or_excluded(retrain):
    for k in range(6):
        written(k, shift=4.0 if k == 3 else 0.0)
    code, result = retrain(4)
    assert code == 5
    assert f"{day(3)} (the scores' stability index" in result["message"]
    outcomes = {r["period"]: r["outcome"] for r in records()}
    assert outcomes[day(3)] == "quarantined"
    assert outcomes[day(4)] == "kept"
    assert retrain(4)[0] == 0
    code, result = retrain(5, exclude=[day(3)])
    assert code == 0
    assert result["stored"] == 5
    assert records()[3]["excluded"]
    code, result = retrain(5, accept=[day(3)])
    assert code == 0
    assert result["stored"] == 6
    assert result["periods"] == [
        {"period": day(3), "outcome": "stored", "reason": records()[3]["reason"]}
    ]
    assert not records()[3]["excluded"]


@pytest.mark.slow
def test_a_period_that_is_excluded_beforehand_hides_no_others(retrain):
    for k in (0, 1, 2, 4):
        written(k)
    assert retrain(0, exclude=[day(3)])[0] == 0
    code, result = retrain(4)
    assert code == 0
    assert [p["period"] for p in result["periods"]] == [day(1), day(2), day(4)]


def test_one_class_is_quarantined(retrain):
    for k in range(3):
        written(k)
    table = pq.read_table(f"clicks/{day(2)}.parquet")
    pq.write_table(table.filter(pa.compute.equal(table["label"], 0)), f"clicks/{day(2)}.parquet")
    code, result = retrain(2)
    assert code == 5
    assert "0 positive" in result["message"]


@pytest.mark.slow
def test_a_dry_run_writes_nothing(retrain):
    for k in range(3):
        written(k)
    assert retrain(1)[0] == 0
    before = {p for p in Path().rglob("*") if p.is_file()}
    code, result = retrain(2, dryRun=True)
    assert code == 0
    assert result["periods"][0]["outcome"] == "kept"
    assert {p for p in Path().rglob("*") if p.is_file()} == before


@pytest.mark.slow
def test_few_rows_are_pooled(retrain):
    for k in range(6):
        written(k, rows=300)
    code, result = retrain(5)
    assert code == 0, result
    by_day = {r["period"]: r for r in records()}
    assert by_day[day(1)]["outcome"] == "stored"
    promoted = next(r for r in records() if r["outcome"] == "promoted")
    assert min(promoted["gate"]["rows"]) >= 200
    assert promoted["challenger"]["to"] < day(int(promoted["period"][-2:]) - 2)


@pytest.mark.slow
def test_prepared_columns_with_weights_keys_and_labels_of_text(retrain):
    for k in range(3):
        written(k)
        table = pq.read_table(f"clicks/{day(k)}.parquet")
        rng = np.random.default_rng(k)
        label = np.where(table["label"].to_numpy() > 0, "yes", "no")
        table = table.drop_columns(["label", "city"]).append_column("bought", pa.array(label))
        for name, most in (("share", 4), ("user", 50)):
            table = table.append_column(name, pa.array(rng.integers(1, most, label.size)))
        pq.write_table(table, f"clicks/{day(k)}.parquet")
    columns = {
        "features": ["age", "price"],
        "label": "bought",
        "positiveLabel": "yes",
        "weight": "share",
        "key": "user",
    }
    code, result = retrain(2, features=None, columns=columns)
    assert code == 0, result
    assert [r["outcome"] for r in records()] == ["stored", "promoted", "kept"]
    table = pq.read_table(f"clicks/{day(1)}.parquet")
    w = read_champion("model").model.ranker.scorer.w
    scores = w[0] * table["age"].to_numpy() + w[1] * table["price"].to_numpy()
    y, weight = table["bought"].to_numpy() == "yes", table["share"].to_numpy()
    pairs = np.outer(weight[y], weight[~y])
    expected = pairs[scores[y][:, None] > scores[~y]].sum() / pairs.sum()
    assert records()[1]["gate"]["auc"]["challenger"]["auc"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.slow
def test_a_gate_pools_no_excluded_and_no_deleted_rows(retrain):
    """A pattern matches nothing after the deletion, as the path of an object store does."""
    pattern = {"data": {"path": "clicks/{period}*.parquet"}}
    for k in range(6):
        written(k, rows=1000 if k < 3 else 100)
    assert retrain(3, **pattern)[1]["champion"] == day(1)
    code, result = retrain(4, **pattern, exclude=[day(3)])
    assert code == 0, result
    fourth = records()[4]
    assert sum(fourth["gate"]["rows"]) == 1100
    Path(f"clicks/{day(2)}.parquet").unlink()
    code, result = retrain(5, **pattern)
    assert code == 0, result
    assert "fewer than 200" in records()[5]["reason"]
    assert "gate" not in records()[5]


@pytest.mark.slow
def test_of_two_jobs_at_once_the_later_replaces_nothing(retrain, monkeypatch):
    for k in range(3):
        written(k)
    retrain(0)
    # Another job decides about the same period and the next while this one trains.
    from spark_auc.app.jobs import retrain_period

    trained = retrain_period.challenger

    def slow(*arguments):
        monkeypatch.setattr(retrain_period, "challenger", trained)
        assert retrain(2)[0] == 0
        return trained(*arguments)

    monkeypatch.setattr(retrain_period, "challenger", slow)
    code, result = retrain(1)
    assert code == 75, result
    assert [r["outcome"] for r in records()] == ["stored", "promoted", "kept"]
    assert all(r["completed"] for r in records())
    assert read_champion("model").period == day(1)
    # A champion that changed without a record is a conflict, too.
    before = Path("model/manifest.json").read_bytes()
    Path(f"history/{day(2)}.json").unlink()
    written(3)
    monkeypatch.setattr("spark_auc.app.jobs.champion.published_record", lambda _: None)
    code, result = retrain(3, gate={"oldest": 1})
    assert (code, Path("model/manifest.json").read_bytes()) == (75, before), result


class Dead(BaseException):
    """The process was killed."""


@pytest.mark.slow
@pytest.mark.parametrize("step", ["publish", "record", "store", "completed"])
def test_a_run_that_was_killed_is_completed(retrain, made_once, monkeypatch, step):
    def begin():
        for k in range(3):
            written(k)
        retrain(0)

    def end():
        begin()
        assert retrain(1)[1]["decision"] == "promoted"

    made_once("ended", end)
    expected = read_champion("model"), records(), sorted(stored())
    made_once("begun", begin)

    def die(*_, **__):
        raise Dead

    with monkeypatch.context() as dying:
        if step == "publish":
            dying.setattr("spark_auc.app.jobs.champion.write_champion", die)
        elif step == "record":
            dying.setattr("spark_auc.app.jobs.retrain_history.History.write", die)
        elif step == "store":
            dying.setattr("spark_auc.store.moment_store.MomentStore.put", die)
        else:
            put = MomentStore.put

            def put_and_die(*arguments):
                put(*arguments)
                raise Dead

            dying.setattr("spark_auc.store.moment_store.MomentStore.put", put_and_die)
        with pytest.raises(Dead):
            retrain(1)
    if step == "completed":
        Path(f"clicks/{day(1)}.parquet").unlink()
    code, result = retrain(1)
    assert code == 0, result
    champion, expected_records, rows = expected
    found = read_champion("model")
    assert found.record["period"] == champion.record["period"] == day(1)
    np.testing.assert_array_equal(found.model.ranker.scorer.w, champion.model.ranker.scorer.w)
    assert [r["outcome"] for r in records()] == [r["outcome"] for r in expected_records]
    assert all(r["completed"] for r in records())
    assert sorted(stored()) == rows


def stored():
    """The stored rows of all periods."""
    table = deltalake.DeltaTable("moments").to_pyarrow_table()
    return [tuple(map(str, row.values())) for row in table.to_pylist()]


@pytest.mark.slow
def test_other_settings_need_a_full_refresh_which_is_done_once(retrain):
    for k in range(6):
        written(k)
    retrain(1)
    other = SECTION["features"] | {"dimension": 32}
    code, result = retrain(2, features=other)
    assert code == 2
    assert "fullRefresh" in result["message"]
    # The request may stay in the configuration.
    request = {"features": other, "fullRefresh": date(2026, 3, 3), "first": None}
    code, result = retrain(2, **request)
    assert code == 0, result
    assert list(result["lacking"].values()) == [[day(0), day(1)]]
    schema = result["schemaId"]
    for k in (3, 3, 4):
        code, result = retrain(k, **request)
        assert (code, result["schemaId"]) == (0, schema) if result["periods"] else code == 0
    assert result["stored"] == 3
    assert records()[3]["challenger"]["from"] == day(2)
    # Another request begins again, with the same settings.
    code, result = retrain(5, features=other, fullRefresh="again", first=None)
    assert (code, result["stored"], len(result["lacking"])) == (0, 1, 2), result
    assert result["schemaId"] != schema


@pytest.mark.slow
def test_rows_without_a_column_of_the_champion(retrain):
    for k in range(5):
        written(k)
    assert retrain(2)[1]["champion"] == day(1)
    for k in (3, 4):
        table = pq.read_table(f"clicks/{day(k)}.parquet")
        pq.write_table(table.drop_columns(["price"]), f"clicks/{day(k)}.parquet")
    fewer = {"features": SECTION["features"] | {"standard": ["age"]}, "fullRefresh": "no price"}
    fewer |= {"first": None}
    code, result = retrain(3, **fewer)
    assert code == 2
    assert "withoutChampion" in result["message"]
    assert "price" in result["message"]
    fewer |= {"gate": {"withoutChampion": True}}
    code, result = retrain(3, **fewer)
    assert (code, result["decision"], result["champion"]) == (0, "kept", day(1)), result
    code, result = retrain(4, **fewer)
    assert (code, result["decision"], result["champion"]) == (0, "promoted", day(4)), result
    assert "lack columns of the champion" in records()[4]["reason"]
    assert records()[4]["won"]


@pytest.mark.slow
def test_a_changed_negative_label_is_refused(retrain):
    columns = {"positiveLabel": 1}
    for k in range(2):
        written(k)
    assert retrain(0, columns=columns)[0] == 0
    table = pq.read_table(f"clicks/{day(1)}.parquet")
    label = np.where(table["label"].to_numpy() > 0, 1, 2)
    table = table.set_column(0, "label", pa.array(label))
    pq.write_table(table, f"clicks/{day(1)}.parquet")
    code, result = retrain(1, columns=columns)
    assert code == 3
    assert "found the label 2.0" in result["message"]
    assert len(records()) == 1


def test_mistakes_are_named_before_spark(retrain):
    written(0)
    for others, found in [
        ({"data": {"path": "clicks/all.parquet"}}, "{period}"),
        ({"store": "model/inner"}, "inside"),
        ({"windows": [7, 7]}, "distinct"),
        ({"folds": 1}, "folds"),
        ({"columns": {"fold": "f"}}, "fold"),
    ]:
        code, result = retrain(0, **others)
        assert code == 2, others
        assert found in result["message"]
    code, result = retrain(1)
    assert code == 2
    assert day(1) in result["message"]


@pytest.mark.slow
def test_a_page_shows_all_periods(retrain):
    for k in range(3):
        written(k)
    retrain(2, exclude=[day(9)])
    page = Path("history/history.html").read_text()
    for found in (day(0), day(2), day(9), "promoted", "<svg", "challenger"):
        assert found in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("https://www.w3.org", "")
