"""Replacement, facts, segments, inspection and damaged rows of a store."""

import json
import subprocess
import sys
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_auc.core.moments import tiles
from spark_auc.core.moments.pair_moments import PairMoments
from spark_auc.errors import ConfigError, DataError, ModelFormatError, StoreConflict
from spark_auc.store.facts import Facts
from spark_auc.store.moment_store import MomentStore
from spark_auc.store.rows import Place, Source, to_bytes
from spark_auc.store.windows import Window
from tests.store.periods import (
    DAYS,
    FACTS,
    D,
    K,
    assert_pairs,
    bits,
    bits_of,
    filled,
    fold_rows,
    folds_of,
)


def opened(path, facts=FACTS, **options):
    return MomentStore(str(path), facts, **options)


def total(store, **options):
    return store.windows([Window()], **options)[0].total()


def one_file(path):
    [file] = path.glob(f"*/period={DAYS[0]}/*/*.parquet")
    return file


def test_stored_folds_have_the_bits_of_the_moments(tmp_path, monkeypatch):
    monkeypatch.setattr(tiles, "LARGEST_TILE", 2)
    filled(tmp_path, DAYS[:2])
    for day in DAYS[:2]:
        found = opened(tmp_path).folds(day, "clicks")
        assert list(map(bits, found)) == list(map(bits, folds_of(day + "clicks")))


def test_a_rerun_makes_no_commit_and_a_restated_period_is_a_fresh_build(tmp_path):
    store = filled(tmp_path / "a", DAYS[:3])
    version = store.version
    for again in (store, opened(tmp_path / "a")):
        assert not again.put(DAYS[1], "clicks", folds_of(DAYS[1] + "clicks"))
        assert again.version == version
    assert store.put(DAYS[1], "clicks", folds_of("restated"))
    fresh = opened(tmp_path / "b")
    for day, name in zip(DAYS, (DAYS[0] + "clicks", "restated", DAYS[2] + "clicks"), strict=False):
        fresh.put(day, "clicks", folds_of(name))
    for k in range(K):
        a, b = (s.windows([Window()])[0].complement(k) for s in (store, fresh))
        assert bits(a) == bits(b)


def test_late_rows_are_a_further_source(tmp_path):
    store = filled(tmp_path, DAYS[:2])
    store.put(DAYS[0], "late", folds_of("late"))
    again = opened(tmp_path)
    assert again.sources(DAYS[0]) == ("clicks", "late")
    assert again.sources(DAYS[1]) == ("clicks",)
    parts = [*fold_rows(DAYS[0] + "clicks"), *fold_rows("late"), *fold_rows(DAYS[1] + "clicks")]
    assert_pairs(total(again), parts)


def test_segments_are_replaced_together(tmp_path):
    store = opened(tmp_path)
    store.put(DAYS[0], "clicks", {name: folds_of(name) for name in ("de", "fr", "", "ü's")})
    assert_pairs(total(store, segments=["fr"]), fold_rows("fr"))
    parts = [part for name in ("", "de", "fr", "ü's") for part in fold_rows(name)]
    assert_pairs(total(store), parts)
    assert [c.segment for c in store.contents()] == ["", "de", "fr", "ü's"]
    assert bits(store.folds(DAYS[0], "clicks", "ü's")[2]) == bits(folds_of("ü's")[2])
    store.put(DAYS[0], "clicks", {"de": folds_of("de")})
    assert [c.segment for c in opened(tmp_path).contents()] == ["de"]
    with pytest.raises(DataError, match=r"no rows of the segment 'fr' from 2026-02-26"):
        total(store, segments=["fr"])
    with pytest.raises(DataError, match=r"no segment 'fr' .* expected one of \['de'\]"):
        store.folds(DAYS[0], "clicks", "fr")


def test_a_segment_of_some_periods(tmp_path):
    store = opened(tmp_path)
    for day, names in zip(DAYS, (("a", "b"), ("a",), ("b",)), strict=False):
        store.put(day, "clicks", {name: folds_of(day + name) for name in names})
    parts = [*fold_rows(DAYS[0] + "b"), *fold_rows(DAYS[2] + "b")]
    assert_pairs(total(store, segments=["b"]), parts)
    windows, segments = [Window(1), Window(), Window(None, 2.0)], ["b", None]
    merged = iter(store.windows(windows, segments=segments))
    for window in windows:
        for segment in segments:
            (alone,) = store.windows([window], segments=[segment])
            together = next(merged)
            assert (together.window, together.segment) == (window, segment)
            assert bits(together.total()) == bits(alone.total())
            assert bits(together.complement(1)) == bits(alone.complement(1))
    with pytest.raises(DataError, match=r"no rows of the segment 'a' from 2026"):
        store.windows(windows, segments=["b", "a"])


