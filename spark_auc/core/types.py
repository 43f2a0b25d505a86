"""Array types by what they hold; a docstring gives the shape."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
# Hashes by which rows are told apart.
Keys = NDArray[np.uint64]
# Column and entry numbers are unsigned: with signed ones numba checks each for counting from the
# end of the array, which takes half the time of a light loop.
Index = NDArray[np.uint32]
Places = NDArray[np.uint64]
# Feature rows (n, d).
Rows: TypeAlias = Float | sparse.csr_matrix | sparse.csr_array
