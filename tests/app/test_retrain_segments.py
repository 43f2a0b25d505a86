"""Retraining with rankers of segments, beside a fresh build from the rows of the window."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from spark_auc.app.jobs.champion import read_champion
from spark_auc.app.running import run
from spark_auc.core.batch import Batch
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.core.sampling.folds import Folds
from spark_auc.features.raw_columns import Numbers
from spark_auc.solvers.candidates import Candidate
from spark_auc.store.moment_store import MomentStore
from spark_auc.training.fold_moments import FoldsInMemory
from spark_auc.training.segments import REST, segment_rankers
from spark_auc.training.settings import TrainingSettings
from tests.app.test_retrain import SECTION, day, records, retrain
from tests.app.transformed import transformed
from tests.features.raw_rows import text

pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("spark")
__all__ = ["retrain"]

CITIES = np.array(["Bern", "Oslo", "Rome", "Nice"])
EFFECT = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -0.6], [0.5, 0.5]])
SEGMENTS = {"training": {"regParams": [1e-3, 1e-1], "tol": 1e-11, "segmentCol": "city"}}


def written(k, rows=900):
    """Write the rows of day ``k``: Rome has none on day 1, and Nice, from day 2 on, is unknown."""
    rng = np.random.default_rng([7, k])
    number = rng.choice(4 if k > 1 else 3, rows)
    if k == 1:
        number[number == 2] = 0
    y = rng.random(rows) < np.array([0.3, 0.5, 0.2, 0.3])[number]
    X = rng.normal(size=(rows, 2)) + y[:, None] * EFFECT[number]
    city = np.where(rng.random(rows) < 0.05, None, CITIES[number])
    label = y.astype(int)
    table = pa.table({"label": label, "age": X[:, 0], "price": X[:, 1], "city": city.tolist()})
    Path("clicks").mkdir(exist_ok=True)
    pq.write_table(table, f"clicks/{day(k)}.parquet")


def window_rows(recipe, days):
    """Features, labels and cities of all rows of some days."""
    table = pa.concat_tables([pq.read_table(f"clicks/{day(k)}.parquet") for k in days])
    columns = {name: Numbers(table[name].to_numpy()) for name in ("age", "price")}
    columns |= {"city": text(table["city"].to_pylist())}
    city = np.array([c or REST for c in table["city"].to_pylist()])
    return recipe.transform(columns), table["label"].to_numpy() > 0, city


def rebuilt(X, y, city, w, reg):
    """The rankers of segments from these rows."""
    known = np.where(np.isin(city, CITIES[:3]), city, REST)
    fold = Folds(3).of(Batch(X, y))

    def moments(chosen):
        places = [np.flatnonzero(chosen & (fold == k)) for k in range(3)]
        return FoldsInMemory([PairMoments.of(X[at], y[at]) for at in places])

    parts = {name: moments(known == name) for name in np.unique(known)}
    settings = TrainingSettings(standardize=False, tol=1e-12)
    return segment_rankers(moments(np.full(len(y), True)), parts, w, Candidate(reg, 0.0), settings)


def direction(X, y, u, reg):
    """All-pairs ridge of weighted rows by numpy, of length 1."""
    X, sides = X.toarray(), []
    for side in (y, ~y):
        share = u[side] / u[side].sum()
        centre = share @ X[side]
        sides.append((centre, ((X[side] - centre).T * share) @ (X[side] - centre)))
    mu = sides[0][0] - sides[1][0]
    Sigma = sides[0][1] + sides[1][1] + np.outer(mu, mu)
    w = np.linalg.solve(Sigma + reg * np.eye(mu.size), mu)
    return w / np.linalg.norm(w)


def assert_gate(champion, last):
    """AUC of the segments on the gate's rows, beside all pairs."""
    weights = champion.model.ranker.scorer.segments.weights
    judged = champion.record["gate"]
    assert judged["segments"].keys() == set(weights.values)
    X, y, city = window_rows(champion.model.recipe, [last + 1])
    scores = weights.scores(X, np.searchsorted(weights.values, city) % 4)
    for name, measured in judged["segments"].items():
        a, b = scores[(city == name) & y], scores[(city == name) & ~y]
        assert measured["rows"] == [a.size, b.size]
        assert measured["auc"]["challenger"] == pytest.approx(np.mean(a[:, None] > b), rel=1e-12)


def assert_stored():
    """Each row is stored once: all segments together are the window of all rows."""
    (facts,) = MomentStore.stored_facts("moments").values()
    assert facts.segment_column == "city"
    assert facts.segments == ("Bern", "Oslo", "Rome")
    store = MomentStore("moments", facts)
    content = {(c.period, c.segment): c.positive + c.negative for c in store.contents()}
    assert sum(content.values()) == 4 * 900
    assert (day(1), "Rome") not in content
    # Nice is no segment of the store: its rows are stored with those without a city.
    of_rest = pq.read_table(f"clicks/{day(3)}.parquet")["city"].to_pylist()
    assert content[day(3), REST] == sum(c in ("Nice", None) for c in of_rest)
    return store


