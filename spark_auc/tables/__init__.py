"""Tables of raw columns, and the rows, labels and features that tasks read of them.

A table is what an engine implements. Everything else here is written once, over Arrow batches, and
runs in tasks of any engine. Begin with `spark_auc.tables.table`.
"""
