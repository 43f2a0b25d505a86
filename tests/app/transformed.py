"""Rows of Spark scored by a published model."""

from spark_auc.spark.data.spark_table import SparkTable


def transformed(model, rows):
    """The DataFrame with the columns that the model adds."""
    return model.scored(SparkTable(rows)).frame