def test_segments_are_facts(tmp_path):
    """Without segments the id is that of stores of before; their values and column are in it."""
    assert FACTS.to_json() == opened(tmp_path).facts.to_json()
    assert "segment" not in FACTS.to_json()
    facts = replace(FACTS, segment_column="site", segments=("a", "b"))
    assert Facts.from_json(facts.to_json()) == facts
    ids = {f.schema_id for f in (FACTS, facts, replace(facts, segments=("a",)))}
    assert len(ids) == 3
    filled(tmp_path, DAYS[:1], facts=facts)
    with pytest.raises(ConfigError, match=r"segment_column: 'site', 'shop'"):
        opened(tmp_path, replace(facts, segment_column="shop"))
    with pytest.raises(ConfigError, match=r"segments: \['a', 'b'\], \['a'\]"):
        opened(tmp_path, replace(facts, segments=("a",)))


def test_moments_by_other_hashes_are_refused(tmp_path):
    """Stores of before name no version of the hashes."""
    older = replace(FACTS, hashes=1)
    assert "hashes" not in older.to_json()
    assert Facts.from_json(older.to_json()) == older
    filled(tmp_path, DAYS[:1], facts=older)
    with pytest.raises(ConfigError, match=r"hashes: 'nothing', 2; restore these settings"):
        opened(tmp_path, FACTS)


def test_other_facts_are_refused_field_by_field(tmp_path):
    recipe = {"version": 1, "numeric": [{"as": "spline", "knots": [0.0, 1.0]}], "hashed": []}
    facts = replace(FACTS, recipe=json.dumps(recipe))
    filled(tmp_path, DAYS[:1], facts=facts)
    assert opened(tmp_path, replace(FACTS, recipe=json.dumps(recipe, indent=2))).periods()
    recipe["numeric"][0]["knots"][1] = 1.5
    other = replace(facts, recipe=json.dumps(recipe), folds=4, weight_column="w")
    with pytest.raises(ConfigError) as refused:
        opened(tmp_path, other)
    message = str(refused.value)
    for part in ("folds: 3, 4", "weight_column: None, 'w'", "recipe.numeric[0].knots[1]: 1.0, 1.5"):
        assert part in message
    assert "full refresh" in message
    assert "seed" not in message
    assert MomentStore.stored_facts(str(tmp_path)) == {facts.schema_id: facts}


@pytest.mark.parametrize("change", [{"seed": 2}, {"positive_label": 1}, {"dimension": 6}])
def test_every_fact_decides_the_schema_id(tmp_path, change):
    filled(tmp_path, DAYS[:1])
    with pytest.raises(ConfigError, match=rf"{next(iter(change))}: "):
        opened(tmp_path, replace(FACTS, **change))


def test_equal_numbers_are_equal_labels():
    ids = {Facts(2, 2, positive_label=label).schema_id for label in (1, 1.0, True)}
    assert len(ids) == 1
    assert Facts(2, 2, positive_label="1").schema_id not in ids


def test_a_full_refresh_keeps_the_other_schema_id(tmp_path):
    old = filled(tmp_path, DAYS[:3])
    facts = replace(FACTS, seed=2)
    new = opened(tmp_path, facts, full_refresh=True)
    assert new.periods() == ()
    assert new.lacking(old.schema_id) == tuple(DAYS[:3])
    new.put(DAYS[2], "clicks", folds_of("new"))
    assert new.lacking(old.schema_id) == tuple(DAYS[:2])
    assert opened(tmp_path, facts).periods() == (DAYS[2],)
    assert_pairs(total(opened(tmp_path, facts)), fold_rows("new"))
    assert opened(tmp_path).periods() == tuple(DAYS[:3])
    assert set(MomentStore.stored_facts(str(tmp_path))) == {old.schema_id, new.schema_id}


def test_inspection(tmp_path):
    store = opened(tmp_path / "store")
    assert (store.periods(), store.contents(), store.sizes(), store.version) == ((), [], {}, -1)
    assert MomentStore.stored_facts(str(tmp_path / "store")) == {}
    store = filled(tmp_path / "store", DAYS[:2])
    first, second = store.contents()
    y = [row[1] for row in fold_rows(DAYS[0] + "clicks")]
    u = [row[2] for row in fold_rows(DAYS[0] + "clicks")]
    assert first[:3] == (DAYS[0], "clicks", "")
    assert first.positive == sum(int(a.sum()) for a in y)
    assert first.negative == sum(int((~a).sum()) for a in y)
    weight = sum(b[a].sum() for a, b in zip(y, u, strict=True))
    assert first.positive_weight == pytest.approx(weight)
    assert second.period == DAYS[1]
    sizes = store.sizes()
    assert [source.period for source in sizes] == DAYS[:2]
    assert all(size > 1000 for size in sizes.values())
    assert store.disk_size() > sum(sizes.values())


