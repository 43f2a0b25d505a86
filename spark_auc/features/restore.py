"""Restoring a feature map of any class from its bytes."""

from __future__ import annotations

from spark_auc.core.state.codec import kind_of
from spark_auc.features.crosses import CrossMap
from spark_auc.features.embedding import Embedding
from spark_auc.features.fourier import FourierMap
from spark_auc.features.network import NetworkMap
from spark_auc.features.nystroem import NystroemMap
from spark_auc.features.splines import Splines
from spark_auc.features.thresholds import ThresholdMap

_CLASSES: dict[str, type[Embedding]] = {
    kind.__name__: kind
    for kind in (CrossMap, FourierMap, NetworkMap, NystroemMap, Splines, ThresholdMap)
}


def restore(data: bytes) -> Embedding:
    """The feature map from the bytes of its `to_bytes`.

    Raises
    ------
    ModelFormatError
        The bytes are not a feature map, have another version, or are truncated.
    """
    return _CLASSES[kind_of(data, _CLASSES)].from_bytes(data)
