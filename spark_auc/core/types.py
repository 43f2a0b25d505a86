"""Array types by element type, and the type of paths. Docstrings give the shapes."""

from __future__ import annotations

from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Bool = NDArray[np.bool_]
# A single whole number; that of a kernel may be of NumPy.
Integer: TypeAlias = int | np.integer[Any]
# Hashes that identify rows.
Keys = NDArray[np.uint64]
# Column and entry indices are unsigned: for signed ones numba adds a test for negative indices,
# which takes half the time of a light loop.
Index = NDArray[np.uint32]
Places = NDArray[np.uint64]
# Feature rows (n, d).
Rows: TypeAlias = Float | sparse.csr_matrix | sparse.csr_array
# A path, as text or of pathlib, or a URI. Every function that takes one turns it into text first.
AnyPath: TypeAlias = str | PathLike[str]
