"""Tables of this process, and their measures by the names of `spark_auc.evaluate`."""

import pyarrow as pa

from spark_auc.pipeline.evaluation import evaluated
from spark_auc.pipeline.score_columns import ScoreColumns
from spark_auc.tables.arrow_table import ArrowTable


def table_of(frame, part_rows=700):
    """A pandas data frame in parts."""
    return ArrowTable.of(pa.Table.from_pandas(frame, preserve_index=False), part_rows)


def evaluate(table, scoreCol="s", positiveLabel=None, weightCol=None, **settings):
    """The measures of scores with labels in the column ``label``."""
    return evaluated(table, ScoreColumns(scoreCol, "label", positiveLabel, weightCol), **settings)
