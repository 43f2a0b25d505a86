"""Any embedding from its bytes."""

from __future__ import annotations

from spark_auc.core.codec import kind_of
from spark_auc.embeddings.crosses import CrossMap
from spark_auc.embeddings.embedding import Embedding
from spark_auc.embeddings.fourier import FourierMap
from spark_auc.embeddings.network import NetworkMap
from spark_auc.embeddings.nystroem import NystroemMap
from spark_auc.embeddings.splines import Splines
from spark_auc.embeddings.thresholds import ThresholdMap

_CLASSES: dict[str, type[Embedding]] = {
    made.__name__: made
    for made in (CrossMap, FourierMap, NetworkMap, NystroemMap, Splines, ThresholdMap)
}


def restore(data: bytes) -> Embedding:
    """The embedding, of whichever class, that `to_bytes` stored.

    Raises
    ------
    ModelFormatError
        The bytes are no state, that of something else or of another version, or are truncated.
    """
    return _CLASSES[kind_of(data, _CLASSES)].from_bytes(data)
