"""One contract for the tables of both engines."""

import decimal
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from spark_auc import FeatureRecipe, MBAClassifier, RankerPipeline, RankerPipelineModel, train
from spark_auc.core import progress
from spark_auc.core.labels import LabelCounts
from spark_auc.core.memory import ProcessMemory
from spark_auc.core.moments.operator import labelled_pair_moments
from spark_auc.errors import ConfigError, DataError
from spark_auc.features.recipe_json import to_json
from spark_auc.pipeline.comparison import compared
from spark_auc.publication.directory import Directory
from spark_auc.spark.data.spark_table import SparkTable
from spark_auc.tables import arrow_table
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.columns import FoldColumn, TrainingColumns
from spark_auc.tables.features import PreparedFeatures
from spark_auc.tables.files import open_file
from spark_auc.tables.hashes import xxhash64
from spark_auc.tables.raw_columns import RawColumns
from spark_auc.tables.rows import TableRows
from spark_auc.tables.segments import SegmentColumn
from spark_auc.tables.split import by_key
from spark_auc.tables.tally import row_count, tallied
from spark_auc.training.problem import build_problem
from spark_auc.training.survey import Sampling

N = 211
NUMBERS = ["small", "x", "y z", "single", "price", "flag"]


def rows(seed=3):
    """Columns of every type that recipes take, a third of them with missing values."""
    rng = np.random.default_rng(seed)
    start = datetime(2024, 2, 28, 23, 30, tzinfo=UTC)
    times = [start + timedelta(minutes=int(m)) for m in rng.integers(0, 9_000, N)]
    made = {
        "label": pa.array(rng.random(N) < 0.3),
        "small": pa.array(rng.integers(-5, 5, N), pa.int8()),
        "x": pa.array(rng.normal(size=N)),
        "y z": pa.array(rng.integers(0, 2**40, N)),
        "single": pa.array(rng.normal(size=N).astype(np.float32)),
        "price": pa.array([decimal.Decimal(int(k)) / 100 for k in rng.integers(0, 999, N)]),
        "flag": pa.array(rng.random(N) < 0.5),
        "city": pa.array(rng.choice(["Oslo", "Köln", "", "Bergen"], N)),
        "day": pa.array([date(2024, 1, 1 + int(k)) for k in rng.integers(0, 31, N)]),
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "local": pa.array([t.replace(tzinfo=None) for t in times], pa.timestamp("us")),
        "u": pa.array(rng.integers(0, 4, N)),
        "site": pa.array(rng.integers(0, 3, N), pa.int32()),
        "maybe": pa.array([None if k % 3 == 0 else f"k{k % 7}" for k in range(N)]),
        "nothing": pa.nulls(N, pa.float64()),
    }
    return pa.table(made)


@pytest.fixture(params=["arrow", "spark"])
def table_of(request):
    """Makes a table of an engine, in parts of 40 rows."""
    if request.param == "arrow":
        return lambda made: ArrowTable.of(made, 40)
    spark = request.getfixturevalue("spark")

    def of(made):
        if not made.num_rows:
            return SparkTable(spark.createDataFrame(made))
        parts = [made[k : k + 40] for k in range(0, made.num_rows, 40)]
        frames = [spark.createDataFrame(part).coalesce(1) for part in parts]
        whole = frames[0]
        for frame in frames[1:]:
            whole = whole.unionAll(frame)
        return SparkTable(whole)

    return of


def sizes(batches):
    """A fold that counts rows and the labels of their first column."""
    total = 0
    for batch in batches:
        assert batch.num_rows
        total += batch.num_rows
    yield "rows", LabelCounts({1.0: total})


