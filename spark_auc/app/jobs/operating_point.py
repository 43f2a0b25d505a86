"""The threshold that the job score applies: a number, or the one that an evaluation chose."""

from __future__ import annotations

import json
import math

from spark_auc.app.config.scoring import Score
from spark_auc.app.jobs.published_model import KIND
from spark_auc.errors import ConfigError, ModelFormatError
from spark_auc.publication.versions import current

_FILE = "evaluation.json"


def threshold_of(config: Score) -> float | None:
    """The threshold of a configuration; None for that of the model. It needs no Spark session.

    Raises
    ------
    ConfigError
        There is no evaluation, or it has no finite threshold by the criterion.
    ModelFormatError
        A file of the publication is missing or damaged.
    """
    criterion = config.threshold
    if not isinstance(criterion, str):
        return criterion
    place, kind = (config.evaluation, "evaluation") if config.evaluation else (config.model, KIND)
    version = current(place, kind)
    if _FILE not in version.names():
        raise ConfigError(
            f"found the threshold {criterion!r} and no {_FILE} at {place!r}, expected the "
            "evaluation of labelled rows; run the job evaluate and set score.evaluation, or set a "
            "number"
        )
    try:
        chosen = json.loads(version.read(_FILE))["thresholds"][criterion]["threshold"]
        if chosen is not None and not math.isfinite(chosen):
            raise ValueError(f"a threshold of {chosen}")
    except (KeyError, TypeError, ValueError) as failure:
        raise ModelFormatError(
            f"found no threshold {criterion!r} in {_FILE} at {place!r} ({failure!r}), expected "
            "that of the job evaluate; evaluate again"
        ) from None
    if chosen is None:
        raise ConfigError(
            f"found an infinite threshold {criterion!r} at {place!r}, at which no row is predicted "
            "positive, expected a finite one; set a number or another criterion"
        )
    return float(chosen)
