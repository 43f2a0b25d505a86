"""The exceptions that users meet.

Each message names what was found, what was expected and the remedy. ``exit_code`` is the
status with which a job that fails with the exception ends.
"""

from __future__ import annotations

from importlib.util import find_spec


class SparkAUCError(Exception):
    """Base of every error this package raises on purpose."""

    exit_code = 1


class ConfigError(SparkAUCError):
    """A setting, parameter or path is missing, unknown, contradictory or comes too late."""

    exit_code = 2


class DataError(SparkAUCError):
    """The data cannot be used: a bad value, a bad schema, one class only, or no rows."""

    exit_code = 3


class HoldOutError(DataError):
    """The rows of a class are of one group, of which none can be held out."""


class ConvergenceError(SparkAUCError):
    """A solver stopped before it reached the tolerance asked for."""

    exit_code = 4


class ConflictError(SparkAUCError):
    """Another job changed meanwhile what this one was to replace; it may be run again."""

    exit_code = 75


class ResourceError(SparkAUCError):
    """A job would need more memory than the settings allow."""


class MissingPackageError(SparkAUCError, ImportError):
    """A package of an extra of this one is not installed."""

    exit_code = 2


class ModelFormatError(SparkAUCError):
    """A saved model or state is of another version, truncated or changed."""


def require(extra: str, *packages: str) -> None:
    """Refuse to go on without the packages of an extra.

    Parameters
    ----------
    extra
        The extra of this package that installs them.
    packages
        Names under which they are imported.

    Raises
    ------
    MissingPackageError
        One of them cannot be found.
    """
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise MissingPackageError(
            f"found no package {', '.join(missing)}, expected {', '.join(packages)}; run pip "
            f"install 'spark-auc[{extra}]', or install the missing ones beside the Spark of your "
            "platform"
        )