def test_columns_by_name(table_of):
    table = table_of(rows())
    selected = table.select(["CITY", "x", "city"])
    assert selected.schema.names == ["city", "x", "city"]
    found = selected.gathered()
    assert found.num_rows == N
    assert found.column(0).to_pylist() == found.column(2).to_pylist() == rows()["city"].to_pylist()
    with pytest.raises(ConfigError, match="did you mean 'city'"):
        table.select(["citty"])
    twice = rows().append_column("City", pa.array(["a"] * N))
    twins = table_of(twice)
    # A session of Spark tells twins apart only if its setting says so.
    assert twins.exact_names == isinstance(twins, ArrowTable)
    said = "no column" if twins.exact_names else "found 2 columns 'city', 'City' for the name"
    with pytest.raises(ConfigError, match=f"{said} 'CITY'"):
        RawColumns.of(twins, ["CITY"])


def test_values_of_every_type(table_of):
    made, table = rows(), table_of(rows())
    names = [name for name in made.schema.names if name != "label"]
    raw = RawColumns.of(table, names, table.zone)
    found = raw.decode([c.combine_chunks() for c in table.select(raw.found).gathered().columns])
    expected = raw.decode([made[name].combine_chunks() for name in names])
    for name in names:
        for mine, theirs in zip(found[name], expected[name], strict=True):
            assert str(mine) == str(theirs), name


def test_folds_and_their_parts(table_of):
    table = table_of(rows())
    states = table.select(["x"]).fold(sizes, (LabelCounts,), state_bytes=8, what="rows")
    assert states["rows"].rows == {1.0: N}
    assert row_count(table, "city") == N
    places = table.select(["u"], placed=True).gathered().column(1).to_numpy()
    assert places.size == N
    if isinstance(table, ArrowTable):
        assert np.bincount(places).tolist() == [40] * 5 + [11]
    assert table_of(rows()[:0]).select(["x"]).gathered().num_rows == 0
    assert table.head(["city", "u"], 3).num_rows == 3


def test_mapped_kept_and_arranged(table_of):
    table = table_of(rows()).select(["u", "x"])
    schema = pa.schema([("part", pa.int32()), ("x", pa.float64())])

    def halves(batches):
        for batch in batches:
            u, x = batch.columns
            yield pa.RecordBatch.from_arrays([u.cast(pa.int32()), x], schema=schema).slice(1)

    made = table.map(halves, schema)
    expected = made.gathered()
    assert expected.schema.names == ["part", "x"]
    assert 0 < N - expected.num_rows < N / 10
    with made.kept() as kept:
        assert kept.cheap
        assert kept.gathered() == kept.gathered() == expected
        assert kept.fold(sizes, (LabelCounts,), state_bytes=8, what="rows")["rows"].rows == {
            1.0: expected.num_rows
        }
    found = made.arranged("part", ["part", "x"], 3).gathered()
    order = [("part", "ascending"), ("x", "ascending")]
    assert found.sort_by(order) == expected.sort_by(order)
    for part in range(4):
        own = found.filter(pa.compute.equal(found["part"], part))["x"].to_numpy()
        assert (np.diff(own) >= 0).all()
        places = np.flatnonzero(found["part"].to_numpy() == part)
        assert (np.diff(places) == 1).all()
    assert made.gathered(limit=100.0) is None
    assert made.gathered(limit=2.0**40) == expected


def test_rows_by_conditions_extended_and_cast(table_of):
    table = table_of(rows())
    expected = rows().to_pandas()

    def positive(arrays):
        return arrays[0].to_numpy(zero_copy_only=False) > 0

    def doubled(arrays):
        return [pc.multiply(arrays[0], 2.0), arrays[1].fill_null("none")]

    fields = [pa.field("twice", pa.float64()), pa.field("known", pa.string())]
    kept = table.where(["x"], positive)
    made = kept.extended(["x", "maybe"], doubled, fields)
    wanted = expected[expected["x"] > 0]
    assert made.schema.names == [*rows().schema.names, "twice", "known"]
    found = made.select(["known", "u", "twice"]).gathered()
    np.testing.assert_array_equal(found["twice"], 2 * wanted["x"])
    assert found["known"].to_pylist() == wanted["maybe"].fillna("none").tolist()
    assert found["u"].to_pylist() == wanted["u"].tolist()
    assert made.head(["twice"], 2)["twice"].to_pylist() == found["twice"].to_pylist()[:2]
    # The same of rows that a function made.
    again = made.map(lambda batches: batches, made.schema).where(
        ["u"], lambda arrays: np.asarray(arrays[0]) == 1
    )
    texts = again.cast({"u": (pa.field("u", pa.string()), lambda array: array.cast(pa.string()))})
    assert texts.schema.field("u").type == pa.string()
    assert {*texts.select(["x", "u"]).gathered()["u"].to_pylist()} == {"1"}
    assert texts.gathered().num_rows == (wanted["u"] == 1).sum()
    short = kept.cast({"u": (pa.field("u", pa.int8()), lambda array: array.cast(pa.int8()))})
    assert short.schema.field("u").type == pa.int8()
    assert short.gathered()["u"].to_pylist() == wanted["u"].tolist()
    # A condition is that of the column before.
    turned = kept.cast({"x": (pa.field("x", pa.float64()), pc.negate)})
    np.testing.assert_array_equal(turned.gathered()["x"], -wanted["x"])


