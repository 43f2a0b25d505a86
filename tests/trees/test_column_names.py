"""The columns that models name."""

import pytest

from spark_auc.errors import ConfigError
from spark_auc.trees.column_names import columns_named


@pytest.mark.parametrize(
    ("names", "columns", "expected"),
    [
        (["b", "a"], ["a", "b", "label"], ["b", "a"]),
        (["b_c", "a"], ["a", "b c"], ["b c", "a"]),
        (["b c", "a"], ["a", "b c"], ["b c", "a"]),
        (["b c_d"], ["b c d", "b c_d"], ["b c_d"]),
        (["f1", "f0"], ["f0", "f1"], ["f1", "f0"]),
    ],
)
def test_columns_have_the_names(names, columns, expected):
    assert columns_named(names, columns) == expected


@pytest.mark.parametrize(
    ("names", "columns", "said"),
    [
        ([], ["a"], r"found no names of columns .* set trees\.columns"),
        (["Column_0", "Column_1"], ["Column_0", "Column_1"], r"no names .*\(Column_0, Column_1\)"),
        (["f0", "f1"], ["f0", "f1"], "found no names of columns"),
        (["a", "c"], ["a", "b"], r"'c' \(0 columns\) .* set trees\.columns"),
        (["A"], ["a"], r"'A' \(0 columns\)"),
        (["b_c"], ["b c", "b_c"], r"'b_c' \(2 columns\)"),
        (["b_c_d"], ["b c_d", "b_c d"], r"'b_c_d' \(2 columns\)"),
        (["b c"], ["b_c"], r"'b c' \(0 columns\)"),
        (["b c", "b_c"], ["b c"], "two names of one column"),
        (["a", "a"], ["a"], "two names of one column"),
        (["a", "b"], ["a", "b", "b"], r"'b' \(2 columns\)"),
    ],
)
def test_names_of_no_column_or_of_several_are_refused(names, columns, said):
    with pytest.raises(ConfigError, match=said):
        columns_named(names, columns)
