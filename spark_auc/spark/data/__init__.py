"""DataFrames as batches of rows, and states merged from the tasks of a job.

The room holds feature columns, readers of Parquet, LIBSVM and click logs, the aggregation of
states, memory checks and the session. The other Spark rooms and the jobs import from here. Begin
with `spark_auc.spark.data.rows`.
"""
