"""The columns that a ranker takes and gives, as MLflow's signature, and example rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from mlflow.models import ModelSignature
from mlflow.types import ColSpec, DataType, Schema, TensorSpec
from mlflow.types.schema import AnyType

from spark_auc.serving.ranker import ServedRanker

# Types in which MLflow takes missing values and changes none. It refuses missing integers, and
# reads a missing boolean of JSON as false: these columns have the type "any".
_TYPES = {"text": DataType.string, "float": DataType.double, "time": DataType.datetime}
_ANY = AnyType()  # type: ignore[no-untyped-call]


def signature_of(ranker: ServedRanker) -> ModelSignature:
    """The signature of a ranker: its raw columns or features, and the columns of `scored`.

    All columns are required, for a misspelt name must not score as a missing value. Their values
    may be missing where a recipe has them. Segments and features by name are of any type.
    """
    types = {} if ranker.recipe is None else {c.name: c.type for c in ranker.recipe.inputs}
    inputs: list[ColSpec | TensorSpec] = [TensorSpec(np.dtype(float), (-1, ranker.width))]
    if ranker.columns is not None:
        inputs = [ColSpec(_TYPES.get(types.get(name, ""), _ANY), name) for name in ranker.columns]
    outputs: list[ColSpec | TensorSpec] = [
        ColSpec(DataType.double, name) for name in _outputs(ranker)
    ]
    return ModelSignature(Schema(inputs), Schema(outputs))


def scored(ranker: ServedRanker, rows: Any) -> pd.DataFrame:
    """Scores of rows, and probabilities if the ranker has a calibration; errors as of `score`."""
    scores = np.atleast_1d(ranker.score(rows))
    columns = [scores] if ranker.curve is None else [scores, ranker.curve.at(scores)]
    index = rows.index if isinstance(rows, pd.DataFrame) else None
    return pd.DataFrame(dict(zip(_outputs(ranker), columns, strict=True)), index=index)


def example_of(rows: Any) -> Any:
    """Example rows as MLflow stores them: a data frame of mappings and tables, or an array."""
    if isinstance(rows, Mapping):
        return pd.DataFrame([rows])
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows.to_pandas()
    if isinstance(rows, list) and rows and isinstance(rows[0], Mapping):
        return pd.DataFrame(rows)
    return rows if isinstance(rows, pd.DataFrame) else np.atleast_2d(np.asarray(rows, float))


def _outputs(ranker: ServedRanker) -> tuple[str, ...]:
    return ("score",) if ranker.curve is None else ("score", "probability")
