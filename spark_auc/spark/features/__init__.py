"""Feature maps as pipeline stages, one file each.

A stage fits the map of the same name in `spark_auc.features` and applies it in the tasks.
``spark_auc`` exports the stages. Begin with `spark_auc.spark.features.embedding`.
"""