def test_a_function_of_kept_rows_never_sees_others(table_of):
    """Rows of a test part can have values that the others' function refuses."""

    def fails(arrays):
        values = arrays[0].to_numpy(zero_copy_only=False)
        if (values > 1).any():
            raise DataError("found a large value")
        return [pa.array(values)]

    table = table_of(rows()).where(["u"], lambda arrays: np.asarray(arrays[0]) <= 1)
    made = table.extended(["u"], fails, [pa.field("same", pa.int64())])
    assert max(made.gathered()["same"].to_pylist()) == 1


def test_union_and_match(table_of):
    first, second = rows(3).select(["u", "x"]), rows(4).select(["u", "x"])
    both = table_of(first).union([table_of(second)])
    assert both.gathered() == pa.concat_tables([first, second])
    schema = pa.schema([("u", pa.float64()), ("name", pa.string())])
    names = table_of(pa.table({"u": [2.0, 1.0, -0.0], "name": ["two", "one", "zero"]}))
    rows_of = table_of(first.cast(pa.schema([("u", pa.float64()), ("x", pa.float64())])))
    found = rows_of.matched("u", names.map(lambda batches: batches, schema)).gathered()
    order = [("x", "ascending")]
    wanted = first.filter(pc.less(first["u"], 3)).sort_by(order)
    found = found.sort_by(order)
    assert found["x"] == wanted["x"]
    assert found["name"].to_pylist() == [["zero", "one", "two"][k] for k in wanted["u"].to_pylist()]
    none = table_of(pa.table({"u": pa.array([], pa.float64()), "name": pa.array([], pa.string())}))
    assert rows_of.matched("u", none).gathered().num_rows == 0


def test_matches_are_those_of_arrows_join(table_of):
    rng = np.random.default_rng(8)
    keys = rng.permutation(np.round(rng.normal(size=150), 2))
    known = pa.table({"v": np.unique(keys), "name": [f"n{v}" for v in np.unique(keys)]})
    made = pa.table({"v": rng.choice([*keys, 100.0, -200.0], N), "id": range(N)})
    schema = pa.schema([("v", pa.float64()), ("id", pa.int64()), ("name", pa.string())])
    found = table_of(made).matched("v", table_of(known.take(rng.permutation(known.num_rows))))
    assert found.schema.names == schema.names
    wanted = made.join(known, "v", join_type="inner").sort_by("id")
    assert 0 < wanted.num_rows < N
    assert found.gathered().sort_by("id") == wanted.cast(schema)


def test_matched_rows_that_exceed_memory_are_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_table.tempfile, "tempdir", str(tmp_path))
    made = pa.table({"v": [float(k % 50) for k in range(N)], "id": range(N)})
    known = pa.table({"v": [float(k) for k in range(50)], "w": range(50)})
    table, other = (
        replace(ArrowTable.of(rows, 40), memory=ProcessMemory(2, 0)) for rows in (made, known)
    )
    with monkeypatch.context() as patched:
        patched.setattr(ArrowTable, "gathered", None)
        found = table.matched("v", other)
        assert list(tmp_path.glob("*/*.arrow"))
    rows_found = found.gathered().sort_by("id")
    assert rows_found["w"].to_pylist() == [k % 50 for k in range(N)]
    del found
    assert not list(tmp_path.iterdir())


