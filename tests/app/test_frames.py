"""Data frames and Arrow tables of all classes: trained on and scored alike, or refused in words."""

import io
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import spark_auc
from spark_auc.errors import ConfigError, DataError

ROWS = 400
RNG = np.random.default_rng(0)
X, Z = RNG.normal(size=(2, ROWS))
Y = (X + RNG.normal(size=ROWS) > 0.5).astype(int)
FRAME = pd.DataFrame({"x": X, "z": Z, "y": Y})
PLAIN = {"regParam": 0.1}


def trained(rows, label="y", **others):
    return spark_auc.train(rows, label, **{"training": PLAIN, "refit": False} | others)


def test_labels_in_categories_and_views_of_text():
    words = np.where(Y, "yes", "no")
    expected = trained(FRAME.assign(y=words), positive="yes").evaluation.auc
    for label in (pd.Categorical(words), pd.Categorical(words, ["no", "maybe", "yes"])):
        assert trained(FRAME.assign(y=label), positive="yes").evaluation.auc == expected
    views = pa.array(words.tolist(), pa.string_view())
    table = pa.table({"x": X, "z": Z, "c": views, "y": Y})
    alike = table.set_column(2, "c", views.cast(pa.string()))
    np.testing.assert_array_equal(trained(table).score(table), trained(alike).score(alike))
    assert trained(table.drop_columns("y").append_column("y", views), positive="yes").evaluation


def test_labels_of_text_that_could_be_another_type(tmp_path):
    expected = trained(FRAME).evaluation.auc
    for words, positive in (("true", "false"), "true"), (("1", "0"), "1"), (("1", "0"), None):
        frame = FRAME.assign(y=np.where(Y, *words))
        assert trained(frame, positive=positive).evaluation.auc == expected
        frame.to_csv(tmp_path / "rows.csv", index=False)
        assert trained(tmp_path / "rows.csv", positive=positive).evaluation.auc == expected
    assert trained(FRAME.assign(y=np.where(Y, "true", "false"))).evaluation.auc == expected


@pytest.mark.parametrize(
    "names", [[0, 1, "y"], [("a", 2020), ("a", 2021), "y"], [b"a", b"b", "y"]], ids=str
)
def test_names_that_are_no_text_score_as_they_were_trained(names):
    frame = FRAME.set_axis(names, axis=1)
    found = trained(frame)
    np.testing.assert_array_equal(found.score(frame), trained(FRAME).score(FRAME))
    assert found.ranker.columns == (str(names[0]), str(names[1]))


def test_a_label_may_be_a_number():
    frame = FRAME.set_axis([0, 1, 2], axis=1)
    assert trained(frame, 2).evaluation.auc == trained(FRAME).evaluation.auc


def test_a_record_batch_is_a_table():
    batch = pa.RecordBatch.from_pandas(FRAME)
    assert trained(batch).evaluation.auc == trained(FRAME).evaluation.auc


def test_text_of_frames_is_read_as_that_of_files(tmp_path):
    days = pd.date_range("2024-01-01", periods=ROWS).strftime("%d/%m/%Y")
    written = FRAME.assign(x=FRAME.x.map("{:.6f}".format), d=days).to_csv(index=False)
    (tmp_path / "rows.csv").write_text(written)
    frame = pd.read_csv(io.StringIO(written), float_precision="round_trip")
    assert not pd.api.types.is_datetime64_any_dtype(frame.d)
    of_file, of_frame = trained(str(tmp_path / "rows.csv")), trained(frame)
    assert of_frame.model.recipe == of_file.model.recipe
    assert {column.type for column in of_frame.model.recipe.inputs} == {"float", "time"}
    np.testing.assert_array_equal(of_frame.score(frame), of_file.score(frame))


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (FRAME.set_axis(["x", "x", "y"], axis=1), "found 2 columns 'x', expected one"),
        (
            pa.Table.from_arrays([pa.array(X), pa.array(X), pa.array(Y)], ["x", "x", "y"]),
            "found 2 columns 'x', expected one",
        ),
        (FRAME.assign(x=[Decimal("Infinity")] * ROWS), "column 'x' that have no type"),
        (FRAME.assign(x=pd.arrays.SparseArray(X)), "column 'x' that have no type"),
        (FRAME.assign(x=["\ud800", "a"] * (ROWS // 2)), "column 'x' that have no type"),
        (FRAME.assign(x=[1, "a"] * (ROWS // 2)), "column 'x' that have no type"),
    ],
    ids=["twice", "twice in a table", "infinite", "sparse", "no UTF-8", "two types"],
)
def test_frames_that_cannot_serve(rows, words):
    with pytest.raises(DataError, match=words):
        trained(rows)


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ({"method": "Auto"}, "found method 'Auto', expected None or 'auto'"),
        ({"test": None}, "found test None, expected a share"),
        ({"features": ["x"]}, r"found features \['x'\], expected a mapping"),
        ({"training": 0.1}, "found training 0.1, expected a mapping"),
    ],
)
def test_arguments_that_cannot_serve(others, words):
    with pytest.raises(ConfigError, match=words):
        trained(FRAME, **others)


def test_names_to_leave_out_are_a_list():
    with pytest.raises(TypeError, match="leaveOut"):
        trained(FRAME, key="z", features={"leaveOut": "x"})


@pytest.mark.parametrize("text", ["0000-01-01", "0001-01-01T00:00:00+14:00", "\ud800"])
def test_text_of_one_row_that_no_time_has(text):
    times = pd.Series(pd.date_range("2024-01-01", periods=ROWS))
    found = trained(FRAME.assign(t=times))
    with pytest.raises(DataError, match="found 't'"):
        found.ranker.score({"x": 1.0, "z": 0.0, "t": text})