def assert_scored(spark, champion):
    """The published model scores a row by its city, with the same bits in the tasks."""
    weights = champion.model.ranker.scorer.segments.weights
    path = Path(f"clicks/{day(3)}.parquet").resolve()
    rows = spark.read.parquet(str(path)).repartition(3)
    scored = transformed(champion.model, rows).toPandas()
    recipe, columns = champion.model.recipe, scored[["age", "price"]]
    raw = {name: Numbers(columns[name].to_numpy()) for name in columns}
    raw |= {"city": text(scored["city"].tolist())}
    number = [weights.values.index(c) if c in weights.values else 3 for c in scored["city"]]
    again = weights.scores(recipe.transform(raw), np.array(number))
    assert (scored["rawPrediction"] == again).all()


def assert_segments(champion, days, names):
    """The rankers of segments are those of the rows of some days, by a fresh build."""
    made, ranker = champion.record["challenger"], champion.model.ranker
    X, y, city = window_rows(champion.model.recipe, days)
    expected = rebuilt(X, y, city, ranker.scorer.w, made["regParam"])
    weights = ranker.scorer.segments.weights
    assert weights.values == expected.weights.values == names
    size = np.abs(expected.weights.W).max()
    np.testing.assert_allclose(weights.W, expected.weights.W, rtol=1e-9, atol=1e-10 * size)
    np.testing.assert_allclose(weights.intercept, expected.weights.intercept, rtol=1e-9)
    assert ranker.getThreshold() == pytest.approx(expected.threshold, rel=1e-9)
    for number, name in enumerate(weights.values):
        u = made["segments"]["chosen"] + (city == name)
        found = weights.W[number] / np.linalg.norm(weights.W[number])
        np.testing.assert_allclose(found, direction(X, y, u, made["regParam"]), atol=1e-9)
        assert made["segments"]["segments"][name]["positive"] == (y & (city == name)).sum()
    assert made["segments"] == ranker.summary.segments


def assert_deleted(capsys, champion, days):
    """Rows are subtracted from their segments, and the champion's segments are ranked again."""
    data = {"path": "clicks/{period}.parquet", "where": "age > 1.9"}
    part = {"request": "a", "data": data, "periods": [day(k) for k in days]}
    Path("conf.yaml").write_text(yaml.safe_dump({"retrain": SECTION | SEGMENTS | {"delete": part}}))
    code = run("retrain", "conf.yaml", parts=["delete"])
    assert code == 0, capsys.readouterr().out
    for k in days:
        table = pq.read_table(f"clicks/{day(k)}.parquet")
        remaining = table["age"].to_numpy() <= 1.9
        assert not remaining.all()
        pq.write_table(table.filter(pa.array(remaining)), f"clicks/{day(k)}.parquet")
    new = read_champion("model")
    # Rome has too few rows left for a ranker of its own.
    assert_segments(new, days, ("Bern", "Oslo"))
    old, new = (c.model.ranker.scorer.segments.weights for c in (champion, new))
    assert np.abs(old.W[:2] - new.W[:2]).max() > 1e-4


@pytest.mark.slow
def test_segments_are_ranked_by_the_rows_of_the_window(spark, retrain, capsys):
    for k in range(4):
        written(k)
    code, result = retrain(3, **SEGMENTS)
    assert code == 0, result
    outcomes = [p["outcome"] for p in result["periods"]]
    assert outcomes[0] == "stored"
    assert "promoted" in outcomes[1:]
    champion = read_champion("model")
    made, ranker = champion.record["challenger"], champion.model.ranker
    assert ranker.values()["segmentCol"] == "city"
    last = next(k for k in range(4) if day(k) == made["to"])
    assert_segments(champion, range(last + 1), ("Bern", "Oslo", "Rome"))
    assert_gate(champion, last)
    store = assert_stored()
    assert_scored(spark, champion)

    # A rerun makes no commit, and other segments need a full refresh.
    version, before = store.version, records()
    assert retrain(3, **SEGMENTS)[0] == 0
    store.refresh()
    assert (store.version, records()) == (version, before)
    assert_deleted(capsys, champion, range(last + 1))
    written(4)
    code, result = retrain(4)
    assert code == 2
    assert "segmentCol" in str(result)
    code, result = retrain(4, fullRefresh="without")
    assert code == 0, result
    assert len(MomentStore.stored_facts("moments")) == 2


def test_a_period_without_the_segment_column_is_quarantined(retrain):
    names = {"columns": {"features": ["age", "price"]}, "features": None}
    written(0)
    assert retrain(0, **SEGMENTS, **names)[0] == 0
    written(1)
    table = pq.read_table(f"clicks/{day(1)}.parquet").drop_columns("city")
    pq.write_table(table, f"clicks/{day(1)}.parquet")
    code, result = retrain(1, **SEGMENTS, **names)
    assert code == 5, result
    assert "other columns" in result["message"]
    assert "city" in result["message"]
    assert result["stored"] == 1