@pytest.mark.parametrize(
    ("period", "source", "folds", "message"),
    [
        ("2026/03/01", "clicks", None, "found the name '2026/03/01'"),
        (DAYS[1], "it's", None, 'name "it\'s"'),
        (DAYS[1], "_facts", None, "'_facts'"),
        (DAYS[1], "", None, "found the name ''"),
        ("week9", "clicks", None, "found the period 'week9' beside '2026-02-26', expected either"),
        (DAYS[1], "clicks", {}, "found segments"),
        (DAYS[1], "clicks", {"a\0": []}, "without control characters"),
        (DAYS[1], "clicks", [], r"found 0 folds of \[\] features"),
        (DAYS[1], "clicks", [PairMoments.zero(D)] * 2, r"found 2 folds of \[5\] .*expected 3 of 5"),
        (DAYS[1], "clicks", [PairMoments.zero(D + 1)] * K, r"3 folds of \[6\] features"),
    ],
)
def test_invalid_periods_are_refused(tmp_path, period, source, folds, message):
    store = filled(tmp_path, DAYS[:1])
    version = store.version
    with pytest.raises((ConfigError, DataError), match=message):
        store.put(period, source, folds_of("x") if folds is None else folds)
    assert opened(tmp_path).version == version


def test_a_period_without_rows_is_stored(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    store.put(DAYS[1], "clicks", [PairMoments.zero(D)] * K)
    assert store.contents()[1][3:] == (0, 0, 0.0, 0.0)
    assert_pairs(total(store), fold_rows(DAYS[0] + "clicks"))


def test_another_table_is_refused(tmp_path):
    from deltalake import write_deltalake

    write_deltalake(tmp_path, pa.table({"x": [1]}))
    with pytest.raises(ModelFormatError, match=r"found a table of the columns \['x'\]"):
        opened(tmp_path)


def changed(table, change):
    """The rows of a file after one crafted change."""
    rows = table.to_pylist()
    if change == "swapped bytes":
        rows[0]["bytes"], rows[2]["bytes"] = rows[2]["bytes"], rows[0]["bytes"]
    elif change == "another fold":
        rows[0]["fold"], rows[2]["fold"] = 1, 0
        rows[0], rows[2] = rows[2], rows[0]
    elif change == "a missing row":
        del rows[3]
    elif change == "a repeated row":
        rows.insert(3, rows[3])
    elif change == "unsorted rows":
        rows[0], rows[1] = rows[1], rows[0]
    elif change == "other counts":
        rows[0]["rows"] += 1
    elif change == "other weight":
        rows[0]["weight"] *= 2
    elif change == "a flipped bit":
        data = bytearray(rows[1]["bytes"])
        data[-9] ^= 1
        rows[1]["bytes"] = bytes(data)
    elif change == "a renamed segment":
        for row in rows:
            row["segment"] = "other"
    elif change == "moments of another fold size":
        rows = rows[: 2 * (K - 1)]
    elif change == "no rows":
        rows = []
    return pa.Table.from_pylist(rows, schema=table.schema)


@pytest.mark.parametrize(
    "change",
    [
        "swapped bytes",
        "another fold",
        "a missing row",
        "a repeated row",
        "unsorted rows",
        "other counts",
        "other weight",
        "a flipped bit",
        "a renamed segment",
        "moments of another fold size",
        "no rows",
    ],
)
def test_crafted_rows_are_refused_and_replaced_by_a_rerun(tmp_path, change):
    store = filled(tmp_path, DAYS[:2])
    before = bits_of(store.windows([Window()])[0])
    file = one_file(tmp_path)
    with pq.ParquetFile(file) as parquet:
        rows = parquet.read()
    pq.write_table(changed(rows, change), file)
    with pytest.raises(ModelFormatError):
        opened(tmp_path).windows([Window()])
    assert opened(tmp_path).windows([Window(1)])
    assert opened(tmp_path).put(DAYS[0], "clicks", folds_of(DAYS[0] + "clicks"))
    assert bits_of(opened(tmp_path).windows([Window()])[0]) == before


def test_bytes_of_another_period_and_of_other_features_are_refused(tmp_path):
    store = filled(tmp_path, DAYS[:2])
    first, second = (next(tmp_path.glob(f"*/period={d}/*/*.parquet")) for d in DAYS[:2])
    original = first.read_bytes()
    first.write_bytes(second.read_bytes())
    with pytest.raises(ModelFormatError, match="found the bytes of the row"):
        opened(tmp_path).windows([Window()])
    first.write_bytes(original)
    with pq.ParquetFile(first) as parquet:
        rows = parquet.read()
    X, y, u = fold_rows("x")[0]
    small = PairMoments.of(X[:, :2], y, u).positive.tiles[0]
    crafted = rows.to_pylist()
    place = Place(0, "", 0, "+")
    source = Source(store.schema_id, DAYS[0], "clicks")
    crafted[0] |= {"bytes": to_bytes(source, place, small), "rows": small.rows}
    pq.write_table(pa.Table.from_pylist(crafted, schema=rows.schema), first)
    with pytest.raises(ModelFormatError, match=r"found a tile of 2 columns .*, expected 5"):
        opened(tmp_path).windows([Window()])


def test_any_damaged_byte_is_refused_or_changes_nothing(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    before = bits_of(store.windows([Window()])[0])
    file = one_file(tmp_path)
    original = file.read_bytes()
    refused = 0
    # Damage in the footer can end the process inside Arrow, which does not check its own metadata.
    footer = len(original) - 8 - int.from_bytes(original[-8:-4], "little")
    positions = range(4, footer, max(1, footer // 120))
    for position in positions:
        data = bytearray(original)
        data[position] ^= 0x10
        file.write_bytes(bytes(data))
        try:
            assert bits_of(opened(tmp_path).windows([Window()])[0]) == before
        except ModelFormatError:
            refused += 1
    assert refused > len(positions) // 3
    for size in (0, 10, len(original) - 3):
        file.write_bytes(original[:size])
        with pytest.raises(ModelFormatError, match="replace the period"):
            opened(tmp_path).windows([Window()])


def test_damaged_facts_are_refused(tmp_path):
    store = filled(tmp_path, DAYS[:1])
    [file] = tmp_path.glob("*/period=_facts/*/*.parquet")
    with pq.ParquetFile(file) as parquet:
        rows = parquet.read().to_pylist(), parquet.schema_arrow
    for text in (b"{}", b"[1]", b"x", replace(FACTS, seed=9).to_json().encode()):
        rows[0][0]["bytes"] = text
        pq.write_table(pa.Table.from_pylist(rows[0], schema=rows[1]), file)
        with pytest.raises(ModelFormatError, match=r"found (damaged )?facts"):
            opened(tmp_path)
    assert store.periods() == (DAYS[0],)


def test_a_reader_of_a_replaced_and_deleted_file_is_told_to_run_again(tmp_path):
    filled(tmp_path, DAYS[:2])
    reader, writer = opened(tmp_path), opened(tmp_path)
    writer.put(DAYS[0], "clicks", folds_of("restated"))
    assert_pairs(total(reader), [p for d in DAYS[:2] for p in fold_rows(d + "clicks")])
    writer.vacuum()
    with pytest.raises(StoreConflict, match="run this job again") as raised:
        reader.windows([Window()])
    assert raised.value.exit_code == 75
    reader.refresh()
    assert_pairs(total(reader), [*fold_rows("restated"), *fold_rows(DAYS[1] + "clicks")])


def test_a_location_that_is_not_local(tmp_path, monkeypatch):
    """The code for object stores, at a path: its file system, and commits without flushes."""
    from spark_auc.store import table

    monkeypatch.setattr(table, "local_path", lambda location: None)
    store = filled(tmp_path / "store")
    for name in "abcd":
        store.put(DAYS[0], "clicks", folds_of(name))
    store.vacuum()
    again = opened(tmp_path / "store")
    assert again.disk_size() is None
    assert list((tmp_path / "store" / "_delta_log").glob("*.checkpoint*"))
    parts = [part for day in DAYS[1:] for part in fold_rows(day + "clicks")]
    assert_pairs(total(again), [*fold_rows("d"), *parts])
    reader = opened(tmp_path / "store")
    again.put(DAYS[0], "clicks", folds_of("e"))
    again.vacuum()
    with pytest.raises(StoreConflict):
        total(reader)


def test_a_file_uri(tmp_path):
    uri = (tmp_path / "a store").as_uri()
    MomentStore(uri, FACTS).put(DAYS[0], "clicks", folds_of("x"))
    assert_pairs(total(opened(tmp_path / "a store")), fold_rows("x"))
    assert_pairs(total(MomentStore(uri, FACTS)), fold_rows("x"))


@pytest.mark.parametrize("missing", ["deltalake", "pyarrow"])
def test_a_missing_package_is_one_sentence(missing):
    code = (
        "import sys\n"
        f"sys.modules[{missing!r}] = None\n"
        "from spark_auc.store.moment_store import MomentStore\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    *_, said = ended.stderr.splitlines()
    assert said.startswith(f"spark_auc.errors.MissingPackageError: found no package {missing}, ")
    assert "run pip install 'spark-auc[store]'" in said


def test_the_store_needs_no_spark():
    code = (
        "import sys\n"
        "for name in ('pyspark', 'pandas', 'pydantic', 'yaml'):\n"
        "    sys.modules[name] = None\n"
        "import spark_auc.store.moment_store\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