@pytest.fixture(params=["arrow", "spark"])
def table_of_files(request, tmp_path):
    """Makes a table of an engine from Parquet files of 60 rows, in groups of 25."""

    def of(made):
        for number, start in enumerate(range(0, max(made.num_rows, 1), 60)):
            file = tmp_path / f"part-{number}.parquet"
            pq.write_table(made[start : start + 60], file, row_group_size=25)
        if request.param == "arrow":
            return open_file(tmp_path)
        return SparkTable(request.getfixturevalue("spark").read.parquet(str(tmp_path)))

    return of


@pytest.mark.parametrize("first", [1, 24, 25, 26, 60, 61, 120, N - 1, 0.25, 0.995])
def test_the_first_rows_of_files(table_of_files, first):
    made = pa.table({"id": range(N), "u": rows()["u"]})
    count = round(first * N) if isinstance(first, float) else first
    table = table_of_files(made)
    halves = table.cut(first)
    found = [half.gathered().sort_by("id") for half in halves]
    assert found == [made[:count], made[count:]]
    chosen = [half.where(["u"], lambda a: np.asarray(a[0]) > 1).select(["id"]) for half in halves]
    for half, expected in zip(chosen, found, strict=True):
        of_u = expected.filter(pc.greater(expected["u"], 1))["id"].to_pylist()
        for _ in range(2):
            assert sorted(half.gathered()["id"].to_pylist()) == of_u


def test_the_first_rows_of_those_that_are_kept(table_of_files):
    made = pa.table({"id": range(N), "u": rows()["u"]})
    table = table_of_files(made).where(["u"], lambda arrays: np.asarray(arrays[0]) > 1)
    kept = made.filter(pc.greater(made["u"], 1))
    first, others = table.cut(0.5)
    half = round(0.5 * kept.num_rows)
    assert first.gathered().sort_by("id") == kept[:half]
    assert others.gathered().sort_by("id") == kept[half:]
    if isinstance(table, ArrowTable):
        # On Spark a cut no longer has the order of the files.
        assert others.cut(7)[0].gathered() == kept[half : half + 7]


def test_cuts_leave_rows_for_both(table_of_files):
    table = table_of_files(rows().select(["u"]))
    for first in (0, N, -1, 0.001, 1.0):
        with pytest.raises(ConfigError, match=rf"train = {first} of {N} rows; .* 1\.\.{N - 1} or"):
            table.cut(first)
    none = table.where(["u"], lambda arrays: np.zeros(len(arrays[0]), bool))
    with pytest.raises(DataError, match="found no rows; expected two or more"):
        none.cut(1)


def test_written_rows_are_read_again(table_of, tmp_path):
    table = table_of(rows()).where(["x"], lambda arrays: np.asarray(arrays[0]) > 0)
    place = Directory.of(str(tmp_path / "out"))
    count = table.write(place, ["x", "site"], ["site"])
    found = pq.read_table(tmp_path / "out").to_pandas()
    wanted = rows().to_pandas()
    wanted = wanted[wanted["x"] > 0]
    assert count == len(wanted) == len(found)
    np.testing.assert_array_equal(np.sort(found["x"]), np.sort(wanted["x"]))


