"""Generate a raw table of clicks with named columns and known effects; it needs no cluster.

``python -m spark_auc.app.raw_clicks DIRECTORY`` writes ``clicks.csv``, and ``new.csv`` with
later rows without the label.

The log-odds of a click are a sum of effects: of ``price``, ``age`` and the hour, none of which is
linear; of ``position``; of each site, device and campaign; of missing values; and of each pair of
campaign and device, the interaction. ``impression`` and ``dwell`` have no effect.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
from scipy.special import expit

from spark_auc.core.evaluation.roc import expected_auc
from spark_auc.core.types import Float
from spark_auc.errors import ConfigError

LABEL = "clicked"
_DEVICES = ["phone", "desktop", "tablet", "television, or console"]
_SITES, _CAMPAIGNS = 2000, 60
_PHRASES = [
    "Sale, 20% off",
    'The "best" of {}',
    "Été à Paris, №{}",
    "two lines\nof text",
    "新品 {}",
]
_FIRST, _DAYS = np.datetime64("2026-03-01T00:00:00", "us"), 28
_MICROSECONDS = 86_400_000_000


def raw_clicks(rows: int, seed: int = 0, part: int = 0) -> tuple[pa.Table, float]:
    """Draw clicks.

    Parameters
    ----------
    rows
        Number of rows.
    seed
        An integer that determines effects and rows.
    part
        An integer that determines other rows with the same effects; each part is four weeks later
        than the part before it.

    Returns
    -------
    table
        ``impression`` (text, distinct), ``time`` (timestamp, UTC), ``site`` (text, 2,000 values),
        ``device`` (text), ``campaign`` (text with commas, quotes and newlines), ``position``
        (integer, 1 to 8), ``age`` (integer, a fifth is missing), ``price`` (float with a heavy
        tail, a tenth is missing), ``dwell`` (float, half are 0), ``returning`` (boolean),
        ``clicked`` (integer, 0 or 1).
    auc
        The best AUC that a model can expect on these rows, that of the true probability.

    Raises
    ------
    ConfigError
        ``rows`` is below 1.
    """
    if rows < 1:
        raise ConfigError(f"found rows = {rows}; expected 1 or more")
    drawn = np.random.default_rng([seed, part, 1])
    time = (
        _FIRST
        + np.sort(drawn.integers(0, _DAYS * _MICROSECONDS, rows))
        + part * np.timedelta64(_DAYS, "D")
    )
    site = np.minimum(drawn.zipf(1.3, rows) - 1, drawn.integers(0, _SITES, rows))
    device = drawn.choice(len(_DEVICES), rows, p=[0.55, 0.3, 0.1, 0.05])
    campaign = drawn.integers(0, _CAMPAIGNS, rows)
    position = drawn.integers(1, 9, rows)
    age, price = drawn.integers(16, 90, rows), drawn.lognormal(3.0, 1.5, rows).round(2)
    no_age, no_price = drawn.random(rows) < 0.2, drawn.random(rows) < 0.1
    dwell = np.where(drawn.random(rows) < 0.5, 0.0, drawn.pareto(1.5, rows).round(3))
    returning = drawn.random(rows) < 0.3
    hour = time.astype("datetime64[h]").astype(np.int64) % 24

    effects = np.random.default_rng([seed, 0, 0])
    log_odds = (
        -2.6
        + np.where(no_price, -0.5, 0.8 - 0.5 * (np.log1p(price) - 3.0) ** 2)
        + np.where(no_age, 0.6, ((age - 50) / 25.0) ** 2 - 0.6)
        + 0.5 * np.cos((hour - 20) * np.pi / 12.0)
        - 0.25 * (position - 1)
        + 0.7 * returning
        + effects.normal(0.0, 0.6, _SITES)[site]
        + effects.normal(0.0, 0.3, len(_DEVICES))[device]
        + effects.normal(0.0, 0.5, _CAMPAIGNS)[campaign]
        + effects.normal(0.0, 0.5, (_CAMPAIGNS, len(_DEVICES)))[campaign, device]
    )
    probability: Float = expit(log_odds)
    clicked = drawn.random(rows) < probability
    table = pa.table(
        {
            "impression": _ids(drawn.permutation(rows) + part * rows),
            "time": pa.array(time.astype("datetime64[s]")),
            "site": _named([f"site-{k}.example" for k in range(_SITES)], site),
            "device": _named(_DEVICES, device),
            "campaign": _named([_campaign(k) for k in range(_CAMPAIGNS)], campaign),
            "position": pa.array(position),
            "age": pa.array(age, mask=no_age),
            "price": pa.array(price, mask=no_price),
            "dwell": pa.array(dwell),
            "returning": pa.array(returning),
            LABEL: pa.array(clicked.astype(np.int64)),
        }
    )
    return table, expected_auc(np.sort(probability))


def write(table: pa.Table, path: Path) -> None:
    """Write a table to one file.

    Parameters
    ----------
    table
        The table.
    path
        Its suffix is ``.csv`` or ``.parquet``. Text in CSV is quoted as in RFC 4180, and missing
        values are empty.

    Raises
    ------
    ConfigError
        The path has another suffix.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pq.write_table(table, path)
    else:
        raise ConfigError(f"found suffix {path.suffix!r}; expected .csv or .parquet; rename {path}")


def main(argv: Sequence[str] | None = None) -> None:
    """Write the files of the demo."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("directory", type=Path, help="directory of clicks.csv and new.csv")
    parser.add_argument("--rows", type=int, default=50_000, help="number of rows of clicks.csv")
    parser.add_argument("--seed", type=int, default=0, help="seed of effects and rows")
    given = parser.parse_args(argv)
    table, auc = raw_clicks(given.rows, given.seed)
    later, _ = raw_clicks(max(1, given.rows // 10), given.seed, part=1)
    write(table, given.directory / "clicks.csv")
    write(later.drop_columns([LABEL]), given.directory / "new.csv")
    print(f"{given.directory}: {given.rows} clicks with a best AUC of {auc:.3f}, and new rows")


def _named(names: Sequence[str], codes: np.ndarray) -> pa.Array:
    return pa.array(names).take(pa.array(codes))


def _ids(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("i", pa.array(numbers).cast(pa.string()), "")


def _campaign(number: int) -> str:
    return f"{_PHRASES[number % len(_PHRASES)].format(number)} ({number})"


if __name__ == "__main__":
    main()
