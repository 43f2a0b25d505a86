"""Arrays and mergeable states, without Spark, files or configuration.

The files of this room define batches of rows, sources of rows, labels and array types. Every other
room may import from them. Begin with `spark_auc.core.batch`.
"""
