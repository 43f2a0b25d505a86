"""Tables of this process, and their measures by the names of `spark_auc.evaluate`."""

import numpy as np
import pandas as pd
import pyarrow as pa

from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.tables.arrow_table import ArrowTable


def scored(n):
    """Rows with scores of three kinds, labels, weights and groups."""
    rng = np.random.default_rng(5)
    y = rng.random(n) < 0.2
    s = rng.normal(size=n) + y
    return pd.DataFrame(
        {
            "s": s,
            "tied": np.round(s * 3) / 3,
            "p": 1 / (1 + np.exp(-s)),
            "label": y.astype(float),
            "u": rng.uniform(0.1, 3.0, n),
            "count": rng.integers(1, 4, n),
            "day": rng.integers(0, 5, n).astype(str),
        }
    )


def table_of(frame, part_rows=700):
    """A pandas data frame in parts."""
    return ArrowTable.of(pa.Table.from_pandas(frame, preserve_index=False), part_rows)


def evaluate(table, scoreCol="s", positiveLabel=None, weightCol=None, **settings):
    """The measures of scores with labels in the column ``label``."""
    return evaluated(table, ScoreColumns(scoreCol, "label", positiveLabel, weightCol), **settings)
