"""The public estimators, one file each, and the model that they return.

``spark_auc`` exports the estimators; jobs import them from here. Begin with
`spark_auc.spark.estimators.mba`.
"""
