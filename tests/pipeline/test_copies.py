"""Copies of rows to train on among rows to test on, beside counts by pandas."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from spark_auc import train
from spark_auc.errors import DataError
from spark_auc.pipeline.copies import copied
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.split import by_key

LABEL = ("y", None)


def table(frame):
    return ArrowTable.of(pa.Table.from_pandas(frame, preserve_index=False))


def oversampled(rows=150, copies=8, seed=0):
    """Rows whose label is noise, each several times, and the number of each."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(rows, 3)), columns=["a", "b", "c"])
    frame = frame.assign(word=rng.choice(["x", "z"], rows), y=rng.integers(0, 2, rows))
    made = pd.concat([frame] * copies, ignore_index=True)
    return made.assign(id=np.arange(len(made))).sample(frac=1.0, random_state=seed)


def expected(train_rows, test_rows, columns):
    seen = train_rows.groupby(columns, dropna=False)["y"].agg(set)
    shares = []
    for label in (0, 1):
        own = test_rows[test_rows.y == label]
        found = [
            seen.get(row if len(columns) > 1 else row[0])
            for row in zip(*own[columns].T.values, strict=True)
        ]
        shares.append(np.mean([labels == {label} for labels in found]))
    return min(shares)


@pytest.mark.parametrize("columns", [["a", "b", "c", "word"], ["a"], ["word"]])
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_the_share_is_that_of_pandas(columns, noise):
    frame, rng = oversampled(), np.random.default_rng(1)
    frame = frame.assign(y=np.where(rng.random(len(frame)) < noise, 1 - frame.y, frame.y))
    parts = by_key(table(frame), 0.7, 0, label=LABEL)
    frames = [part.gathered().to_pandas() for part in parts]
    found = copied(*parts, columns, LABEL)
    assert found == pytest.approx(expected(*frames, columns))
    if noise == 0 and "a" in columns:
        assert found > 0.9
        assert copied(*parts, columns, LABEL, 0.4) == pytest.approx(found, abs=0.1)


def test_rows_of_few_possible_values_are_no_copies(caplog):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.integers(0, 4, (4000, 3)), columns=["a", "b", "c"])
    frame = frame.assign(y=rng.random(4000) < 0.05, id=np.arange(4000))
    parts = by_key(table(frame), 0.8, 0, label=LABEL)
    assert copied(*parts, ["a", "b", "c"], LABEL) < 0.05
    train(frame, "y", training={"regParam": 0.1})
    assert "held-out rows" not in caplog.text


def test_following_the_warning_helps(caplog):
    frame = oversampled()
    first = train(frame, "y", refit=False)
    assert first.evaluation.auc > 0.7
    assert "leave out the other columns ('id'), or name" in caplog.text
    caplog.clear()
    second = train(frame, "y", refit=False, features={"leaveOut": ["id"]})
    assert second.evaluation.auc < 0.65
    assert "copies" not in caplog.text


def test_the_warning_names_the_share_and_the_columns(caplog):
    frame = oversampled().assign(**{f"same{k}": 1 for k in range(25)})
    frame = frame.assign(y=np.array(["bad", "good"])[frame.y])
    train(frame, "y", positive="good", refit=False, training={"regParam": 0.1})
    assert "100% of the held-out rows of each class equal rows to train on" in caplog.text
    assert "the other columns ('id', 'same0', 'same1', " in caplog.text
    assert "'same18' and 6 more), or name a key" in caplog.text


def test_columns_without_a_hash_tell_rows_apart(caplog):
    """Decimals of more than 18 digits have no hash."""
    frame = oversampled()
    amounts = [Decimal(k) / 10000 for k in range(len(frame))]
    rows = pa.Table.from_pandas(frame, preserve_index=False)
    train(rows.append_column("amount", pa.array(amounts, pa.decimal128(38, 4))), "y", refit=False)
    assert "copies" not in caplog.text


def test_names_of_columns_to_leave_out_are_checked():
    frame = oversampled(50, 4)
    given = {"test": 0.5, "training": {"regParam": 0.1}}
    found = train(frame, "y", **given, features={"leaveOut": frame.columns[-1:]}).model.recipe
    assert "id" not in {column.name for column in found.inputs}
    with pytest.raises(TypeError, match="found leaveOut 5, expected a list"):
        train(frame, "y", **given, features={"leaveOut": 5})


def test_a_key_of_folds_is_that_of_the_held_out_rows():
    frame = oversampled().assign(key=lambda rows: rows.id % 150)
    given = {"features": {"leaveOut": ["id"]}, "refit": False}
    found = train(frame, "y", training={"keyCol": "key"}, **given)
    assert found.evaluation.auc == train(frame, "y", key="key", **given).evaluation.auc


def test_a_class_of_one_row_is_named():
    frame = pd.DataFrame({"a": np.arange(50.0), "y": np.arange(50) == 7})
    with pytest.raises(DataError, match="found 1 positive row among 50, expected at least 2"):
        train(frame, "y")
    parts = by_key(table(frame.assign(y=np.arange(50) % 25 == 7)), 0.8, 0, label=LABEL)
    assert [sum(part.gathered()["y"].to_pylist()) for part in parts] == [1, 1]


def test_columns_that_are_not_hashed_move_no_row():
    frame = oversampled().assign(w=lambda rows: 1.0 + rows.id)
    parts = by_key(table(frame), 0.7, 0, label=LABEL, without=["ID", "w", "unknown"])
    plain = by_key(table(frame.drop(columns=["id", "w"])), 0.7, 0, label=LABEL)
    for found, other in zip(parts, plain, strict=True):
        assert found.select(["a", "y"]).gathered().equals(other.select(["a", "y"]).gathered())
        assert found.gathered().num_rows
    seen = [set(part.gathered()["a"].to_pylist()) for part in parts]
    assert not seen[0] & seen[1]
