"""The exceptions of this package.

Each message names what was found, what was expected and the remedy. A job that fails with one of
these exceptions ends with its ``exit_code`` as status.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any


class SparkAUCError(Exception):
    """Base class of all exceptions of this package.

    Attributes
    ----------
    exit_code
        Exit code of a job that fails with it.
    result
        What the job did before, for its result on standard output.
    """

    exit_code = 1
    result: Mapping[str, Any] = MappingProxyType({})


class ConfigError(SparkAUCError):
    """A setting, parameter or path is missing, unknown, contradictory or set too late."""

    exit_code = 2


class DataError(SparkAUCError):
    """The data cannot be used: a bad value, a bad schema, a single class or no rows."""

    exit_code = 3


class HoldOutError(DataError):
    """All rows of a class belong to one group, so that no validation fold can be formed."""


class ConvergenceError(SparkAUCError):
    """A solver stopped before it reached its tolerance."""

    exit_code = 4


class DriftError(SparkAUCError):
    """The rows of a period differ so much from those before that nothing is trained on them."""

    exit_code = 5

    def __init__(self, message: str, result: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.result = dict(result or {})


class ConflictError(SparkAUCError):
    """Another job changed the output while this job ran; running this job again is safe."""

    exit_code = 75


class StoreConflict(ConflictError):  # noqa: N818
    """Another job changed the period of a moment store; running this job again is safe."""


class ResourceError(SparkAUCError):
    """A job needs more memory than is available or than the settings allow."""


class StorageError(SparkAUCError):
    """A store of files refused a request or did not answer; running the job again is safe."""


class MissingPackageError(SparkAUCError, ImportError):
    """A package of an optional extra is not installed."""

    exit_code = 2


class ModelFormatError(SparkAUCError):
    """A stored model or state has another version, or its bytes are truncated or corrupt."""


def some_of(names: Iterable[object]) -> str:
    """At most ten of some names, and the number of the others."""
    found = list(names)
    return str(found[:10]) + (f" and {len(found) - 10} more" if found[10:] else "")


def unknown_column(name: str, names: Sequence[str]) -> ConfigError:
    """The error for a name that no column has; it proposes the most similar name.

    Parameters
    ----------
    name
        The name.
    names
        The names of the columns.
    """
    near = difflib.get_close_matches(name, names, 1)
    return ConfigError(
        f"found no column {name!r}, expected one of {some_of(names)}"
        + (f"; did you mean {near[0]!r}?" if near else "; set the column's name")
    )


def require(extra: str, *packages: str) -> None:
    """Check that the packages of an extra are installed.

    Parameters
    ----------
    extra
        Name of the extra of this package that installs them.
    packages
        Import names of the packages.

    Raises
    ------
    MissingPackageError
        A package is not installed.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"found no package {', '.join(missing)}, expected {', '.join(packages)}; run pip "
            f"install 'spark-auc[{extra}]', or install the missing packages beside the Spark of "
            "your platform"
        )
