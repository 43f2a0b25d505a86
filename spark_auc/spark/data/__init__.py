"""Read DataFrames as batches of rows, and merge the states that tasks compute.

The room contains Spark's table of the pipeline, readers of Parquet, LIBSVM and click logs, the
aggregation of states, memory checks and the session. The other Spark rooms and the jobs import from
it. Begin with `spark_auc.spark.data.spark_table`.
"""
