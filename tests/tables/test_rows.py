"""Training rows of tables: their moments in every form of features, and every refusal."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.sparse import csr_array

from spark_auc.errors import ConfigError, DataError
from spark_auc.tables.arrow_table import ArrowTable
from spark_auc.tables.encoders import encode_vectors
from spark_auc.tables.features import PreparedFeatures
from tests.tables.feature_rows import D, N, U, Y, arrays, assert_same, moments, vectors


def found_in(rows, *arguments, **settings):
    return moments(ArrowTable.of(rows, 70), *arguments, **settings)


def changed(rows, name, values):
    return rows.set_column(rows.schema.get_field_index(name), name, values)


@pytest.mark.parametrize("kind", ["dense", "sparse", "mixed"])
def test_vector_columns(kind):
    found, labels = found_in(vectors(kind))
    assert_same(found)
    assert labels.rows == {0.0: int((~Y).sum()), 1.0: int(Y.sum())}


@pytest.mark.parametrize(
    ("features", "dimension"),
    [("features", None), (["i", "v"], D), ([f"x.{j}" for j in range(D)], None)],
)
def test_other_forms_of_features(features, dimension):
    found, _ = found_in(arrays(), features, dimension)
    assert_same(found)


@pytest.mark.parametrize("part_rows", [1, 5, 60, N])
def test_any_parts_give_the_same_moments(part_rows):
    """Parts of one class are among them."""
    rows = vectors()
    for order in (np.arange(N), np.argsort(Y, kind="stable")):
        assert_same(moments(ArrowTable.of(rows.take(order), part_rows))[0])


def bad(name, value):
    def change(rows):
        kind = rows.schema.field(name).type
        return changed(
            rows, name, pc.if_else(pc.equal(rows["u"], U[7]), pa.scalar(value, kind), rows[name])
        )

    return change


def more(features):
    """One more row, of these features."""

    def change(rows):
        row = {"features": features, "label": pa.array([1.0]), "u": pa.array([1.0])}
        return pa.concat_tables([rows, pa.table(row, rows.schema)])

    return change


def dense(*values):
    return encode_vectors(np.array([values]))


def sparse(size, index, value):
    return encode_vectors(csr_array(([value], ([0], [index])), (1, size)))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (bad("label", None), "1 nulls in label column"),
        (bad("label", 2.0), "found 3 label values"),
        (bad("u", 1e-200), "1 weights that are NaN, negative or out of range"),
        (bad("u", -1.0), r"the first is -1\.0"),
        (bad("u", float("nan")), "the first is nan"),
        (lambda rows: rows.filter(pc.field("label") == 0), "found one class only: 0.0"),
        (lambda rows: rows[:0], "found no rows"),
        (lambda rows: changed(rows, "label", pc.add(rows["label"], 1)), "expected 0 and 1 or -1"),
        (more(dense(1.0, np.nan, 0, 0, 0, 0)), "1 features that are NaN or infinite"),
        (more(sparse(D, 1, np.inf)), "the first is inf"),
        (more(dense(*[1.0] * 5)), r"the first has 5 features\), expected 6"),
        (more(sparse(7, 1, 1.0)), r"the first has 7 features\), expected 6"),
        (more(dense(*[0.0] * 6).take(pa.nulls(1, pa.int64()))), "1 nulls in column 'features'"),
    ],
)
def test_bad_values(change, message):
    with pytest.raises(DataError, match=message):
        found_in(change(vectors()))


@pytest.mark.parametrize(
    ("indices", "values", "message"),
    [
        ([0, 6], [1.0, 1.0], "feature index 6, expected 0 to 5"),
        ([-1, 2], [1.0, 1.0], "feature index -1"),
        ([3, 2], [1.0, 1.0], "index 2 after 3 in one row"),
        ([2, 2], [1.0, 1.0], "index 2 after 2 in one row"),
        ([1, 2], [1.0], "2 indices with 1 values"),
        ([1, None], [1.0, 1.0], "1 nulls in elements of column 'i'"),
        (None, [1.0], "1 nulls in column 'i'"),
    ],
)
def test_bad_indices(indices, values, message):
    rows = pa.table({"i": [[0, 1], indices], "v": [[1.0, 2.0], values], "label": [0.0, 1.0]})
    with pytest.raises(DataError, match=message):
        found_in(rows, ["i", "v"], D, weight=None)


@pytest.mark.parametrize(
    ("value", "message"),
    [(None, "1 nulls in column 'high'"), (float("nan"), r"the first is nan of column 'high'\)")],
)
def test_bad_values_of_numeric_columns_name_them(value, message):
    rows = pa.table({"low": [1.0, 1.0], "high": [2.0, value], "label": [0.0, 1.0]})
    with pytest.raises(DataError, match=message):
        found_in(rows, ["low", "high"], weight=None)


def test_labels_of_any_kind():
    rows = vectors()
    expected = found_in(rows)[0].to_bytes()

    def bits(labels, positive=None):
        return found_in(changed(rows, "label", pa.array(labels)), positive=positive)[0].to_bytes()

    text = np.where(Y, "yes", "no")
    assert bits(text, "yes") == expected
    with pytest.raises(ConfigError, match="set positiveLabel"):
        bits(text)
    with pytest.raises(DataError, match="expected one to be positiveLabel 'maybe'"):
        bits(text, "maybe")
    assert bits(Y * 2.0 - 1) == expected
    assert bits(2.0 - Y, 1) == expected
    assert bits(Y) == expected


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("feature", "did you mean 'features'"),
        (["features", "label"], "expected one vector column"),
        (["i", "v"], "set numFeatures"),
    ],
)
def test_unusable_feature_columns(features, message):
    rows = vectors() if "i" not in features else arrays()
    with pytest.raises(ConfigError, match=message):
        PreparedFeatures.resolve(ArrowTable.of(rows), features)
