"""Structured Streaming sources, whose batches are processed exactly once.

The job ``opauc`` reads files and tables through this room. Begin with
`spark_auc.spark.streaming.stream`.
"""
