"""Raw clicks: columns, known effects, and files that others read."""

import csv

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.metrics import roc_auc_score

from spark_auc.app.raw_clicks import main, raw_clicks, write
from spark_auc.errors import ConfigError

ROWS = 4000


def test_the_seed_determines_the_rows():
    one, best = raw_clicks(ROWS, seed=3)
    again, same = raw_clicks(ROWS, seed=3)
    assert one.equals(again)
    assert best == same
    other, _ = raw_clicks(ROWS, seed=4)
    assert not one["price"].equals(other["price"])


def test_what_the_columns_hold():
    table, best = raw_clicks(ROWS)
    rows = table.to_pandas()
    assert 0.75 < best < 0.9
    assert 0.05 < rows["clicked"].mean() < 0.15
    assert rows["impression"].nunique() == ROWS
    assert rows["site"].nunique() > 300
    assert set(rows["device"]) >= {"phone", "television, or console"}
    assert 0.15 < rows["age"].isna().mean() < 0.25
    assert 0.05 < rows["price"].isna().mean() < 0.15
    assert rows["price"].max() > 20 * rows["price"].median()
    assert rows["time"].is_monotonic_increasing
    assert roc_auc_score(rows["clicked"], -rows["position"]) > 0.55


def test_parts_have_other_rows_and_the_same_effects():
    (early, _), (later, _) = (raw_clicks(60_000, part=part) for part in (0, 1))
    rates = [t.to_pandas().groupby("campaign")["clicked"].mean() for t in (early, later)]
    assert np.corrcoef(*rates)[0, 1] > 0.8
    assert early["time"].to_numpy().max() < later["time"].to_numpy().min()
    assert not set(early["impression"].to_pylist()) & set(later["impression"].to_pylist())


def test_files(tmp_path):
    main([str(tmp_path), "--rows", "50"])
    table, _ = raw_clicks(50)
    with (tmp_path / "clicks.csv").open(newline="", encoding="utf-8") as file:
        read = list(csv.DictReader(file))
    for name in ("campaign", "device", "site"):
        assert [row[name] for row in read] == table[name].to_pylist()
    assert any("\n" in row["campaign"] for row in read)
    assert [row["age"] for row in read] == [
        "" if v is None else str(v) for v in table["age"].to_pylist()
    ]
    assert "clicked" not in (tmp_path / "new.csv").read_text(encoding="utf-8").splitlines()[0]
    write(table, tmp_path / "clicks.parquet")
    assert pq.read_table(tmp_path / "clicks.parquet").num_rows == 50


def test_mistakes_are_named(tmp_path):
    with pytest.raises(ConfigError, match="found rows = 0; expected 1"):
        raw_clicks(0)
    with pytest.raises(ConfigError, match=r"'\.xls'; expected \.csv or \.parquet"):
        write(raw_clicks(1)[0], tmp_path / "clicks.xls")
