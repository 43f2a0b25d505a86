"""Tallies of values: the laws of states, and counts by Python."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_auc.tables import text_types
from spark_auc.tables.stratified import ClassHashes
from spark_auc.tables.tally import Tally
from spark_auc.tables.text_formats import FORMATS
from spark_auc.tables.text_types import TextKinds
from tests.laws import Case, check_laws

VALUES = [None if k % 7 == 3 else "abcdefgh"[k % 8] * (k % 3) for k in range(60)]


def view(tally):
    """Counts of the first values, and of missing ones."""
    return np.append(tally.rows, tally.missing) / len(VALUES)


def test_laws():
    case = Case(
        Tally.zero(4),
        lambda i: Tally.of(pa.array([VALUES[k] for k in i], pa.string()), 4),
        view,
        len(VALUES),
    )
    # Of few rows there are fewer values: views of one length come from all rows alone.
    check_laws(case)


@pytest.mark.parametrize("most", [3, 100])
def test_counts_are_those_of_python(most):
    counts = Counter(value for value in VALUES if value is not None)
    parts = [Tally.of(pa.array(VALUES[k : k + 7], pa.string()), most) for k in range(0, 60, 7)]
    for order in (parts, parts[::-1]):
        found = order[0]
        for part in order[1:]:
            found = found.merge(part)
        assert found.values.tolist() == sorted(counts)[:most]
        assert found.rows.tolist() == [counts[v] for v in sorted(counts)[:most]]
        assert found.missing == VALUES.count(None)


KINDS = ["1", "-2", "3.5", "", "2024-02-29", "true", "x", "4"]


ZERO = TextKinds.zero(np.ones((3, len(FORMATS)), np.bool_))


def test_laws_of_types():
    def of(rows):
        columns = [pa.array([KINDS[(k + c) % 8] for k in rows], pa.string()) for c in range(3)]
        return ZERO.update(pa.record_batch(columns, ["a", "b", "c"]), [(), (), ("x",)])

    def view(kinds):
        counts = [kinds.odd.ravel(), kinds.values]
        return np.concatenate([kinds.fits.ravel(), kinds.codes, *counts]).astype(float)

    check_laws(Case(ZERO, of, view, 24))


@pytest.mark.parametrize(("part_bytes", "first"), [(1, 1), (1 << 26, 2), (1 << 26, 64)])
def test_types_of_many_columns_are_those_of_each_value_alone(monkeypatch, part_bytes, first):
    monkeypatch.setattr(text_types, "_PART_BYTES", part_bytes)
    monkeypatch.setattr(text_types, "_FIRST", first)
    rng = np.random.default_rng(0)
    words = [*KINDS, "007", "$12", "10/49", ">20", "2 months", "13/01/2020", "1/2/2020", "?", None]
    columns = [list(rng.choice(np.array(own, object), 30)) for own in (words, words[:4], words[8:])]
    columns += [["1"] * 30, [None] * 30, list(map(str, range(30)))]
    most, names = 3, [f"c{k}" for k in range(len(columns))]
    batch = pa.record_batch([pa.array(c, pa.string()) for c in columns], names)
    fits = np.ones((len(columns), len(FORMATS)), np.bool_)
    fits[1, 0] = fits[5, 1] = False
    kinds = TextKinds.zero(fits, most).update(batch, [("x",) if k == 0 else () for k in range(6)])
    for k, column in enumerate(columns):
        values = [v for v in column if v and v != "?" and not (k == 0 and v == "x")]
        assert kinds.values[k] == len(values)
        assert kinds.codes[k] == ("007" in values)
        expected = {}
        for t, form in enumerate(FORMATS.values()):
            odd = [v for v in values if not fitted(form, v)]
            if fits[k, t] and len(set(odd)) <= most:
                expected[[*FORMATS][t]] = len(odd)
        assert kinds.odd_of(k) == expected


def fitted(form, value):
    text = pa.array([value])
    matches = pc.match_substring_regex(text, form.pattern)[0].as_py()
    return matches and form.convert(text)[0].is_valid


def test_laws_of_hashes_of_classes():
    drawn = np.random.default_rng(0)
    y, uniform = drawn.random(60) < 0.3, drawn.random(60)

    def of(rows):
        return ClassHashes.of([(y[rows], uniform[rows])])

    check_laws(Case(ClassHashes.of([]), of, lambda state: state.rows.ravel() / 60, 60))
