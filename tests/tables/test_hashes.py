"""Hashes do not depend on the types of columns, and stay what they are."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.hashes import HASHES, xxhash64
from spark_auc.tables.split import by_key

DAY = datetime.date(2026, 3, 1)
AT = datetime.datetime(2026, 3, 1)
WHOLE = [0, 1, -3, 100, None]

# As Spark's xxhash64 of bigint, double, timestamp_ntz and string.
GOLDEN = [
    (pa.array([0, 1, -3]), [-5252525462095825812, -7001672635703045582, 1828574075509201448]),
    (
        pa.array([0.5, -1e300, np.nan]),
        [3031145945194818975, 3086024234770041280, -3127944061524951246],
    ),
    (pa.array([AT]), [6221377166523464574]),
    (
        pa.array(["", "añb", "x" * 40]),
        [-7444071767201028348, -7468826893327415371, -5348608777870439244],
    ),
]


@pytest.mark.parametrize(("array", "expected"), GOLDEN)
def test_hashes_stay_what_they_are(array, expected):
    """Folds of stored moments depend on them; new hashes need a new `HASHES`."""
    assert HASHES == 2
    assert xxhash64([array]).view(np.int64).tolist() == expected


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.int16(), pa.int32(), pa.float32(), pa.float64(), pa.decimal128(9, 2)],
    ids=str,
)
def test_whole_numbers_have_one_hash(kind):
    expected = xxhash64([pa.array(WHOLE, pa.int64())])
    values = WHOLE if not pa.types.is_decimal(kind) else [v and Decimal(v) for v in WHOLE]
    np.testing.assert_array_equal(xxhash64([pa.array(values, kind)]), expected)


def test_values_have_one_hash():
    def same(*arrays):
        return len({tuple(xxhash64([array]).tolist()) for array in arrays}) == 1

    assert same(pa.array([True, False]), pa.array([1, 0]), pa.array([1.0, -0.0]))
    assert same(pa.array([0.5, -2.25]), pa.array([0.5, -2.25], pa.float32()))
    assert same(pa.array([DAY]), pa.array([AT], pa.timestamp("us")), pa.array([AT], "timestamp[s]"))
    # Nanoseconds are rounded down, before 1970 too.
    late, early = (pa.array([k], pa.timestamp("ns")) for k in (1_999, -1_001))
    assert same(late, pa.array([1], pa.timestamp("us")))
    assert same(early, pa.array([-2], pa.timestamp("us")))
    assert same(pa.array([np.nan]), pa.array([-np.nan], pa.float32()))
    assert same(pa.array(["a", None]), pa.array(["a", None]).dictionary_encode())
    assert not same(pa.array([2.0**63]), pa.array([2**63 - 1]))
    assert not same(pa.array([0.0]), pa.array([None], pa.float64()))


def test_a_missing_value_moves_no_other_row():
    ids = np.arange(3000)
    whole = ArrowTable.of(pa.table({"id": ids, "x": ids % 50}))
    some = pa.array(np.where(ids % 97, ids % 50, np.nan), from_pandas=True)
    missing = ArrowTable.of(pa.table({"id": ids.astype(float), "x": some}))
    first, second = (by_key(table, 0.8, 3)[0].gathered() for table in (whole, missing))
    kept = [{int(n) for n in part["id"].to_pylist() if n % 97} for part in (first, second)]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("positives", [2, 12, 700])
@pytest.mark.parametrize("share", [0.5, 0.8, 0.99])
def test_both_parts_have_the_share_of_each_class(positives, share):
    rng = np.random.default_rng(positives)
    label = np.repeat([1, 0], [positives, 3000 - positives])
    table = ArrowTable.of(pa.table({"x": rng.normal(size=3000), "y": label}), 400)
    first, second = (part.gathered() for part in by_key(table, share, 0, label=("y", None)))
    assert first.num_rows + second.num_rows == 3000
    for value, count in ((1, positives), (0, 3000 - positives)):
        here, there = ((np.asarray(part["y"]) == value).sum() for part in (first, second))
        assert min(here, there) > 0
        assert abs(here - share * count) <= max(1, share * count - count + 1)
    alike = [set(map(str, part.to_pylist())) for part in (first, second)]
    assert not alike[0] & alike[1]


def test_rows_of_equal_values_and_label_stay_together():
    rng = np.random.default_rng(0)
    rows = pa.table({"x": rng.integers(0, 900, 2000), "y": rng.integers(0, 2, 2000)})
    parts = [part.gathered() for part in by_key(ArrowTable.of(rows), 0.6, 1, label=("y", None))]
    first, second = ({(r["x"], r["y"]) for r in part.to_pylist()} for part in parts)
    assert first
    assert second
    assert not first & second
