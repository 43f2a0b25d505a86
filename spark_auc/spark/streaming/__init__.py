"""Structured Streaming sources that deliver each batch exactly once.

The job ``opauc`` reads files and tables through this room. Begin with
`spark_auc.spark.streaming.stream`.
"""
