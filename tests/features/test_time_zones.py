"""Times on the clocks of a zone, against Python's own datetimes."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest

from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.features.kinds.parts_of_times import Hour, Weekday
from spark_auc.features.kinds.spline import Spline
from spark_auc.features.recipe import Recipe
from spark_auc.features.recipe_json import from_json, to_json
from spark_auc.features.single_row import SingleRow
from spark_auc.features.time_zones import on_clocks, zone_name, zone_of
from spark_auc.serving.tables import columns_of
from spark_auc.tables.arrow_columns import raw_column

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Zones with changes of half an hour, of a day, in opposite seasons, during Ramadan, and none.
ZONES = [
    "America/New_York",
    "Australia/Lord_Howe",
    "Pacific/Apia",
    "Africa/Casablanca",
    "Europe/Dublin",
    "Asia/Kathmandu",
]


@pytest.mark.parametrize("name", ZONES)
def test_clocks_of_python(name: str) -> None:
    rng, zone = np.random.default_rng(0), ZoneInfo(name)
    seconds = rng.integers(-(2**31), 2**32, 1500)
    # Quarters of an hour of two years, for the changes.
    seconds = np.append(seconds, rng.choice(np.arange(1_293_840_000, 1_356_998_400, 900), 5000))
    instants = (seconds * 10**6 + rng.integers(0, 10**6, seconds.size)).astype("M8[us]")
    moments = [EPOCH + timedelta(microseconds=int(k)) for k in instants.astype(np.int64)]
    expected = np.array([m.astimezone(zone).replace(tzinfo=None) for m in moments], "M8[us]")
    np.testing.assert_array_equal(on_clocks(instants, name), expected)


def test_years_beyond_those_of_python_and_missing_times() -> None:
    instants = np.array([-(2**62), "NaT", 2**62, 0], "M8[us]")
    found = on_clocks(instants, "Asia/Kolkata")
    assert np.isnat(found[1])
    assert (found[[2, 3]] - instants[[2, 3]] == np.timedelta64(330, "m")).all()
    assert on_clocks(instants[:0], "Asia/Kolkata").size == 0
    np.testing.assert_array_equal(on_clocks(instants, "Etc/UTC"), instants)


@pytest.mark.parametrize(
    ("name", "minutes"),
    [("+05:30", 330), ("-0800", -480), ("GMT+8", 480), ("UTC-03:30", -210), ("UTC", 0), ("Z", 0)],
)
def test_offsets_as_java_writes_them(name: str, minutes: int) -> None:
    assert zone_of(name).utcoffset(None) == timedelta(minutes=minutes)
    shifted = on_clocks(np.zeros(1, "M8[us]"), name)
    assert shifted[0] == np.timedelta64(minutes, "m").astype("m8[us]").astype("M8[us]")


@pytest.mark.parametrize("name", ["PST", "", "America", "../x", "+25:00", "a\0b"])
def test_unknown_zones(name: str) -> None:
    with pytest.raises(ConfigError, match=r"found the time zone .*expected .*timeZone"):
        zone_of(name)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_arrow_times_with_a_zone_and_without(unit: str) -> None:
    moment = datetime(2024, 7, 1, 3, tzinfo=UTC)
    zoned = pa.array([moment, None], pa.timestamp(unit, "Asia/Tokyo"))
    plain = pa.array([moment.replace(tzinfo=None), None], pa.timestamp(unit))
    there, here = (raw_column("t", a, "America/New_York").values[0] for a in (zoned, plain))
    assert (there, here) == (np.datetime64("2024-06-30T23:00"), np.datetime64("2024-07-01T03:00"))
    assert raw_column("t", zoned).values[0] == np.datetime64("2024-07-01T03:00")


RECIPE = Recipe(
    (Spline("t", "time", (19_700.0, 19_900.0)),),
    (Hour("t", "time"), Weekday("t", "time")),
    64,
    zone="America/New_York",
)


def test_rows_and_tables_in_all_forms() -> None:
    """Times without a zone are New York's; those with one are converted to it."""
    moments = [EPOCH + timedelta(days=19_700, hours=7 * k) for k in range(300)]
    local = [m.astimezone(ZoneInfo("America/New_York")).replace(tzinfo=None) for m in moments]
    tokyo = [m.astimezone(timezone(timedelta(hours=9))) for m in moments]
    at_utc = Recipe(RECIPE.numeric, RECIPE.hashed, 64)
    plain = pa.table({"t": pa.array(local, pa.timestamp("us"))})
    expected = at_utc.transform(columns_of(plain, at_utc))
    single = SingleRow.of(RECIPE)
    for values in (local, tokyo):
        kind = pa.timestamp("us", "Asia/Tokyo" if values is tokyo else None)
        table = pa.table({"t": pa.array(values, kind)})
        found = RECIPE.transform(columns_of(table, RECIPE))
        assert (found != expected).nnz == 0
        for k, value in enumerate(values):
            data, indices = single({"t": value})
            np.testing.assert_array_equal(indices, expected[k].indices)
            np.testing.assert_array_equal(data, expected[k].data)


def test_json_has_the_zone() -> None:
    assert from_json(to_json(RECIPE)) == RECIPE
    without = Recipe(RECIPE.numeric, RECIPE.hashed, 64)
    stored = json.loads(to_json(without))
    assert "zone" not in stored
    assert from_json(json.dumps(stored)).zone == "UTC"
    with pytest.raises(ModelFormatError, match="time zone 'Nowhere'"):
        from_json(json.dumps(stored | {"zone": "Nowhere"}))


def test_all_names_of_utc_are_one() -> None:
    for name in ("UTC", "Z", "Etc/UTC", "Zulu"):
        assert zone_name(name) == "UTC"
        assert zone_of(name) is UTC
    assert zone_name("Europe/Berlin") == "Europe/Berlin"