def test_models_are_compared_alike(table_of):
    """Against DeLong's estimates of all pairs."""
    rng = np.random.default_rng(5)
    y, u = rng.random(N) < 0.4, rng.integers(0, 3, N).astype(float)
    scores = {name: np.round(rng.normal(size=N) + w * y, 1) for name, w in (("a", 1), ("b", 0.3))}
    table = table_of(pa.table({**scores, "y": np.where(y, "yes", "no"), "u": u}))
    found = compared(table, ["a", "b"], "y", "yes", "u")
    wins = []
    for s in scores.values():
        gap = s[y][:, None] - s[~y][None]
        wins.append((gap > 0) + 0.5 * (gap == 0))
    w, v = u[y], u[~y]
    aucs = np.array([w @ win @ v / (w.sum() * v.sum()) for win in wins])
    np.testing.assert_allclose(found.paired.auc, aucs, rtol=1e-12)
    ones = compared(table, ["a", "b"], "y", "yes")
    V = np.stack([win.mean(axis=1) for win in wins])
    W = np.stack([win.mean(axis=0) for win in wins])
    covariance = np.cov(V) / y.sum() + np.cov(W) / (~y).sum()
    np.testing.assert_allclose(ones.paired.covariance, covariance, rtol=1e-9)
    with pytest.raises(ConfigError, match="expected two or more"):
        compared(table, ["a"], "y", "yes")


def test_errors_of_tasks_are_those_of_the_package(table_of):
    def fails(batches):
        for _ in batches:
            raise DataError("found a fault")
        yield "rows", LabelCounts()

    table = table_of(rows()).select(["x"])
    with pytest.raises(DataError, match=r"^found a fault"):
        table.fold(fails, (LabelCounts,), state_bytes=8, what="rows")


def training(table, **given):
    features = PreparedFeatures.resolve(table, NUMBERS)
    columns = TrainingColumns.resolve(table, features, "label", **given)
    return TableRows.of(table, columns)


def test_training_rows_and_their_moments(table_of):
    made, table = rows(), table_of(rows())
    kept = np.flatnonzero(made["u"].to_numpy())
    X = np.column_stack([np.array(made[n].to_pylist(), float) for n in NUMBERS])[kept]
    y, u = np.array(made["label"].to_pylist())[kept], made["u"].to_numpy()[kept].astype(float)
    moments, labels = labelled_pair_moments(training(table, weight="u"))
    assert labels.rows == {1.0: int(y.sum()), 0.0: int((~y).sum())}
    pairs = (X[y][:, None] - X[~y][None]).reshape(-1, X.shape[1])
    weight = np.outer(u[y], u[~y]).ravel()
    mu = weight @ pairs / weight.sum()
    np.testing.assert_allclose(moments.quadratic().mu, mu, rtol=1e-9)
    with training(table).kept() as again:
        one, _ = labelled_pair_moments(again)
        two, _ = labelled_pair_moments(training(table).gathered())
        assert training(table).gathered_within(2.0**30).dimension == len(NUMBERS)
    np.testing.assert_allclose(one.quadratic().mu, two.quadratic().mu, rtol=1e-12)


def test_folds_segments_and_keys(table_of):
    made, table = rows(), table_of(rows())
    folds = FoldColumn.of(table, "site")
    assert folds.values == (0, 1, 2)
    segments = SegmentColumn.of(table, "city")
    assert segments.values == ("Bergen", "Köln", "Oslo")
    resolved = training(table, key="maybe", folds=folds).gathered().joined()
    expected = xxhash64([made["maybe"].combine_chunks()])
    assert sorted(resolved.key.tolist()) == sorted(expected.tolist())
    assert (
        np.bincount(resolved.group.astype(int)).tolist()
        == np.bincount(made["site"].to_numpy()).tolist()
    )
    tally = tallied(table, "maybe", 4)
    assert (tally.values.tolist(), tally.missing) == (["k0", "k1", "k2", "k3"], 71)
    with pytest.raises(DataError, match="nulls in fold column 'maybe'"):
        FoldColumn.of(table, "maybe")


def test_drawn_pairs(table_of):
    table = table_of(rows())
    columns = replace(training(table).reader().columns, placed=True)
    source, sampling = TableRows.of(table, columns), Sampling("paired", 200, seed=3)
    found = [build_problem(each, sampling).quadratic(None).mu for each in (source, in_memory())]
    np.testing.assert_allclose(*found, rtol=1e-9)


def in_memory():
    """The same rows as arrays."""
    made = ArrowTable.of(rows())
    return training(made).gathered()


