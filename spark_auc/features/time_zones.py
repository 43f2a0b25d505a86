"""Times on the clocks of a zone: hours and weekdays are those that people there read.

A time with a zone is an instant, of which arrays hold the microseconds since 1970 in UTC. A recipe
reads it on the clocks of its own zone, wherever it is applied. A time without a zone is one of
these clocks already.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from spark_auc.core.types import Int
from spark_auc.errors import ConfigError

# The zone of recipes that were stored without one.
DEFAULT = "UTC"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# An offset, alone or after one of these words, as Java writes it.
_OFFSET = re.compile(r"(?:UTC?|GMT)?([+-])(\d{1,2})(?::?(\d\d))?(?::?(\d\d))?")
_MOST_HOURS = 18
# Seconds between which an offset is looked for: no zone changes it twice within five days.
_STEP = 5 * 86_400
# Years whose times Python has in every zone; other years have the offset of the nearest of these.
_YEARS = 2, 9998


# Names of UTC, which machines without another setting have.
_UTC = ("UTC", "Z", "Etc/UTC", "Etc/UCT", "Etc/Universal", "Etc/Zulu", "Universal", "Zulu")


def zone_name(name: str) -> str:
    """The name under which a recipe stores a zone: one for all names of UTC."""
    return DEFAULT if name in _UTC else name


@lru_cache(maxsize=64)
def zone_of(name: str) -> tzinfo:
    """The zone of a name, as Spark's setting ``spark.sql.session.timeZone`` has it.

    Parameters
    ----------
    name
        A region such as "Europe/Berlin", or an offset such as "+01:00".

    Raises
    ------
    ConfigError
        The zone is unknown.
    """
    if name in _UTC:
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, *parts = match.groups(default="0")
        hours, minutes, seconds = map(int, parts)
        offset = timedelta(hours=hours, minutes=minutes, seconds=seconds)
        if hours <= _MOST_HOURS and minutes < 60 and seconds < 60:
            return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        raise ConfigError(
            f"found the time zone {name!r}, expected a region such as Europe/Berlin that this "
            "machine knows, or an offset such as +01:00; set spark.sql.session.timeZone to one, "
            "or install the package tzdata"
        ) from None


def on_clocks(instants: NDArray[np.datetime64], zone: str) -> NDArray[np.datetime64]:
    """Times that the clocks of a zone show.

    Parameters
    ----------
    instants : (n,), datetime64[us]
        Times in UTC; NaT stays NaT.
    zone
        See `zone_of`.

    Returns
    -------
    (n,), datetime64[us]
        The times, without a zone.
    """
    known = ~np.isnat(instants)
    if not known.any() or zone_of(zone) is UTC:
        return instants
    years = instants[known].astype("datetime64[Y]").astype(np.int64) + 1970
    tables = [_offsets(zone, year) for year in np.unique(np.clip(years, *_YEARS)).tolist()]
    starts, offsets = (np.concatenate(parts) for parts in zip(*tables, strict=True))
    seconds = instants[known].astype("datetime64[s]").astype(np.int64)
    places = np.maximum(np.searchsorted(starts, seconds, side="right") - 1, 0)
    times = instants.copy()
    times[known] += offsets[places].astype("timedelta64[s]")
    return times


@lru_cache(maxsize=4096)
def _offsets(zone: str, year: int) -> tuple[Int, Int]:
    """First seconds since 1970 of the offsets within a year of UTC, and the offsets in seconds."""
    start, end = (_seconds(datetime(y, 1, 1, tzinfo=UTC)) for y in (year, year + 1))
    places = [*range(start, end, _STEP), end - 1]
    found = [_offset(zone, place) for place in places]
    starts, offsets = [start], [found[0]]
    for k in range(1, len(places)):
        low, high = places[k - 1], places[k]
        if found[k] == found[k - 1]:
            continue
        # The first second of the new offset.
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if _offset(zone, middle) == found[k] else (middle, high)
        starts.append(high)
        offsets.append(found[k])
    return np.array(starts, np.int64), np.array(offsets, np.int64)


def _offset(zone: str, seconds: int) -> int:
    moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone_of(zone))
    return (moment.utcoffset() or timedelta()) // timedelta(seconds=1)


def _seconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(seconds=1)
