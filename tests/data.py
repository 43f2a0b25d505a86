"""The real data sets, where the environment provides them."""

import os
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

DIRECTORY = Path(os.environ.get("SPARK_AUC_DATA", "../shared/data")).resolve()


def path(name: str) -> Path:
    """Where the data set lies; skips the test where it is absent."""
    found = (DIRECTORY / name).resolve()
    if not found.exists():
        pytest.skip(f"no {name} in {DIRECTORY}: set SPARK_AUC_DATA")
    return found


def libsvm(name: str, dimension: int) -> tuple[sparse.csr_matrix, np.ndarray]:
    """Rows and labels of a LIBSVM file, read without the code under test."""
    from sklearn.datasets import load_svmlight_file

    return load_svmlight_file(str(path(name)), n_features=dimension)
