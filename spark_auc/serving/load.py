"""Loading a ranker without Spark."""

from __future__ import annotations

from os import fspath

from spark_auc.core.types import AnyPath
from spark_auc.errors import ConfigError
from spark_auc.publication.directory import Directory
from spark_auc.publication.manifest import MANIFEST
from spark_auc.publication.versions import current
from spark_auc.serving.ranker import ServedRanker
from spark_auc.serving.stored_stage import StoredStage


def load(location: AnyPath) -> ServedRanker:
    """Load a ranker into this process; neither Java nor pyspark is needed.

    Parameters
    ----------
    location
        Where a job published the ranker, or where a `RankerPipelineModel` or a `LinearRankerModel`
        was saved: a path, or a URI that Arrow's file systems reach.

    Returns
    -------
    ServedRanker
        The ranker; it does not change when another version is published.

    Raises
    ------
    ConfigError
        The location has neither, or cannot be reached.
    ModelFormatError
        A file is missing, truncated or changed, or of another version.

    Examples
    --------
    >>> import tempfile
    >>> from spark_auc import MBAClassifier, load
    >>> model = MBAClassifier(featuresCol=["position", "age"], regParam=0.1).fit(rows)
    >>> path = tempfile.mkdtemp() + "/ranker"
    >>> model.save(path)
    >>> load(path).score([1.0, 40.0]) > load(path).score([7.0, 40.0])
    True
    """
    return ServedRanker.of(stored(location)[0])


def stored(location: AnyPath) -> tuple[StoredStage, Directory | None]:
    """The saved ranker of a location, and the directory of its version if a job published it.

    Errors are those of `load`.
    """
    location = fspath(location)
    directory = Directory.of(location)
    names = directory.names()
    if MANIFEST in names:
        version = current(location, "model")
        return StoredStage.read(version / "model"), version
    if "metadata" not in names:
        raise ConfigError(
            f"found no ranker at {location!r}, expected one that a job published or that was "
            "saved; check the path"
        )
    return StoredStage.read(directory), None
