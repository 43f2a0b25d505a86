"""Tallies of values: the laws of states, and counts by Python."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

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


def test_laws_of_hashes_of_classes():
    drawn = np.random.default_rng(0)
    y, uniform = drawn.random(60) < 0.3, drawn.random(60)

    def of(rows):
        return ClassHashes.of([(y[rows], uniform[rows])])

    check_laws(Case(ClassHashes.of([]), of, lambda state: state.rows.ravel() / 60, 60))
