"""Tables of Delta Lake and Iceberg on the driver: their files, and commits of rows.

A table of either room has ``schema``, ``partitions``, ``files`` and ``write``. No file of this room
imports pyspark. Begin with `spark_auc.lakes.delta`.
"""
