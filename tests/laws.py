"""What every mergeable state must obey, as one suite; `test_laws.py` runs it over each class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from spark_auc.errors import ModelFormatError
from tests.stored import of_version


@dataclass(frozen=True)
class Case:
    """How the suite handles one state class.

    Parameters
    ----------
    zero
        The state of no rows.
    of
        The state of some rows, given as an array of row numbers.
    view
        The state as one vector for comparison, scaled so that 1 is the size of its elements.
    rows
        Number of rows that ``of`` knows.
    inverse
        Whether the class subtracts and scales.
    """

    zero: Any
    of: Callable[[np.ndarray], Any]
    view: Callable[[Any], np.ndarray]
    rows: int
    inverse: bool = False


def check_laws(case: Case) -> None:
    """Assert all laws."""
    everything = np.arange(case.rows)
    rng = np.random.default_rng(0)
    whole = case.of(everything)

    def same(a: Any, b: Any, tolerance: float = 1e-12) -> None:
        np.testing.assert_allclose(case.view(a), case.view(b), rtol=0, atol=tolerance)

    for sizes in ((1,), (1, 1, case.rows - 2), (case.rows // 2,), (3, 10, 20, 5)):
        mixed = rng.permutation(everything)
        parts = [case.of(p) for p in np.split(mixed, np.cumsum(sizes))]
        left = parts[0]
        for part in parts[1:]:
            left = left.merge(part)
        right = parts[-1]
        for part in parts[-2::-1]:
            right = part.merge(right)
        same(left, whole)  # split-invariant
        same(left, right)  # associative
        same(parts[0].merge(parts[1]), parts[1].merge(parts[0]))  # commutative
    same(whole.merge(case.zero), whole, 0)
    same(case.zero.merge(whole), whole, 0)
    same(case.zero.merge(case.zero), case.zero, 0)

    for state in (whole, case.zero):
        data = state.to_bytes()
        back = type(state).from_bytes(data)
        assert back.to_bytes() == data
        same(back, state, 0)
    for damaged in (
        b"",
        data[:-1],
        data + b"\0",
        b"XXXX" + data[4:],
        of_version(data, 9),
    ):
        with pytest.raises(ModelFormatError, match=r"expected|truncated"):
            type(state).from_bytes(damaged)

    if case.inverse:
        some, others = np.split(rng.permutation(everything), [case.rows // 3])
        same(whole.subtract(case.of(some)), case.of(others))
        same(whole.subtract(whole), case.zero)
        same(whole.subtract(case.zero), whole, 0)
        twice = whole.scale(0.5).merge(whole.scale(0.5))
        same(twice, whole)