def test_bits_do_not_depend_on_threads(monkeypatch):
    made = rows(5)
    found = set()
    for slots in (1, 2, 8):
        table = replace(ArrowTable.of(made, 7), memory=ProcessMemory(slots))
        moments, _ = labelled_pair_moments(training(table))
        found.add(b"".join(tile.to_bytes() for _, tile in moments.parts()))
    assert len(found) == 1


def test_long_passes_say_how_far_they_are(monkeypatch, caplog):
    monkeypatch.setattr(progress, "EVERY", 0.0)
    with caplog.at_level("INFO"):
        ArrowTable.of(rows(), 60).fold(sizes, (LabelCounts,), state_bytes=8, what="counts")
    shares = [record.args[1] for record in caplog.records if "s left" in record.message]
    assert shares == [25, 50, 75]
    assert caplog.records[0].message.startswith("counts: 25% of the rows, ")


def test_rows_that_exceed_memory_are_kept_on_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(arrow_table.tempfile, "tempdir", str(tmp_path))
    left = tmp_path / "spark-auc-rows-999999999-abc"
    left.mkdir()
    (left / "0.arrow").write_bytes(b"ARROW1")
    table = replace(ArrowTable.of(rows(), 40), memory=ProcessMemory(2, rows_limit=1_500.0))
    with table.select(["x", "city"]).kept() as kept:
        assert not left.exists()
        files = sorted(tmp_path.glob("*/*.arrow"))
        assert 1 < len(files) < 6
        assert kept.gathered() == table.select(["x", "city"]).gathered()
    assert not list(tmp_path.iterdir())


def decisions(trained):
    """What a training chose: kinds, knots, penalty, names of features."""
    recipe, summary = trained.model.recipe, trained.model.summary
    return (
        to_json(recipe),
        summary.reg_param,
        summary.rows,
        summary.smoothness,
    )


def same(mine, theirs):
    """Equal decisions, and weights and measures but for rounding."""
    assert decisions(mine) == decisions(theirs)
    w, v = mine.model.ranker.scorer.w, theirs.model.ranker.scorer.w
    np.testing.assert_allclose(w, v, rtol=1e-6, atol=1e-9 * np.abs(v).max())
    assert mine.evaluation.auc == pytest.approx(theirs.evaluation.auc, abs=1e-9)


def test_training_in_one_call_is_the_same_on_both_engines(spark, tmp_path):
    made = rows(11).drop_columns(["price"])
    path = tmp_path / "rows.parquet"
    pq.write_table(made, path)
    mine = train(path, "label", weight="u", key="maybe")
    theirs = train(spark.read.parquet(str(path)), "label", weight="u", key="maybe")
    same(mine, theirs)
    mine.save(tmp_path / "mine")
    loaded = RankerPipelineModel.load(str(tmp_path / "mine"))
    scored = loaded.transform(spark.read.parquet(str(path))).select("rawPrediction").toArrow()
    np.testing.assert_array_equal(scored.column(0).to_numpy(), mine.score(made))
    # A setting that contradicts the choice of a model leaves the choice of pairs and crosses.
    settings = {"training": {"whenNotConverged": "raise"}, "refit": False}
    mine = train(path, "label", weight="u", key="maybe", **settings)
    stage = FeatureRecipe(numKnots="auto", pairs="auto", crosses="auto", leaveOut=["maybe"])
    ranker = MBAClassifier(labelCol="label", weightCol="u", keyCol="maybe", smoothness="auto")
    stage = RankerPipeline([stage, ranker])
    train_part, _ = by_key(SparkTable(spark.read.parquet(str(path))), 0.8, 0, "maybe", "label")
    model = stage.fitted(train_part)
    assert to_json(model.recipe) == to_json(mine.model.recipe)
    np.testing.assert_allclose(model.ranker.scorer.w, mine.model.ranker.scorer.w, rtol=1e-6)


MBA = MBAClassifier(labelCol="label", weightCol="u", keyCol="maybe")
